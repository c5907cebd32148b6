//go:build unix

package faults

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// followDatabase returns when the database has a replica that knows all.
func (w *world) followDatabase() {
	w.t.Helper()
	if w.failedOver {
		w.db.Rejoin()
		w.failedOver = false
	}
	w.db.CatchUp()
}

// promoteDatabase kills the primary and sends all processes to what was its replica.
func (w *world) promoteDatabase() {
	w.t.Helper()
	w.db.Primary.Kill()
	w.promoteCopy()
}

// promoteCopy sends all processes to what was the replica; the primary continues if it still runs.
func (w *world) promoteCopy() {
	w.t.Helper()
	w.db.Promote()
	w.failedOver, w.lacking = true, true
	w.leadTo(w.db.Primary)
}

// leadTo sends all processes to a server of the database.
func (w *world) leadTo(s *testserver.MariaDBServer) {
	w.t.Helper()
	w.reconnect()
	for _, proxy := range w.dbProxies {
		proxy.Switch(s.Addr())
	}
}

// loseDatabase: the primary is lost, and its replica has missed the last moment, in which a process has started.
func loseDatabase(w *world) {
	w.db.Lag()
	if w.coin() {
		p := w.someProc()
		w.kill(p)
		p.start()
	}
	w.issue(lag)
	w.promoteDatabase()
	w.linger(time.Second)
}

func databaseFailsOver(w *world) {
	w.followDatabase()
	loseDatabase(w)
}

func databaseFailsOverTwice(w *world) {
	for range 2 {
		w.followDatabase()
		w.linger(3 * time.Second)
		loseDatabase(w)
		w.verify()
	}
}

// beforeFirstID: the copy knows of no ID at all.
func beforeFirstID(w *world) {
	rows := w.rows()
	w.promoteDatabase()
	w.beyond(rows)
}

// databaseOverAndBack: the address of the database leads to the replica for a while, and back to the primary,
// which was never stopped and knows nothing of it.
func databaseOverAndBack(w *world) {
	w.followDatabase()
	w.promoteCopy()
	w.verify()
	w.linger(3 * time.Second)
	w.db.Primary, w.db.Replica = w.db.Replica, w.db.Primary
	w.leadTo(w.db.Primary)
	w.later(w.db.Replica.Kill)
	w.linger(2 * time.Second) // a process that knows better meets it
}

func databaseSleeps(w *world) {
	db := w.db.Primary
	db.Pause()
	w.later(db.Resume)
	w.linger(1500 * time.Millisecond)
}

// stopDatabase stops the database's server, by an orderly stop or a power cut, and says since when.
func (w *world) stopDatabase() (since time.Time) {
	since = time.Now()
	if db := w.db.Primary; w.coin() {
		db.Stop()
	} else {
		db.Kill()
	}
	return since
}

// restartDatabase starts the database's server, which was stopped. How long its stop and its start take is its
// own affair: MySQL needs half a minute on a busy machine.
func (w *world) restartDatabase(since time.Time) {
	w.db.Primary.Restart()
	w.restarting = max(w.restarting, time.Since(since))
}

// databaseRestarts: by an orderly stop or a power cut.
func databaseRestarts(w *world) {
	w.restartDatabase(w.stopDatabase())
	w.linger(time.Second)
}

// long is for how long a database is unreachable at least: beyond a heartbeat and a lease.
const long = 15 * time.Second

// databaseAway: numbers of keys stop with the lease, and callers read why.
func databaseAway(w *world) {
	db, begun := w.db.Primary, time.Now()
	if w.coin() {
		db.Pause()
		w.later(db.Resume)
	} else {
		db.Kill()
		w.later(db.Restart)
	}
	if w.hasRedis() {
		for _, p := range w.procs {
			w.stopsNumbering(p, "database")
		}
	}
	time.Sleep(long - time.Since(begun))
}

func databaseHangs(w *world) {
	w.db.Primary.Pause()
	time.Sleep(long)
	w.db.Primary.Kill()
	w.restartDatabase(time.Now())
}

