//go:build unix

package faults

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"shardid/scripts/rig"
)

// The app and the tag that come and go.
const (
	youngApp = 77
	youngTag = "young"
)

// anotherRedis: a process uses a Redis of its own for a while, which has what it had when
// some process used it last.
func anotherRedis(w *world) { w.moveRedis(w.rnd.IntN(len(w.procs))) }

func (w *world) moveRedis(proc int) {
	s := w.site.(*single)
	s.proxies[proc].Switch(s.spare.Addr)
	w.issue(lag)
	w.linger(2 * time.Second)
}

// anotherRedisFailsOver: meanwhile the database is lost, and its replica has missed the last
// moment.
func anotherRedisFailsOver(w *world) {
	w.followDatabase()
	i := w.rnd.IntN(len(w.procs))
	w.moveRedis(i)
	w.lagFor(w.procs[i])
}

// noRedisFailsOver: the same while a process has no Redis.
func noRedisFailsOver(w *world) {
	if w.someGopher() == nil {
		return // the plain design cannot do without
	}
	w.followDatabase()
	p := w.someProc()
	env := p.server.env
	restart := func(env settings) {
		w.tally(p)
		p.Kill()
		p.server.env = env
		p.start()
	}
	alone := maps.Clone(env)
	alone["REDIS_MODE"] = "embedded"
	delete(alone, "REDIS_ADDRS")
	delete(alone, "REDIS_MASTER_NAME")
	restart(alone)
	w.later(func() { restart(env) })
	w.linger(2 * time.Second)
	w.lagFor(p)
}

// lagFor lets the database fail over to a replica that lacks a moment. Others than p may sleep
// in that moment, and p may sleep until they have met the replica.
func (w *world) lagFor(p *proc) {
	sleep := func(p *proc) (wake func()) {
		if w.rnd.IntN(3) == 0 {
			return func() {}
		}
		w.note("%s sleeps", p.name)
		p.Signal(syscall.SIGSTOP)
		return func() { p.Signal(syscall.SIGCONT) }
	}
	w.db.Lag()
	var wake []func()
	for _, other := range w.procs {
		if other != p {
			wake = append(wake, sleep(other))
		}
	}
	w.issue(lag)
	last := sleep(p)
	w.promoteDatabase()
	for _, f := range wake {
		f()
	}
	w.linger(2 * time.Second)
	last()
}

// clocksWrong: the clocks of Redis are minutes ahead or behind, and are set again. In half of
// the cases the database fails over meanwhile.
func clocksWrong(w *world) {
	pair := w.site.(*single).pair
	if pair.leader().set == nil {
		w.note("no C compiler: the clocks are right")
		return
	}
	failsOver := w.db != nil && w.rnd.IntN(2) == 0
	if failsOver {
		w.followDatabase()
	}
	for _, n := range pair.nodes {
		ahead := time.Duration(w.rnd.IntN(20)-10) * time.Minute
		w.note("ahead by %v", ahead)
		n.set(ahead)
		w.later(func() { n.set(0) })
	}
	w.issue(lag)
	w.linger(time.Second)
	if failsOver {
		w.note("the database fails over")
		w.lagFor(w.someProc())
	}
}

// commitsStall: the database answers no COMMIT, as its semi-synchronous replica is away. In
// half of the cases that one takes its place, without what was not answered.
func commitsStall(w *world) {
	w.followDatabase()
	w.db.Lag()
	w.later(w.db.Stall())
	w.linger(4 * time.Second)
	if w.rnd.IntN(2) == 0 {
		w.note("the database fails over")
		w.promoteDatabase()
		w.linger(time.Second)
	}
}

// madeAgain: an app and a tag are deleted and made again, and the database fails over to a
// replica that does not know it. There they are made again where they are missing.
func madeAgain(w *world) {
	if w.someGopher() == nil {
		return // the plain design has no commands
	}
	w.followDatabase()
	w.db.Lag()
	w.deleteYoung()
	w.makeYoung()
	before := w.books.Highest()
	for _, in := range []rig.List{{App: youngApp}, {App: -4}} {
		until(w.t, fmt.Sprintf("IDs of %d", in.App), func() error {
			if w.books.Highest()[in] == before[in] {
				return errors.New("none yet")
			}
			return nil
		})
	}
	if w.rnd.IntN(2) == 0 {
		p := w.someProc() // it forgets what it saw
		w.tally(p)
		p.Kill()
		w.later(p.start)
	}
	w.promoteDatabase()
	w.linger(time.Second)
	w.makeYoung()
}

func (w *world) deleteYoung() {
	dsn := w.db.Primary.DSN(w.database)
	for _, args := range [][]string{
		{"apps", "delete", "--app", fmt.Sprint(youngApp), "--confirm", "young"},
		{"tags", "delete", "--tag", youngTag, "--confirm", youngTag},
	} {
		if w.rnd.IntN(2) == 0 {
			continue
		}
		if err := w.try(dsn, args...); err != nil {
			w.note("%s: not deleted", args[0]) // it is not there, or what it handed out is not known
		} else {
			w.note("%s: deleted", args[0])
		}
	}
}

// makeYoung makes the app and the tag where they are missing.
func (w *world) makeYoung() {
	w.t.Helper()
	dsn, tags := w.db.Primary.DSN(w.database), 0
	until(w.t, "the app is there", func() error { // in doubt it waits for Redis to vouch
		return w.try(dsn, "provision", "--if-missing", "--app", fmt.Sprint(youngApp), "--name", "young", "--step", fmt.Sprint(segmentLen))
	})
	w.must(w.sql.QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM leaf_alloc WHERE biz_tag = ?", youngTag).Scan(&tags))
	if tags == 0 {
		until(w.t, "the tag is there", func() error {
			return w.try(dsn, "tags", "add", "--tag", youngTag, "--step", fmt.Sprint(segmentLen))
		})
	}
}
