//go:build unix

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lag is how many IDs are issued at least while a copy of Redis grows old.
const lag = 1500

// somePair is the one that the round's fault hits.
func (w *world) somePair() *pair {
	all := w.site.pairs()
	return all[w.rnd.IntN(len(all))]
}

// oldRDB: Redis is killed and comes back from a snapshot.
func oldRDB(w *world) {
	n := w.somePair().leader()
	n.do("SAVE")
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
	n.do("CONFIG", "SET", "appendonly", "yes")
	until(w.t, "the AOF is written", func() error {
		if n.info("aof_rewrite_in_progress") != "0" || n.info("aof_rewrite_scheduled") != "0" {
			return errors.New("being rewritten")
		}
		return nil
	})
	w.issue(300)
	live, old := copyAOF(w, n)
	w.issue(lag)
	n.Kill()
	w.must(os.RemoveAll(live))
	w.must(os.Rename(old, live))
	w.configure("appendonly yes\n")
	n.Restart()
	w.note("%d lists came back", len(n.keys(listKeys)))
	w.configure("")
	w.later(func() { n.do("CONFIG", "SET", "appendonly", "no") })
	w.linger(time.Second)
}

// copyAOF copies the folder of the AOF as a backup would.
func copyAOF(w *world, n *node) (live, old string) {
	dir := n.c.ConfigGet(w.t.Context(), "dir").Val()["dir"]
	live, old = filepath.Join(dir, "appendonlydir"), filepath.Join(dir, "backup")
	w.must(os.RemoveAll(old))
	w.must(os.CopyFS(old, os.DirFS(live)))
	return live, old
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
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
	sleeper.Signal(syscall.SIGSTOP)
	w.later(func() { sleeper.Signal(syscall.SIGCONT) })
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

// splitBrain: the master is cut off together with one process; the others go on
// with the lagging replica. Both sides issue.
func splitBrain(w *world) {
	s := w.site.(*single)
	s.pair.cut(w)
	w.issue(lag)
	s.promoteFor(s.pair, s.proxies[1:])
	w.issue(lag)
	w.linger(time.Second)
}

// sleepingMaster: the master stands still until it is replaced, then goes on as
// if nothing had happened: the split brain of Sentinel and Cluster.
func sleepingMaster(w *world) {
	p := w.somePair()
	old, next := p.leader(), p.follower()
	old.Pause()
	until(w.t, "the replica leads", func() error {
		if next.info("role") != "master" {
			return errors.New("still a replica")
		}
		return nil
	})
	old.Resume()
	w.linger(time.Second)
}

// thereAndBack: A is demoted, B serves, A is promoted again with what it had:
// A→B→A, and A's run_id is the same.
func thereAndBack(w *world) {
	s := w.site.(*single)
	a := s.pair.leader()
	s.pair.cut(w)
	w.issue(lag)
	s.promote(w, s.pair)
	a.follow("127.0.0.1:1") // nobody
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
	s.leadTo("127.0.0.1:1") // nobody
	a.follow(b.Addr)
	until(w.t, "A has what B has", s.pair.inSync)
	s.promote(w, s.pair)
	w.linger(time.Second)
}

// takenOverTwice is backWithOldData in a cluster.
func takenOverTwice(w *world) {
	p := w.somePair()
	p.cut(w)
	w.issue(lag)
	w.site.promote(w, p)
	until(w.t, "the old master follows", p.inSync)
	w.site.promote(w, p)
	w.linger(time.Second)
}

// redisSleeps: Redis answers nothing for a while.
func redisSleeps(w *world) {
	n := w.somePair().leader()
	n.Pause()
	w.later(n.Resume)
	w.linger(1500 * time.Millisecond)
}
