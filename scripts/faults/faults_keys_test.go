//go:build unix

package faults

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"shardid/scripts/rig"

	"github.com/go-sql-driver/mysql"
)

// keys are the names of the keys of a node that match pattern.
func (n *node) keys(pattern string) []string {
	n.t.Helper()
	names, err := n.c.Keys(context.Background(), pattern).Result()
	if err != nil {
		n.t.Fatal(err)
	}
	return names
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

func listsDeleted(w *world) { w.thrice(func() { w.each(listKeys, "DEL") }) }

func metasDeleted(w *world) { w.thrice(func() { w.each(metaKeys, "DEL") }) }

func sectionsDeleted(w *world) { w.thrice(func() { w.each(sectionKeys, "DEL") }) }

// allDeleted empties Redis.
func allDeleted(w *world) {
	w.thrice(func() {
		for _, p := range w.site.pairs() {
			p.leader().do("FLUSHALL")
		}
	})
}

// locksGone: refill locks vanish, or expire, under their holders.
func locksGone(w *world) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if w.rnd.IntN(2) == 0 {
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
		w.must(err)
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

func scriptsFlushed(w *world) {
	w.thrice(func() {
		for _, p := range w.site.pairs() {
			p.leader().do("SCRIPT", "FLUSH")
		}
	})
}

// rollback is how far rows go back, in indices.
const rollback = 20_000

// rowsBack rolls max_id back where Redis vouches for all that was handed out:
// on lists whose high-water mark is max_id. More than that is outside the
// promise. Healing is what a runbook says: max_id is raised by hand.
func rowsBack(w *world) {
	var marks map[rig.List]int64
	for tries, rows := 0, int64(0); rows == 0 && tries < 20; tries++ {
		marks = w.highWaters()
		rows = w.rollBack(marks)
		w.note("%d rows went back", rows)
		w.linger(100 * time.Millisecond)
	}
	w.later(func() { w.raise(marks) })
	w.issue(10 * lag)
}

// rollBack returns how many rows went back: none when the processes that take
// segments made the server give the statement up.
func (w *world) rollBack(marks map[rig.List]int64) int64 {
	w.t.Helper()
	var where strings.Builder
	args := []any{rollback}
	for in, mark := range marks {
		where.WriteString(" OR (app_id = ? AND shard_id = ? AND max_id = ?)")
		args = append(args, in.App, in.Shard, mark)
	}
	res, err := w.sql.Exec("UPDATE id_alloc SET max_id = GREATEST(0, max_id - ?) WHERE FALSE"+where.String(), args...)
	if deadlock := new(mysql.MySQLError); errors.As(err, &deadlock) && deadlock.Number == 1213 {
		return 0
	}
	w.must(err)
	rows, err := res.RowsAffected()
	w.must(err)
	return rows
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

// raise locks one row at a time, as the processes go on.
func (w *world) raise(marks map[rig.List]int64) {
	w.t.Helper()
	for in, mark := range marks {
		w.exec("UPDATE id_alloc SET max_id = GREATEST(max_id, ?) WHERE app_id = ? AND shard_id = ?", mark, in.App, in.Shard)
	}
}
