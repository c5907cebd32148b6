//go:build unix

package stories_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// The stories of sequences: rooms of a chat whose messages are numbered. The numbers of a room rise in real
// time, whatever happens. What breaks them is in the table of scripts/faults, but for the headline.

// TestSequenceFailover: two replicas, and then four, number the messages of 200 rooms while the sentinels
// promote a replica that lacks the last second. Nothing is out of order, and each room is dense before that. A
// service that counts by INCR breaks the order then.
func TestSequenceFailover(t *testing.T) {
	story(t)
	setup, dsn := testserver.Sentinel(t), testserver.SharedMariaDB(t).NewDatabase(t)
	setup.DownAfter(t, 2*time.Second)
	must(t, onMariaDB(dsn), "migrate")
	must(t, onMariaDB(dsn), "spaces", "add", "--space", "chat", "--sections", "16", "--step", "5000")
	s := numbering(onMariaDB(dsn).With(onSentinel(setup)))
	c, plain := newChat(t, 200), newChat(t, 200)
	add := func() {
		for _, d := range serveReady(t, 2, s) {
			c.ask(d, false)
		}
	}
	add()
	for range 2 {
		opts := &redis.FailoverOptions{MasterName: setup.MasterName, SentinelAddrs: setup.Addrs}
		client := redis.NewFailoverClient(opts)
		t.Cleanup(func() { _ = client.Close() })
		plain.join("a service", rig.Incr{Redis: client, Prefix: "chat:"}, true)
	}
	c.goesOn(startLimit)
	plain.goesOn(startLimit)
	add()
	c.goesOn(startLimit)
	cutOff(t, setup)
	time.Sleep(time.Second) // which the replica lacks
	c.wantDense()
	setup.Master.Kill()
	setup.MasterAddr(t, setup.Master.Addr)
	c.goesOn(time.Minute)
	plain.goesOn(time.Minute)
	time.Sleep(3 * time.Second) // of numbers that may be out of order
	plain.stop()
	if tally, again := plain.order.Tally(), plain.order.Duplicates(); tally.Back == 0 || again == 0 {
		t.Errorf("of INCR %d answers went back, %d numbers came again: the fault shows nothing", tally.Back, again)
	}
	c.settle()
}

// TestSequenceEmbedded: in the process, keys stay dense over orderly stops and continue above all that was given
// after others. No number comes twice, whichever it is.
func TestSequenceEmbedded(t *testing.T) {
	story(t)
	dir, s := t.TempDir(), numbering(nil)
	for _, args := range [][]string{{"migrate"}, {"spaces", "add", "--space", "chat", "--step", "50"}} {
		if o := shardidIn(t, dir, s, args...); o.exit != 0 {
			t.Fatalf("%v: %+v", args, o)
		}
	}
	c, last := newChat(t, 50), int64(0)
	for round, orderly := range []bool{true, false, true, true, false} {
		d := serveIn(t, dir, s)
		quiet := rig.SequenceHTTP{Client: d.client, URL: d.url, Space: "chat"} // of a room that nobody else writes to
		for times := range 2 {
			before := last
			var first int64
			rig.Until(t, startLimit, "a number", func() (err error) {
				first, last, err = quiet.Take(t.Context(), "quiet", 3)
				return err
			})
			if dense := round == 0 || times > 0; dense && first != before+1 || first <= before {
				t.Errorf("start %d: number %d after %d", round+1, first, before)
			}
		}
		c.goesOn(startLimit, c.ask(d, true)...)
		time.Sleep(300 * time.Millisecond) // of numbers to be counted
		if orderly {
			d.stops(syscall.SIGTERM, startLimit)
		} else {
			d.Kill()
		}
		c.stop()
	}
	c.settle()
}

// numbering are settings of a replica whose rooms are asked over HTTP and RESP.
func numbering(stores settings) settings { return stores.With(settings{"RESP_ADDR": "127.0.0.1:0"}) }

// chat is many rooms whose messages several members number, each in its own way. All that they are answered is
// checked for order.
type chat struct {
	t       *testing.T
	rooms   int
	order   *rig.Order
	members []*member
	callers []*rig.Callers
}

// member is who asks one server in one way.
type member struct {
	rig.Sequence
	name   string
	latest atomic.Int64 // when the latest call was asked that was answered, ns
}

func newChat(t *testing.T, rooms int) *chat { return &chat{t: t, rooms: rooms, order: &rig.Order{}} }

// ask joins callers of a replica, over HTTP and RESP.
func (c *chat) ask(d *daemon, killed bool) (both []*member) {
	c.t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: d.respAddr(), MaxRetries: -1, ReadTimeout: 20 * time.Second, ContextTimeoutEnabled: true,
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return []*member{
		c.join(d.url, rig.SequenceHTTP{Client: d.client, URL: d.url, Space: "chat"}, killed),
		c.join(d.url+" over RESP", rig.Incr{Redis: client, Prefix: "sequence:chat:"}, killed),
	}
}

// join lets a member number messages until the chat ends. One that is no shardid, or is killed, is plain: it may
// fail in any way.
func (c *chat) join(name string, s rig.Sequence, plain bool) *member {
	c.t.Helper()
	m, callers := &member{Sequence: s, name: name}, &rig.Callers{}
	callers.Start(c.t, 2, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(uint64(len(name)), uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			begun := time.Now()
			asking, cancel := context.WithTimeout(ctx, 20*time.Second)
			err := c.order.DrawAny(asking, name, m, rnd, c.rooms, true)
			cancel()
			switch {
			case err == nil:
				m.latest.Store(begun.UnixNano())
			case ctx.Err() == nil && !plain && !away(err):
				c.order.Complain("%s: %v", name, err)
			}
		}
	})
	c.members, c.callers = append(c.members, m), append(c.callers, callers)
	return m
}

// away says that a replica refused as it does while it starts, or waits for its stores.
func away(err error) bool {
	var refusal *rig.RefusalError
	if errors.As(err, &refusal) {
		return refusal.Status == 503 && (refusal.Code == -4 || refusal.Code == -1) && refusal.Message != ""
	}
	return strings.HasPrefix(err.Error(), "SHARDID -4 ") || strings.HasPrefix(err.Error(), "SHARDID -1 ")
}

// goesOn returns when each of the members, by default all, was answered what it asked from now on.
func (c *chat) goesOn(limit time.Duration, members ...*member) {
	c.t.Helper()
	if members == nil {
		members = c.members
	}
	begun := time.Now().UnixNano()
	for _, m := range members {
		eventually(c.t, limit, "a number from "+m.name, func() bool { return m.latest.Load() >= begun })
	}
}

// wantDense fails unless every number of the rooms up to the highest was given to somebody: while Redis lost
// nothing. Calls may be on their way.
func (c *chat) wantDense() {
	c.t.Helper()
	highest := int64(0)
	for _, last := range c.order.Highest() {
		highest += last
	}
	flying := 2 * len(c.members)
	gaps, most := highest-int64(c.order.Count()), rig.MaxRun*int64(flying+c.order.Tally().Lost)
	if gaps < 0 || gaps > most {
		c.t.Errorf("%d numbers of %d are missing, %d may be", gaps, highest, most)
	}
}

// stop ends the callers.
func (c *chat) stop() {
	for _, callers := range c.callers {
		callers.Stop()
	}
}

// settle ends the chat, and fails the test for whatever was not in order.
func (c *chat) settle() {
	c.t.Helper()
	if c.stop(); c.order.Count() < 1000 {
		c.t.Errorf("%d numbers are too few to show anything", c.order.Count())
	}
	c.order.Settle(c.t)
}
