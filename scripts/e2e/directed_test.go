//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/faults"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// The directed tests take the cases of docs/never-twice.md one by one, through
// real processes. What the scripts do about each is tested beside them, in
// repository/redisstore.

// aliceList is the list that alice's IDs of app 1 come from.
const aliceList = "id.gen.idList_1_0"

// direct makes a process take nothing ahead and refill only on demand, so that
// what Redis holds is what would be served next.
func direct() settings {
	return settings{"QUEUE_PREFETCH_MAX": "1", "QUEUE_REFILL_CRON": "0 0 0 1 1 *", "QUEUE_TIMEOUT": "500ms"}
}

// take gets n IDs for alice, some at a time; the first may need a while.
func take(d *daemon, books *ledger, n int) {
	d.t.Helper()
	for goal := books.Count() + n; books.Count() < goal && len(books.Problems()) == 0; {
		var a answer
		eventually(d.t, time.Minute, "IDs are issued", func() bool {
			a = batch(d, books, "alice", min(100, goal-books.Count()))
			return a.status == 200
		})
	}
}

// order sends one command that must succeed.
func order(t *testing.T, c redis.UniversalClient, args ...any) any {
	t.Helper()
	reply, err := c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// asleep runs f while the process is stopped. A refill that was under way would
// find what is old, and drop it, before a test could see it.
func asleep(d *daemon, f func()) {
	d.t.Helper()
	d.Signal(syscall.SIGSTOP)
	defer d.Signal(syscall.SIGCONT)
	f()
}

// wantStale says how many indices a server would serve a second time, and fails
// when there is none: then the test would show nothing.
func wantStale(t *testing.T, server *testserver.RedisServer, books *ledger) {
	t.Helper()
	var text string
	eventually(t, startLimit, "the list can be read", func() (ok bool) { // a new master of a cluster takes its time
		var err error
		text, err = server.Client().LIndex(t.Context(), aliceList, 0).Result()
		return err == nil || errors.Is(err, redis.Nil)
	})
	first, err := strconv.ParseInt(text, 10, 64)
	if _, issued := slices.BinarySearch(books.IDs(), first<<14|1); err != nil || !issued {
		t.Fatalf("the list begins with index %d (%v), which was not issued: the copy is not old", first, err)
	}
}

// cutOff keeps a replica from hearing its master: it gives a password that the
// master does not have.
func cutOff(t *testing.T, replica, master *testserver.RedisServer) {
	t.Helper()
	order(t, replica.Client(), "CONFIG", "SET", "masterauth", "nonsense")
	order(t, master.Client(), "CLIENT", "KILL", "TYPE", "replica")
}

// proxied is a Redis behind a proxy, so that another can take its place.
func proxied(t *testing.T, server *testserver.RedisServer) *faults.Proxy {
	t.Helper()
	return proxyTo(t, server.Addr)
}

func proxyTo(t *testing.T, addr string) *faults.Proxy {
	t.Helper()
	p, err := faults.NewProxy(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// appOne is a database with app 1.
func appOne(t *testing.T) (dsn string) {
	t.Helper()
	dsn = migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	return dsn
}
