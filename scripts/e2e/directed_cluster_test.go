//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// TestDirectedClusterGrows: a cluster of three masters, each with a replica, gets a fourth one,
// and gives it up again, while all lists and 200 rooms are in use: a master that has no slot
// yet, slots that move there and back with the keys in them, one key or some at a time, and a
// master that is killed while it imports. No ID comes twice, no number is out of order, and each
// list soon has IDs again.
func TestDirectedClusterGrows(t *testing.T) {
	check.Deep(t)
	story(t)
	setup, dsn := testserver.Cluster(t), testserver.SharedMariaDB(t).NewDatabase(t)
	for _, master := range setup.Nodes {
		rig.ClusterReplica(t, master)
	}
	s := onMariaDB(dsn).With(onCluster(setup))
	addChat(t, s)
	must(t, s, "provision", "--app", "1", "--name", "test")
	replicas := serveReady(t, 2, numbering(s))
	c := newChat(t, 200)
	for i, d := range replicas {
		c.ask(fmt.Sprint("replica ", i+1), d, nothing)
	}
	lists := drain(t, replicas)
	c.goesOn(startLimit)
	lists.goOn(startLimit)

	fourth := setup.Join()
	second := rig.ClusterReplica(t, fourth) // as soon as the fourth has a slot
	resharding := &resharding{t: t, known: append(slices.Clone(setup.Nodes), fourth, second)}
	lists.rest("a master without a slot")
	moved := 0
	for i, from := range setup.Nodes {
		for n, slot := range resharding.used(from, "*") {
			if n%4 == i {
				resharding.move(slot, from, fourth)
				moved++
			}
		}
	}
	if moved < 10 {
		t.Errorf("only %d slots with keys have moved", moved)
	}
	lists.rest(fmt.Sprint(moved, " slots moved"))
	c.goesOn(startLimit)

	half := map[int64]*testserver.RedisServer{} // slots of which some keys are with the fourth
	for _, from := range setup.Nodes {
		for _, kind := range []string{"id.gen.idList_*", "id.gen.sequence_*"} {
			for _, slot := range resharding.used(from, kind)[:2] {
				half[slot] = from
				resharding.open(slot, from, fourth)
				resharding.some(slot, from, fourth)
			}
		}
	}
	waitSame(t, fourth, second)
	fourth.Kill()
	eventually(t, startLimit, "the replica has taken over", func() bool { return resharding.leads(second) })
	for slot, from := range half { // until then the cluster sends callers to the one that was killed
		order(t, from.Client(), "CLUSTER", "SETSLOT", slot, "STABLE")
	}
	lists.rest("a master killed while it imports")
	fourth.Restart()
	eventually(t, startLimit, "the killed master follows", func() bool {
		return fourth.Client().InfoMap(t.Context(), "replication").Val()["Replication"]["master_link_status"] == "up"
	})
	for slot, from := range half { // the one that took over has keys of theirs, which are old
		resharding.move(slot, from, second)
	}
	lists.rest("slots moved for good")

	for n, slot := range resharding.used(second, "*") {
		resharding.move(slot, second, setup.Nodes[n%3])
	}
	lists.rest("slots moved back")
	for _, gone := range []*testserver.RedisServer{fourth, second} {
		resharding.forget(gone)
		gone.Kill()
	}
	lists.rest("two nodes are gone")
	c.goesOn(startLimit)
	lists.settle()
	c.settle()
}

// drained are the lists of app 1, each asked all the time.
type drained struct {
	t       *testing.T
	books   ledger
	callers rig.Callers
	latest  [64]atomic.Int64 // when the latest answer came, ns
	longest [64]atomic.Int64 // without one since the last rest, ns
	refusal atomic.Pointer[answer]
}

// drain begins to ask replicas for IDs of all lists.
func drain(t *testing.T, replicas []*daemon) *drained {
	t.Helper()
	l := &drained{t: t}
	for shard := range l.latest {
		l.latest[shard].Store(time.Now().UnixNano())
	}
	l.callers.Start(t, 4, func(ctx context.Context, caller int) {
		for round := 0; ctx.Err() == nil; round++ {
			for shard := caller; shard < 64 && ctx.Err() == nil; shard += 4 {
				l.ask(replicas[(round+shard)%len(replicas)], shard)
			}
		}
	})
	return l
}

func (l *drained) ask(d *daemon, shard int) {
	pass, f := rig.PassOf(int64(shard)), form{count: 1 + shard%7}
	a, err := d.do("GET", f.target(1, pass))
	if err != nil || a.status != 200 {
		if err != nil || a.status != 503 {
			l.books.Complain("shard %d: %v, %d %.300s", shard, err, a.status, a.body)
		}
		l.refusal.Store(&a)
		time.Sleep(5 * time.Millisecond)
		return
	}
	ids, err := f.parse(a)
	if err != nil {
		l.books.Complain("shard %d: %v: %s", shard, err, a.body)
	}
	l.books.Queue("", 1, pass, ids...)
	now := time.Now().UnixNano()
	gap := now - l.latest[shard].Swap(now)
	if gap > l.longest[shard].Load() {
		l.longest[shard].Store(gap)
	}
}

