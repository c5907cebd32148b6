//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// lag is how many IDs are issued at least while a copy grows old.
const lag = 1500

// nobody is an address where no server is.
const nobody = "127.0.0.1:1"

// somePair is the one that the round's fault hits.
func (w *world) somePair() *pair {
	all := w.site.pairs()
	return all[w.rnd.IntN(len(all))]
}

// oldRDB: Redis is killed and comes back from a snapshot.
func oldRDB(w *world) {
	n := w.somePair().leader()
	n.save(w)
	w.issue(lag)
	n.Kill()
	w.linger(300 * time.Millisecond)
	n.Restart()
	w.note("%d lists came back", len(n.keys(listKeys)))
	w.linger(time.Second)
}

// oldAOF: Redis is killed and comes back from a copy of its AOF.
func oldAOF(w *world) {
	n := w.somePair().leader()
	w.writeAOF(n)
	w.issue(300)
	live, old := filepath.Join(n.dir(), "appendonlydir"), filepath.Join(n.dir(), "backup")
	check.Must(w.t, os.RemoveAll(old))
	check.Must(w.t, os.CopyFS(old, os.DirFS(live)))
	w.issue(lag)
	w.restart(n, func() {
		check.Must(w.t, os.RemoveAll(live))
		check.Must(w.t, os.Rename(old, live))
	})
}

// redisRestarts: with all that it had.
func redisRestarts(w *world) {
	n := w.somePair().leader()
	w.writeAOF(n)
	w.restart(n, func() {})
}

// writeAOF returns when all that a node has is in its file, to which it adds from now on.
func (w *world) writeAOF(n *node) {
	w.t.Helper()
	n.do("CONFIG", "SET", "appendonly", "yes")
	w.later(func() { n.do("CONFIG", "SET", "appendonly", "no") })
	w.until("the AOF is written", func() error {
		if n.info("aof_rewrite_in_progress") != "0" || n.info("aof_rewrite_scheduled") != "0" {
			return errors.New("being rewritten")
		}
		return nil
	})
}

// restart restarts a node on its AOF, by an orderly stop or a power cut. Something is done while it is unreachable.
func (w *world) restart(n *node, away func()) {
	w.t.Helper()
	if w.coin() {
		n.Stop()
	} else {
		n.Kill()
	}
	away()
	w.configure("appendonly yes\n")
	n.Restart()
	w.configure("")
	w.note("%d lists came back", len(n.keys(listKeys)))
	w.linger(time.Second)
}

// redisEmpty: it keeps nothing.
func redisEmpty(w *world) {
	n := w.somePair().leader()
	snapshot := filepath.Join(n.dir(), "dump.rdb") // of an earlier round
	n.Kill()
	check.Must(w.t, os.RemoveAll(snapshot))
	n.Restart()
	w.linger(time.Second)
}

// victim: nobody hears the farewell of a process, which held Redis to vouch.
func victim(w *world) {
	p := w.someProc()
	w.kill(p)
	w.later(p.start)
	redisEmpty(w)
}

// redisAway: tags are refilled without it. Before that it begins another life, which only processes that run hold
// to vouch: for one that was killed while it held the earlier life all others wait 15 minutes.
func redisAway(w *world) {
	const named = "SELECT COUNT(*) FROM shardid_deployment WHERE witness NOT IN ('', ?)"
	var before string
	check.Must(w.t, w.sql.QueryRowContext(w.t.Context(), "SELECT witness FROM shardid_deployment").Scan(&before))
	redisEmpty(w)
	w.until("the other life is named", func() error {
		if w.number(named, before) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	w.rest()
	n := w.somePair().leader()
	n.Kill()
	w.later(n.Restart)
	w.beyond(map[rig.List]int64{ordersList: w.row(ordersList)})
}

// redisSleeps: Redis answers nothing for a while.
func redisSleeps(w *world) {
	n := w.somePair().leader()
	n.Pause()
	w.later(n.Resume)
	w.linger(1500 * time.Millisecond)
}

// each runs a command on every key of all masters that matches, one by one as a
// cluster wants it.
func (w *world) each(pattern string, command ...any) {
	w.t.Helper()
	for _, p := range w.site.pairs() {
		for _, name := range p.leader().keys(pattern) {
			p.leader().do(append([]any{command[0], name}, command[1:]...)...)
		}
	}
}

// thrice does something three times over a little while.
func (w *world) thrice(f func()) {
	for range 3 {
		f()
		w.linger(300 * time.Millisecond)
	}
}

const (
	listKeys    = "id.gen.idList_*"
	metaKeys    = "id.gen.meta_*"
	lockKeys    = "id.gen.lock_*"
	sectionKeys = "id.gen.sequence_*"
)

// deleted deletes the keys of a kind, and what comes again.
func deleted(pattern string) func(*world) {
	return func(w *world) { w.thrice(func() { w.each(pattern, "DEL") }) }
}

// onMasters runs a command on all masters.
func onMasters(command ...any) func(*world) {
	return func(w *world) {
		w.thrice(func() {
			for _, p := range w.site.pairs() {
				p.leader().do(command...)
			}
		})
	}
}

// locksGone: refill locks vanish, or expire, under their holders.
func locksGone(w *world) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if w.coin() {
			w.each(lockKeys, "DEL")
		} else {
			w.each(lockKeys, "PEXPIRE", 1)
		}
	}
}

