//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// TestE2ESequenceFailover: two replicas, and then four, number the messages of 200 rooms while
// the sentinels promote a replica that lacks the last second. Nothing is out of order, and
// each room is dense before that. A service that counts by INCR breaks the order then.
func TestE2ESequenceFailover(t *testing.T) {
	story(t)
	setup, dsn := testserver.Sentinel(t), testserver.SharedMariaDB(t).NewDatabase(t)
	setup.DownAfter(t, 2*time.Second)
	addChat(t, onMariaDB(dsn), "--step", "5000")
	s := numbering(onMariaDB(dsn).With(onSentinel(setup)))
	c, plain := newChat(t, 200), newChat(t, 200)
	for i, d := range serveReady(t, 2, s) {
		c.ask(fmt.Sprint("replica ", i+1), d, nothing)
	}
	for i := range 2 {
		plain.askPlain(fmt.Sprint("service ", i+1), redis.NewFailoverClient(&redis.FailoverOptions{MasterName: setup.MasterName, SentinelAddrs: setup.Addrs}))
	}
	t.Logf("numbers after %v", c.goesOn(startLimit))
	plain.goesOn(startLimit)
	for i, d := range serveReady(t, 2, s) {
		c.ask(fmt.Sprint("replica ", i+3), d, nothing)
	}
	c.goesOn(startLimit)
	waitSame(t, setup.Master, setup.Replica)
	cutOff(t, setup.Replica, setup.Master)
	time.Sleep(time.Second)
	c.wantDense()
	begun := time.Now()
	setup.Master.Kill()
	promoted := setup.MasterAddr(t, setup.Master.Addr)
	t.Logf("the sentinels promoted %s after %v", promoted, time.Since(begun).Round(10*time.Millisecond))
	c.takeover("failover", begun)
	plain.goesOn(time.Minute)
	time.Sleep(3 * time.Second)
	plain.wantDisorder()
	c.settle()
}

// wantDense fails unless every number of the rooms up to the highest was given to somebody:
// while Redis lost nothing.
func (c *chat) wantDense() {
	c.t.Helper()
	highest := int64(0)
	for _, last := range c.order.Highest() {
		highest += last
	}
	flying := 2 * len(c.members)
	if gaps, most := highest-int64(c.order.Count()), 21*int64(flying+c.order.Tally().Lost); gaps < 0 || gaps > most {
		c.t.Errorf("%d numbers of %d are missing, %d may be", gaps, highest, most)
	}
}

// TestE2ESequenceNeedsRedis: without Redis there are no sequences; the other modes do not mind.
func TestE2ESequenceNeedsRedis(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	addChat(t, onMariaDB(dsn))
	d := serve(t, numbering(onMariaDB(dsn)))
	eventually(t, startLimit, "the other modes serve", func() bool { return d.get(snowflakeGet).status == 200 && d.get(uidTarget(1)).status == 200 })
	a, b := d.get("/v1/sequence/chat/ids?key=room1"), d.get("/v1/sequence/chat/current?key=room1")
	c := redis.NewClient(&redis.Options{Addr: d.respAddr(), MaxRetries: -1})
	defer c.Close()
	err := c.Incr(context.Background(), "sequence:chat:room1").Err()
	if a.status == 200 || a.Code == 0 || !strings.Contains(a.Message, "Redis") || err == nil || err.Error() != fmt.Sprintf("SHARDID %d %s", a.Code, a.Message) {
		t.Errorf("%d %s; over RESP %v", a.status, a.body, err)
	}
	if b.status != a.status || b.body != a.body {
		t.Errorf("%d %s, and for current %d %s", a.status, a.body, b.status, b.body)
	}
	d.want("/readyz", 200, 0)
}

// TestE2ESequenceMadeAgain: a space is deleted and made again with other sections, twice, while
// replicas are asked. No number comes twice.
func TestE2ESequenceMadeAgain(t *testing.T) {
	check.Deep(t)
	story(t)
	s := onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t)).With(onRedis(testserver.Redis(t).Addr))
	addChat(t, s)
	unknown := func(err error) bool {
		return strings.HasPrefix(err.Error(), "404, code -2: ") || strings.HasPrefix(err.Error(), "SHARDID -2 ")
	}
	c := newChat(t, 50)
	for i, d := range serveReady(t, 2, numbering(s)) {
		c.ask(fmt.Sprint("replica ", i+1), d, unknown)
	}
	c.goesOn(startLimit)
	for _, sections := range []string{"64", "3"} {
		time.Sleep(time.Second)
		must(t, s, "sequences", "delete", "--space", "chat", "--confirm", "chat")
		begun := time.Now()
		eventually(t, time.Minute, "the space is made again", func() bool { // refused at first: replicas may have it for the length of a lease
			o := shardid(t, s, "sequences", "add", "--space", "chat", "--sections", sections, "--step", "50")
			if o.exit != 0 && !strings.Contains(o.stderr, "deleted a moment ago") {
				t.Fatalf("%+v", o)
			}
			return o.exit == 0
		})
		c.takeover("made again", begun)
	}
	time.Sleep(time.Second)
	c.settle()
}
