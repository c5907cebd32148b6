//go:build unix

package e2e_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// TestDirectedSequenceRedisForgets: Redis loses what it knew in one way or another while two
// replicas are asked. Nothing is out of order; what counts by INCR in the same Redis is.
func TestDirectedSequenceRedisForgets(t *testing.T) {
	check.Deep(t)
	story(t)
	restart := func(r *testserver.RedisServer) { r.Kill(); r.Restart() }
	for name, forget := range map[string]func(t *testing.T, r *testserver.RedisServer){
		"emptied":          func(_ *testing.T, r *testserver.RedisServer) { r.FlushAll() },
		"restarted, empty": func(_ *testing.T, r *testserver.RedisServer) { restart(r) },
		"restarted from an old snapshot": func(t *testing.T, r *testserver.RedisServer) {
			order(t, r.Client(), "SAVE")
			time.Sleep(time.Second)
			restart(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, server := testserver.SharedMariaDB(t).NewDatabase(t), testserver.Redis(t)
			addChat(t, onMariaDB(dsn))
			c, plain := newChat(t, 200), newChat(t, 200)
			for i, d := range serveReady(t, 2, numbering(onMariaDB(dsn).With(onRedis(server.Addr)))) {
				c.ask(fmt.Sprint("replica ", i+1), d, nothing)
			}
			for i := range 2 {
				plain.askPlain(fmt.Sprint("service ", i+1), redis.NewClient(&redis.Options{Addr: server.Addr}))
			}
			c.goesOn(startLimit)
			for range 2 {
				time.Sleep(time.Second)
				begun := time.Now()
				forget(t, server)
				c.takeover(name, begun)
			}
			time.Sleep(time.Second)
			plain.wantDisorder()
			c.settle()
		})
	}
}

// split is a Redis with sentinels that can be split: the old master then answers those alone
// that come as the user "inside".
type split struct {
	*testserver.SentinelSetup
	t *testing.T
}

func newSplit(t *testing.T) split {
	t.Helper()
	s := split{testserver.Sentinel(t), t}
	s.DownAfter(t, 2*time.Second)
	for _, server := range []*testserver.RedisServer{s.Master, s.Replica} {
		order(t, server.Client(), "ACL", "SETUSER", "inside", "on", ">inside", "~*", "&*", "+@all")
	}
	return s
}

// inside are the settings of a replica that the old master answers on.
func inside(redis settings) settings {
	return redis.With(settings{"REDIS_USERNAME": "inside", "REDIS_PASSWORD": "inside"})
}

func (s split) insider() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Master.Addr, Username: "inside", Password: "inside"})
}

// cut keeps the sentinels, the Redis replica and everybody else from the master.
func (s split) cut() {
	s.t.Helper()
	c := s.insider()
	defer c.Close()
	order(s.t, c, "ACL", "SETUSER", "default", "off")
	order(s.t, c, "CLIENT", "KILL", "USER", "default")
}

// outside is a client that follows the sentinels.
func (s split) outside() *redis.Client {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.MasterName, SentinelAddrs: s.Addrs})
}

// TestDirectedSequenceSplit: the master is cut off from the sentinels and all others, but still
// answers one replica. When the others go on with the Redis that was promoted, the one has
// stopped; it goes on there as well once it is led to it.
func TestDirectedSequenceSplit(t *testing.T) {
	check.Deep(t)
	story(t)
	setup, dsn := newSplit(t), testserver.SharedMariaDB(t).NewDatabase(t)
	s := onMariaDB(dsn)
	addChat(t, s, "--step", "1000")
	c, plain := newChat(t, 100), newChat(t, 100)
	cutOff := serve(t, numbering(s.With(inside(onRedis(setup.Master.Addr)))))
	alone := c.ask("the replica inside", cutOff, anything)
	var others []*member
	for i, d := range serveReady(t, 2, numbering(s.With(onSentinel(setup.SentinelSetup)))) {
		others = append(others, c.ask(fmt.Sprintf("replica %d outside", i+1), d, nothing)...)
	}
	plain.askPlain("the service inside", setup.insider())
	plain.askPlain("the service outside", setup.outside())
	c.goesOn(startLimit)
	plain.goesOn(startLimit)

	setup.cut()
	begun := time.Now()
	t.Logf("the old master answers on: %v", c.goesOn(10*time.Second, alone...))
	c.takeover("split", begun, others...)
	eventually(t, startLimit, "the replica inside stops", func() bool { return cutOff.get("/v1/sequence/chat/ids?key=room1").status != 200 })
	time.Sleep(2 * time.Second)
	plain.wantDisorder()

	cutOff.Kill()
	back := serve(t, numbering(s.With(onSentinel(setup.SentinelSetup))))
	others = append(others, c.ask("the replica that came back", back, nothing)...)
	c.goesOn(time.Minute, others...)
	time.Sleep(time.Second)
	c.settle()
}

// TestDirectedSequenceFrozen: a replica is frozen while it holds a lease of the old master,
// and connections that this one still answers. It wakes up when the others have gone on, with
// requests that came meanwhile: these are not answered by what the old master says.
func TestDirectedSequenceFrozen(t *testing.T) {
	check.Deep(t)
	story(t)
	for name, frozen := range map[string]time.Duration{"until the others go on": 0, "for long": 18 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setup, dsn := newSplit(t), testserver.SharedMariaDB(t).NewDatabase(t)
			s := onMariaDB(dsn)
			addChat(t, s, "--step", "1000")
			c := newChat(t, 20)
			sleeper := serve(t, numbering(s.With(inside(onSentinel(setup.SentinelSetup)))))
			asleep := c.ask("the frozen replica", sleeper, anything)
			d := serve(t, numbering(s.With(onSentinel(setup.SentinelSetup))))
			others := c.ask("the other replica", d, nothing)
			c.goesOn(startLimit)

			sleeper.Signal(syscall.SIGSTOP)
			setup.cut()
			begun := time.Now()
			c.takeover("frozen", begun, others...)
			for i := range 8 { // they ask now, and are heard when it wakes up
				c.ask(fmt.Sprint("late caller ", i+1), sleeper, anything)
			}
			time.Sleep(max(time.Second, time.Until(begun.Add(frozen))))
			sleeper.Signal(syscall.SIGCONT)
			c.takeover("awake", time.Now(), append(asleep, others...)...)
			time.Sleep(2 * time.Second)
			c.settle()
		})
	}
}