// evicted: Redis runs into maxmemory under a policy that throws keys away.
func evicted(w *world) {
	n := w.somePair().leader()
	n.do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	w.later(func() { n.do("CONFIG", "SET", "maxmemory", 0, "maxmemory-policy", "noeviction") })
	w.thrice(func() {
		used, err := strconv.Atoi(n.info("used_memory"))
		check.Must(w.t, err)
		n.do("CONFIG", "SET", "maxmemory", used-100_000)
	})
	w.note("%s keys were evicted in its life", n.info("evicted_keys"))
}

// outOfMemory: Redis takes no writes that need memory.
func outOfMemory(w *world) {
	n := w.somePair().leader()
	n.do("CONFIG", "SET", "maxmemory", 1)
	w.later(func() { n.do("CONFIG", "SET", "maxmemory", 0) })
	w.linger(1500 * time.Millisecond)
}

// lagging: a replica that was cut off is promoted.
func lagging(w *world) {
	p := w.somePair()
	p.cut(w)
	w.issue(lag)
	w.site.promote(w, p)
	w.linger(time.Second)
}

// asleep: a process sleeps through such a promotion and wakes up with what it
// was about to send.
func asleep(w *world) {
	p, sleeper := w.somePair(), w.someProc()
	p.cut(w)
	w.issue(lag)
	w.sleep(sleeper)
	w.site.promote(w, p)
	w.linger(time.Second)
}

// lostMaster: the master is killed under load and its replica, which was in
// sync, is promoted: some pops are lost even so.
func lostMaster(w *world) {
	p := w.somePair()
	if w.topology != onSentinel { // there promote kills
		old := p.leader()
		old.Kill()
		w.later(old.Restart)
	}
	w.site.promote(w, p)
	w.linger(time.Second)
}

// sleepingMaster: the master stands still until it is replaced, then continues as
// if nothing had happened: the split brain of Sentinel and Cluster.
func sleepingMaster(w *world) {
	p := w.somePair()
	old, next := p.leader(), p.follower()
	old.Pause()
	w.until("the replica leads", next.leads)
	old.Resume()
	w.linger(time.Second)
}

// split cuts the master off together with process i; the others continue with the lagging replica, and both
// sides issue.
func (w *world) split(i int) {
	w.t.Helper()
	s := w.site.(*single)
	s.pair.cut(w)
	w.issue(lag)
	w.procs[i].broken = true
	s.promoteFor(s.pair, slices.Delete(slices.Clone(s.proxies), i, i+1))
	w.issue(lag)
}

// withoutName is a process that did not name the witness. Each process has an address of Redis of its own here,
// where in a deployment all have the same: of the one that it was named by, the others could not tell that the
// witness is no longer there, and would wait for its lease.
func (w *world) withoutName() int {
	return slices.IndexFunc(w.site.(*single).proxies, func(p *Proxy) bool {
		return w.number("SELECT COUNT(*) FROM shardid_deployment WHERE witness_place LIKE ?", "%"+p.Addr+"%") == 0
	})
}

// splitBrain: only one side numbers keys at a time.
func splitBrain(w *world) {
	i := w.withoutName()
	w.split(i)
	if w.numbered {
		w.stopsNumbering(w.procs[i], "Redis")
		w.verifyNumbers(slices.Delete(slices.Clone(w.procs), i, i+1)...)
	}
	w.linger(time.Second)
}