// goOn returns when all lists were answered from now on.
func (l *drained) goOn(limit time.Duration) {
	l.t.Helper()
	begun := time.Now().UnixNano()
	eventually(l.t, limit, "all lists have IDs", func() bool {
		for shard := range l.latest {
			if l.latest[shard].Load() < begun {
				return false
			}
		}
		return true
	})
}

// rest waits a moment and until all lists have IDs, and says for how long one had none; docs/stores.md
// has what a quiet machine needs.
func (l *drained) rest(what string) {
	l.t.Helper()
	time.Sleep(2 * time.Second)
	l.goOn(startLimit)
	longest, of := time.Duration(0), 0
	for shard := range l.longest {
		if gap := time.Duration(l.longest[shard].Swap(0)); gap > longest {
			longest, of = gap, shard
		}
	}
	l.t.Logf("%s: %d IDs; list %d had none for %v", what, l.books.Count(), of, longest.Round(time.Millisecond))
	if longest > 20*time.Second {
		l.t.Errorf("%s: list %d had no IDs for %v; last refusal %.300s", what, of, longest, l.refusal.Load().body)
	}
}

func (l *drained) settle() {
	l.t.Helper()
	l.callers.Stop()
	l.books.Settle(l.t)
}

// resharding moves slots as redis-cli does: the target imports, the source migrates, keys
// follow, and then all are told.
type resharding struct {
	t     *testing.T
	known []*testserver.RedisServer
}

// used are the slots of a master that have keys of a kind.
func (r *resharding) used(master *testserver.RedisServer, kind string) (slots []int64) {
	r.t.Helper()
	c := master.Client()
	for _, key := range c.Keys(r.t.Context(), kind).Val() {
		slots = append(slots, c.ClusterKeySlot(r.t.Context(), key).Val())
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// open lets a slot move.
func (r *resharding) open(slot int64, from, to *testserver.RedisServer) {
	r.t.Helper()
	order(r.t, to.Client(), "CLUSTER", "SETSLOT", slot, "IMPORTING", from.NodeID(r.t))
	order(r.t, from.Client(), "CLUSTER", "SETSLOT", slot, "MIGRATING", to.NodeID(r.t))
}

// some moves one key of a slot, and some more when there are; it says whether there were any.
func (r *resharding) some(slot int64, from, to *testserver.RedisServer) bool {
	r.t.Helper()
	c := from.Client()
	host, port, _ := net.SplitHostPort(to.Addr)
	words := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
	for _, key := range c.ClusterGetKeysInSlot(r.t.Context(), int(slot), 1+int(slot)%3).Val() {
		words = append(words, key)
	}
	if len(words) == 7 {
		return false
	}
	err := c.Do(r.t.Context(), words...).Err()
	switch busy := err != nil && strings.Contains(err.Error(), "BUSYKEY"); {
	case busy && slot%2 == 0: // the operator trusts the source, or the target
		words[6] = "REPLACE"
		order(r.t, c, slices.Insert(words, 7, any("KEYS"))...)
	case busy:
		order(r.t, c, append([]any{"DEL"}, words[7:]...)...)
	case err != nil:
		r.t.Fatal(err)
	}
	return true
}

// move moves a slot with its keys.
func (r *resharding) move(slot int64, from, to *testserver.RedisServer) {
	r.t.Helper()
	r.open(slot, from, to)
	for r.some(slot, from, to) {
		time.Sleep(20 * time.Millisecond) // that callers meet a part of the keys here, and a part there
	}
	id := to.NodeID(r.t)
	for _, node := range append([]*testserver.RedisServer{to, from}, r.known...) {
		err := node.Client().Do(r.t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", id).Err()
		if err != nil && !strings.Contains(err.Error(), "only with masters") {
			r.t.Fatal(err)
		}
	}
}

// leads says whether the cluster has a node for a master.
func (r *resharding) leads(node *testserver.RedisServer) bool {
	for line := range strings.Lines(r.known[0].Client().ClusterNodes(r.t.Context()).Val()) {
		if strings.HasPrefix(line, node.NodeID(r.t)) {
			return strings.Contains(line, "master") && !strings.Contains(line, "fail")
		}
	}
	return false
}

// forget takes a node out of the cluster.
func (r *resharding) forget(gone *testserver.RedisServer) {
	r.t.Helper()
	id := gone.NodeID(r.t)
	for _, node := range r.known {
		if node != gone {
			_ = node.Client().Do(r.t.Context(), "CLUSTER", "FORGET", id).Err() // one that is gone knows nothing
		}
	}
}