// databaseAwayFailsOver: the replica takes over long after the primary is gone.
func databaseAwayFailsOver(w *world) {
	w.followDatabase()
	w.db.Lag()
	w.issue(lag)
	w.db.Primary.Kill()
	time.Sleep(long)
	w.promoteCopy()
}

// commitsStall: the database answers no COMMIT, as its semi-synchronous replica is unreachable. In
// half of the cases that one takes its place, without what was not answered.
func commitsStall(w *world) {
	w.followDatabase()
	w.db.Lag()
	w.later(w.db.Stall())
	w.linger(4 * time.Second)
	if w.coin() {
		w.note("the database fails over")
		w.promoteDatabase()
		w.linger(time.Second)
	}
}

// weeks pass in which nobody asks, and replicas sweep, and send their heartbeats.
func (w *world) weeks() {
	w.t.Helper()
	w.rest()
	w.exec("UPDATE id_alloc SET taken_at = taken_at - 65 * 86400000 WHERE taken_at > 0")
}

// restartsOverWeeks: a store restarts when the other one has learned again what it has.
func restartsOverWeeks(w *world) {
	for _, event := range []func(*world){databaseRestarts, redisEmpty, databaseRestarts, redisRestarts} {
		event(w)
		w.heal()
		w.verify()
		w.weeks()
	}
}

// bothRestart: neither has lost anything, and neither can vouch for the other. In half of the cases weeks
// have passed.
func bothRestart(w *world) {
	if w.coin() {
		w.weeks()
	}
	n := w.site.(*single).pair.leader()
	w.writeAOF(n)
	since := w.stopDatabase()
	w.restart(n, func() {})
	w.restartDatabase(since)
}

// bothFallBack: the database and Redis are lost, and the replicas of both have missed
// the last moment.
func bothFallBack(w *world) {
	w.followDatabase()
	p := w.somePair()
	p.cut(w)
	w.db.Lag()
	w.issue(lag)
	w.site.promote(w, p)
	w.promoteDatabase()
	w.linger(time.Second)
}

// copyDatabase takes a cold copy of the database; restore puts it back, and its replica knows too much then.
func (w *world) copyDatabase() (restore func()) {
	w.t.Helper()
	db := w.db.Primary
	live, kept := filepath.Join(filepath.Dir(db.Socket), "data"), filepath.Join(w.t.TempDir(), "data")
	db.Stop()
	check.Must(w.t, os.CopyFS(kept, os.DirFS(live)))
	w.restartDatabase(time.Now())
	return func() {
		db.Kill()
		w.db.Replica.Kill()
		check.Must(w.t, os.RemoveAll(live))
		check.Must(w.t, os.CopyFS(live, os.DirFS(kept)))
		w.restartDatabase(time.Now())
		w.failedOver, w.lacking = true, true
	}
}

// bothRestored: both stores come back from copies that were taken together, and no process is left that knows
// better. In half of the cases an operator had raised a row just before, or the clock of the last segment was
// two hours ahead.
func bothRestored(w *world) {
	n := w.site.(*single).pair.leader()
	switch w.rnd.IntN(4) {
	case 0:
		_, highest := w.books.Of(aliceList)
		w.command("apps", "set", "--app", "1", "--min-index", fmt.Sprint(highest+jumps/5))
		w.note("a row was raised")
	case 1:
		w.exec("UPDATE id_alloc SET taken_at = taken_at + 7200000, tokens = 0 WHERE taken_at > 0")
		w.note("a clock was ahead")
	}
	n.save(w)
	restore := w.copyDatabase()
	w.issue(10 * lag)
	w.rest()
	w.kill(w.procs...)
	n.Kill()
	restore()
	n.Restart()
	for _, p := range w.procs {
		p.start()
	}
}

// away has all processes on another Redis for a while, which the lists fill, and back.
func (w *world) away(meanwhile func()) {
	w.t.Helper()
	s := w.site.(*single)
	s.leadTo(s.spare.Addr)
	w.issue(10 * lag)
	w.rest()
	meanwhile()
	s.leadTo(s.pair.leader().Addr)
}