// splitAsleep: a process is frozen when the others continue, with a lease of the old master, which would still
// answer it. It wakes up when they number keys again, or long after, with requests that came meanwhile.
func splitAsleep(w *world) {
	i := w.withoutName()
	wake := w.sleep(w.procs[i])
	w.split(i)
	w.verifyNumbers(slices.Delete(slices.Clone(w.procs), i, i+1)...)
	if w.coin() {
		w.linger(10 * time.Second)
	}
	wake()
	w.linger(2 * time.Second)
}

// thereAndBack: A is demoted, B serves, A is promoted again with what it had:
// A→B→A, and A's run_id is the same.
func thereAndBack(w *world) {
	s := w.site.(*single)
	a := s.pair.leader()
	s.pair.cut(w)
	w.issue(lag)
	s.promote(w, s.pair)
	a.follow(nobody)
	w.issue(lag)
	s.promote(w, s.pair)
	w.linger(time.Second)
}

// backWithOldData: the same, but A has taken over what B was late with before it
// is promoted again, and nobody has reached B.
func backWithOldData(w *world) {
	s := w.site.(*single)
	a, b := s.pair.leader(), s.pair.follower()
	s.pair.cut(w)
	w.issue(lag)
	s.promoteFor(s.pair, nil)
	s.leadTo(nobody)
	a.follow(b.Addr)
	w.until("A has what B has", s.pair.inSync)
	s.promote(w, s.pair)
	w.linger(time.Second)
}

// takenOverTwice is backWithOldData in a cluster.
func takenOverTwice(w *world) {
	p := w.somePair()
	p.cut(w)
	w.issue(lag)
	w.site.promote(w, p)
	w.until("the old master follows", p.inSync)
	w.site.promote(w, p)
	w.linger(time.Second)
}

// anotherRedis: a process uses a Redis of its own for a while, which has what it had when
// some process used it last.
func anotherRedis(w *world) { w.moveRedis(w.rnd.IntN(len(w.procs))) }

func (w *world) moveRedis(i int) {
	w.t.Helper()
	s := w.site.(*single)
	w.procs[i].broken = true
	s.proxies[i].Switch(s.spare.Addr)
	w.issue(lag)
	w.linger(2 * time.Second)
}

// rollback is how far rows go back, in indices.
const rollback = 20_000

// rowsBack rolls max_id back where Redis vouches for all that was issued: on lists whose high-water mark is
// max_id. More than that is outside the promise. Healing is what a runbook says: max_id is raised by hand, one
// row at a time, as the processes continue.
func rowsBack(w *world) {
	marks, rows := w.highWaters(), int64(0)
	for in, mark := range marks {
		const back = "UPDATE id_alloc SET max_id = GREATEST(0, max_id - ?)" +
			" WHERE app_id = ? AND shard_id = ? AND max_id = ?"
		rows += w.exec(back, rollback, in.App, in.Shard, mark)
	}
	w.note("%d rows went back", rows)
	w.later(func() {
		const raise = "UPDATE id_alloc SET max_id = GREATEST(max_id, ?) WHERE app_id = ? AND shard_id = ?"
		for in, mark := range marks {
			w.exec(raise, mark, in.App, in.Shard)
		}
	})
	w.issue(10 * lag)
}

// highWaters reads the high-water marks of all lists.
func (w *world) highWaters() map[rig.List]int64 {
	marks := map[rig.List]int64{}
	for _, p := range w.site.pairs() {
		for _, name := range p.leader().keys(metaKeys) {
			mark, err := strconv.ParseInt(p.leader().c.HGet(context.Background(), name, "w").Val(), 10, 64)
			if err == nil {
				marks[listOf(name)] = mark
			}
		}
	}
	return marks
}

// listOf reads the name of a meta hash: id.gen.meta_{id.gen.idList_1_0}.
func listOf(name string) rig.List {
	_, name, _ = strings.Cut(strings.TrimSuffix(name, "}"), "{id.gen.idList_")
	app, shard, _ := strings.Cut(name, "_")
	a, _ := strconv.ParseInt(app, 10, 64)
	s, _ := strconv.ParseInt(shard, 10, 64)
	return rig.List{App: a, Shard: s}
}

// clusterGrows: a fourth master joins with a replica, takes slots over, and gives them up again. In between it has
// none yet, slots move with the keys in them, one key or some at a time, and it is killed while it imports.
func clusterGrows(w *world) {
	c := w.site.(*cluster)
	var masters []*node
	for _, p := range c.all {
		masters = append(masters, p.leader())
	}
	fourth := newNode(w.t, c.setup.Join())
	second := newNode(w.t, c.setup.Replica(fourth.RedisServer))
	w.everyList("a master has no slot")
	var moved []int64
	for i, from := range masters {
		for n, slot := range from.used("*") {
			if n%4 == i {
				w.moveSlot(slot, from, fourth, masters)
				moved = append(moved, slot)
			}
		}
	}
	w.note("%d slots moved", len(moved))
	w.everyList("slots have moved")

	half := map[int64]*node{} // slots of which some keys are with the fourth
	for _, from := range masters {
		for _, kind := range []string{listKeys, sectionKeys} {
			for _, slot := range from.used(kind)[:2] {
				half[slot] = from
				w.openSlot(slot, from, fourth)
				w.someKeys(slot, from, fourth)
			}
		}
	}
	w.until("the replica has all", (&pair{nodes: [2]*node{fourth, second}}).inSync)
	fourth.Kill()
	w.until("the replica leads", second.leads)
	for slot, from := range half { // until then the cluster sends callers to the one that was killed
		from.do("CLUSTER", "SETSLOT", slot, "STABLE")
	}
	w.everyList("a master was killed while it imported")
	fourth.Restart()
	w.until("the killed master follows", (&pair{nodes: [2]*node{second, fourth}}).inSync)
	for slot, from := range half { // the one that took over has keys of theirs, which are old
		w.moveSlot(slot, from, second, masters)
		moved = append(moved, slot)
	}
	for n, slot := range moved {
		w.moveSlot(slot, second, masters[n%len(masters)], masters)
	}
	w.everyList("all slots are back")
	for _, gone := range []*node{fourth, second} {
		id := gone.NodeID(w.t)
		gone.Kill()
		for _, p := range c.all {
			p.nodes[0].do("CLUSTER", "FORGET", id)
			p.nodes[1].do("CLUSTER", "FORGET", id)
		}
	}
}

// everyList returns when each list of an app has IDs.
func (w *world) everyList(when string) {
	w.t.Helper()
	for shard := range int64(64) {
		w.until(fmt.Sprintf("%s: list %d has IDs", when, shard), func() error {
			return w.ask(context.Background(), w.procs[int(shard)%len(w.procs)], mode{app: 1}, rig.PassOf(shard), 1)
		})
	}
}

// used are the slots of a master that have keys of a kind.
func (n *node) used(kind string) (slots []int64) {
	n.t.Helper()
	for _, key := range n.keys(kind) {
		slots = append(slots, n.do("CLUSTER", "KEYSLOT", key).(int64))
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// openSlot lets a slot move.
func (w *world) openSlot(slot int64, from, to *node) {
	w.t.Helper()
	to.do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.NodeID(w.t))
	from.do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.NodeID(w.t))
}

// someKeys moves a key of a slot, or up to three, and says whether there were any. Where the target has one
// already, an operator trusts the source, or the target.
func (w *world) someKeys(slot int64, from, to *node) bool {
	w.t.Helper()
	keys := from.do("CLUSTER", "GETKEYSINSLOT", slot, 1+slot%3).([]any)
	host, port, err := net.SplitHostPort(to.Addr)
	check.Must(w.t, err)
	migrate := []any{"MIGRATE", host, port, "", 0, 5000}
	if from.c.Do(context.Background(), append(append(migrate, "KEYS"), keys...)...).Err() == nil {
		return len(keys) > 0
	}
	for _, key := range keys { // one that has moved meanwhile is no key here
		if slot%2 == 0 {
			_ = from.c.Do(context.Background(), append(slices.Clone(migrate), "REPLACE", "KEYS", key)...).Err()
		} else {
			_ = from.c.Do(context.Background(), "DEL", key).Err()
		}
	}
	return len(keys) > 0
}

// moveSlot moves a slot with its keys, as redis-cli does, and tells all masters.
func (w *world) moveSlot(slot int64, from, to *node, masters []*node) {
	w.t.Helper()
	w.openSlot(slot, from, to)
	w.until(fmt.Sprintf("slot %d has moved", slot), func() error {
		if w.someKeys(slot, from, to) {
			return errors.New("there are keys")
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // that callers meet an open slot
	for _, n := range append([]*node{to, from}, masters...) {
		err := n.c.Do(context.Background(), "CLUSTER", "SETSLOT", slot, "NODE", to.NodeID(w.t)).Err()
		if err != nil && !strings.Contains(err.Error(), "only with masters") { // one without slots becomes a replica
			w.t.Fatal(err)
		}
	}
}