// backRestored: all move to another Redis, the database is restored to the time of the first one, and so is
// Redis: the mark that is found there is the one that the rows name, and older than what was issued.
func backRestored(w *world) {
	restore := w.copyDatabase()
	w.issue(lag)
	w.linger(2 * time.Second) // the first Redis is in use with the copied database, too
	w.away(func() {
		w.kill(w.procs...)
		restore()
	})
	for _, p := range w.procs {
		p.start()
	}
}

// backFailsOver: a process has been on another Redis for a while, and all knows where it is again.
func backFailsOver(w *world) {
	w.moveRedis(w.rnd.IntN(len(w.procs)))
	w.site.settle(w)
	w.verify()
	w.rest()
	databaseFailsOver(w)
}

// anotherRedisFailsOver: while a process uses another Redis the database is lost, and its replica has missed
// the last moment.
func anotherRedisFailsOver(w *world) {
	w.followDatabase()
	i := w.rnd.IntN(len(w.procs))
	w.moveRedis(i)
	w.lagFor(w.procs[i])
}

// splitFailsOver: the same while a process still reaches a master that was replaced.
func splitFailsOver(w *world) {
	w.followDatabase()
	s := w.site.(*single)
	s.promoteFor(s.pair, s.proxies[1:])
	w.issue(lag)
	w.lagFor(w.procs[w.rnd.IntN(len(w.procs))])
}

// noRedisFailsOver: the same while a process has no Redis.
func noRedisFailsOver(w *world) {
	w.followDatabase()
	p := w.someProc()
	env := p.env
	restart := func(env settings) {
		p.Kill()
		p.env = env
		p.start()
	}
	alone := maps.Clone(env)
	for name := range w.site.env(0) {
		delete(alone, name)
	}
	restart(alone)
	w.later(func() { restart(env) })
	w.linger(2 * time.Second)
	w.lagFor(p)
}

// lagFor lets the database fail over to a replica that lacks a moment, in which a process may start. Others
// than p may sleep in that moment, and p may sleep until they have met the replica.
func (w *world) lagFor(p *proc) {
	w.t.Helper()
	sleep := func(p *proc) (wake func()) {
		if w.rnd.IntN(3) == 0 {
			return func() {}
		}
		w.note("%s sleeps", p.name)
		return w.sleep(p)
	}
	w.db.Lag()
	var wake []func()
	for _, other := range w.procs {
		if other != p {
			wake = append(wake, sleep(other))
		}
	}
	if w.coin() {
		w.note("%s starts", p.name)
		w.kill(p)
		p.start()
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

// madeAgain: an app, a tag and a space are deleted and made again, and the database fails over to a replica that
// does not know it. There they are made again where they are missing.
func madeAgain(w *world) {
	w.followDatabase()
	w.db.Lag()
	w.deleteYoung()
	w.makeYoung()
	before := w.books.Highest()
	for _, in := range []rig.List{{App: youngApp, Shard: aliceList.Shard}, youngList} {
		w.until(fmt.Sprintf("IDs of %d", in.App), func() error {
			if w.books.Highest()[in] == before[in] {
				return errors.New("none yet")
			}
			return nil
		})
	}
	if w.coin() {
		p := w.someProc() // it forgets what it saw
		w.kill(p)
		w.later(p.start)
	}
	w.promoteDatabase()
	w.linger(time.Second)
	w.makeYoung()
}

// deleteYoung deletes some of what is there, unless it is not known what that has issued.
func (w *world) deleteYoung() {
	w.t.Helper()
	for _, args := range [][]string{
		{"apps", "delete", "--app", fmt.Sprint(youngApp), "--confirm", "young"},
		{"tags", "delete", "--tag", youngTag, "--confirm", youngTag},
		{"spaces", "delete", "--space", youngTag, "--confirm", youngTag},
	} {
		if w.coin() {
			w.note("%s: deleted: %v", args[0], w.try(args...) == nil)
		}
	}
}

// makeYoung makes the app, the tag and the space where they are missing. In doubt that waits for Redis to vouch,
// and for as long as replicas may have a lease of a space that was deleted.
func (w *world) makeYoung() {
	w.t.Helper()
	app, step, sections := fmt.Sprint(youngApp), fmt.Sprint(segmentLen), fmt.Sprint(1+w.rnd.IntN(64))
	space := []string{"spaces", "add", "--space", youngTag, "--sections", sections, "--step", "50"}
	for table, args := range map[string][]string{
		"id_alloc WHERE app_id = 77":            {"provision", "--app", app, "--name", "young", "--step", step},
		"leaf_alloc WHERE biz_tag = 'young'":    {"tags", "add", "--tag", youngTag, "--step", step},
		"shardid_sequence WHERE name = 'young'": space,
	} {
		w.until(args[0]+" makes what is missing", func() error {
			if w.number("SELECT COUNT(*) FROM "+table) > 0 {
				return nil
			}
			return w.try(args...)
		})
	}
}

// startGroup starts the database as a group that does without a lost node after 5 s, and not 21, until that
// one has been started again.
func (w *world) startGroup() {
	w.t.Helper()
	w.group = testserver.Group(w.t)
	for _, n := range w.group.Nodes {
		rig.Query(w.t, n.DSN(""), "SET GLOBAL group_replication_member_expel_timeout = 0")
	}
}

// doctor fails the round unless `shardid doctor` judges a setting of a server of the database so.
func (w *world) doctor(server *testserver.MariaDBServer, setting, level string) {
	w.t.Helper()
	env := settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": server.DSN(database)}
	out, _ := env.Command(w.whole.TempDir(), rig.Binary(w.t), "doctor", "--json").Output() // the status is of all
	if !regexp.MustCompile(`"setting": ?"` + setting + `",[^}]*"level": ?"` + level + `"`).Match(out) {
		w.t.Errorf("doctor does not judge %s as %s: %s", setting, level, out)
	}
}

// withoutPrimary breaks the primary, and the others continue with another one. In the end what was broken is
// mended and joins again.
func withoutPrimary(breaks func(*world, *testserver.MariaDBServer) (mend func())) func(*world) {
	return func(w *world) {
		old, begun := w.primary(), time.Now()
		mend := breaks(w, old)
		if w.galera != nil {
			w.nextNode()
		} else {
			w.group.AnotherPrimary(old)
			w.reconnect()
		}
		w.note("another primary after %v", time.Since(begun).Round(10*time.Millisecond))
		w.later(func() {
			mend()
			if w.galera != nil {
				w.galera.Synced(old)
			} else {
				w.group.Rejoin(old)
			}
		})
		w.linger(4 * time.Second)
	}
}

// nextNode sends all processes to the next node of Galera.
func (w *world) nextNode() {
	w.t.Helper()
	w.node = w.galera.Nodes[(slices.Index(w.galera.Nodes, w.node)+1)%len(w.galera.Nodes)]
	w.leadTo(w.node)
}

func killed(w *world, n *testserver.MariaDBServer) (mend func()) {
	n.Kill()
	if w.galera != nil {
		return n.Restart
	}
	return func() {}
}

// startedOutside: the node takes writes that nobody else has, until it joins.
func startedOutside(w *world, n *testserver.MariaDBServer) (mend func()) {
	n.Kill()
	n.Restart()
	w.doctor(n, "member of its group", "unsafe")
	return func() {}
}

// frozen: the others have done without the node when it wakes up.
func frozen(w *world, n *testserver.MariaDBServer) (mend func()) {
	n.Pause()
	return func() {
		time.Sleep(long)
		n.Resume()
		w.linger(3 * time.Second)
	}
}

func primarySwitched(w *world) {
	if w.galera != nil {
		w.nextNode()
	} else {
		w.doctor(w.primary(), "group_replication_consistency", "ok")
		w.exec("SET GLOBAL group_replication_consistency = EVENTUAL") // it may answer before it knows all
		w.doctor(w.primary(), "group_replication_consistency", "warn")
		w.exec("SET GLOBAL group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER")
		w.group.Switch()
		w.reconnect()
	}
	w.linger(2 * time.Second)
}

// nodesApart: each process uses a node of its own.
func nodesApart(w *world) {
	for i, proxy := range w.dbProxies {
		proxy.Switch(w.galera.Nodes[i%len(w.galera.Nodes)].Addr())
	}
	w.later(func() { w.leadTo(w.node) })
	w.issue(lag)
	w.linger(5 * time.Second)
}
