//go:build unix

package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

const aliceMaxID = "SELECT max_id FROM id_alloc WHERE app_id = 1 AND shard_id = 0"

// coldStores are private servers whose state can be put back.
type coldStores struct {
	stores
	folders map[string]string // of a server's data, to that of its copy
}

func cold(t *testing.T, more ...settings) coldStores {
	s := coldStores{stores: privateStores(t, more...), folders: map[string]string{}}
	s.folders[filepath.Join(filepath.Dir(s.db.Socket), "data")] = filepath.Join(t.TempDir(), "db")
	s.folders[s.redis.Client().ConfigGet(t.Context(), "dir").Val()["dir"]] = filepath.Join(t.TempDir(), "redis")
	return s
}

// copyAway copies both stores as they are: MariaDB is stopped for it, Redis
// saves.
func (s coldStores) copyAway(t *testing.T) {
	t.Helper()
	eventually(t, startLimit, "the list is refilled", func() bool { return s.redis.Client().LLen(t.Context(), aliceList).Val() > 0 })
	order(t, s.redis.Client(), "SAVE")
	s.db.Stop()
	for live, kept := range s.folders {
		if err := os.CopyFS(kept, os.DirFS(live)); err != nil {
			t.Fatal(err)
		}
	}
	s.db.Restart()
}

// putBack replaces a server's data by the copy.
func (s coldStores) putBack(t *testing.T, live string) {
	t.Helper()
	if err := os.RemoveAll(live); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(live, os.DirFS(s.folders[live])); err != nil {
		t.Fatal(err)
	}
}

func (s coldStores) dbFolder() string { return filepath.Join(filepath.Dir(s.db.Socket), "data") }

// TestDirectedDatabaseRestored: MariaDB comes back from a cold copy that is 5000
// IDs old, while Redis goes on.
func TestDirectedDatabaseRestored(t *testing.T) {
	story(t)
	s, books := cold(t), &ledger{}
	d := serve(t, s.settings().With(direct()))
	take(d, books, 3000)
	s.copyAway(t)
	take(d, books, 5000)
	s.db.Kill()
	s.putBack(t, s.dbFolder())
	s.db.Restart()
	wantOldRow(t, s.dsn, books)
	fresh := serve(t, s.settings().With(direct()))
	take(fresh, books, 5000) // knows only what the stores say
	take(d, books, 5000)
	books.Settle(t)
}

// TestDirectedBothStoresRestored: both stores come back from copies taken
// together, and no process is left that knows better. Whatever was issued before
// the copy, and however fast after it, the bound on what a copy may lack leaves
// enough out.
func TestDirectedBothStoresRestored(t *testing.T) {
	check.Deep(t)
	story(t)
	slow := settings{"QUEUE_MAX_LIST_RATE": "1000", "QUEUE_MAX_STEP": "1000"}
	for name, c := range map[string]lostWorld{
		"steady load":               {before: []int{2500}, after: 5000},
		"copied in first segment":   {before: []int{500}, after: 5000},
		"load grows after the copy": {before: []int{700, 800}, after: 30_000},
		"as fast as it is served, above queue.max_list_rate": {before: []int{2500}, rush: 6 * time.Second, settings: slow},
		"max_id raised before the copy": {before: []int{2500}, after: 5000, copied: func(t *testing.T, s stores) {
			must(t, s.settings(), "apps", "set", "--app", "1", "--min-index", "5000000")
		}},
		"max_id raised far and fast": {before: []int{2500}, rush: 6 * time.Second, settings: slow, copied: func(t *testing.T, s stores) {
			must(t, s.settings(), "apps", "set", "--app", "1", "--min-index", "5000000")
		}},
		"last segment by a clock two hours ahead": {before: []int{2500}, rush: 6 * time.Second, settings: slow, copied: func(t *testing.T, s stores) {
			query(t, s.dsn, "UPDATE id_alloc SET allocated_at = allocated_at + 7200000 WHERE allocated_at > 0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issued, repeated := c.restore(t)
			if t.Logf("%d IDs after the restore, %d of them twice", issued, repeated); repeated > 0 {
				t.Errorf("%d of %d IDs were issued before both stores were restored, too", repeated, issued)
			}
		})
	}
}

// lostWorld is what happens around a copy of both stores that is gone back to.
type lostWorld struct {
	settings settings
	before   []int                             // IDs, with a pause between each two
	copied   func(t *testing.T, stores stores) // just before the copy
	after    int                               // IDs that are lost with the stores
	rush     time.Duration                     // or all that can be had in that time
}

// restore issues before and after the copy, goes back to it, issues as much as was
// lost and counts the IDs that came twice.
func (w lostWorld) restore(t *testing.T) (issued, repeated int) {
	t.Helper()
	s, lost := cold(t, w.settings), &ledger{} // the database keeps the highest rate that it is told
	server := s.settings().With(direct()).With(w.settings)
	d := serve(t, server)
	for i, n := range w.before {
		if i > 0 {
			time.Sleep(5 * time.Second) // makes the rate small; nothing waits for it
		}
		take(d, lost, n)
	}
	if w.copied != nil {
		w.copied(t, s.stores)
	}
	s.copyAway(t)
	w.issue(d, lost)
	d.Kill()
	s.backToCopy(t, lost)
	d = serve(t, server)
	again := &ledger{}
	w.issue(d, again)
	before := lost.IDs()
	for _, id := range again.IDs() {
		if _, twice := slices.BinarySearch(before, id); twice {
			repeated++
		}
	}
	return again.Count(), repeated
}

// issue is the load after the copy, and after the restore.
func (w lostWorld) issue(d *daemon, books *ledger) {
	d.t.Helper()
	take(d, books, max(w.after, 1500)) // beyond what the list holds
	for end := time.Now().Add(w.rush); time.Now().Before(end); {
		batch(d, books, "alice", 1000)
	}
}

// backToCopy restores both stores.
func (s coldStores) backToCopy(t *testing.T, lost *ledger) {
	t.Helper()
	// Servers are told apart by when they started, give or take five seconds.
	eventually(t, startLimit, "the database has run for a while", func() bool { return uptime(t, s.dsn) > 8 })
	s.db.Kill()
	s.redis.Kill()
	for live := range s.folders {
		s.putBack(t, live)
	}
	s.db.Restart()
	s.redis.Restart()
	wantOldRow(t, s.dsn, lost)
	wantStale(t, s.redis, lost)
}

// TestDirectedRedisMovedAndBack: the lists move from one Redis to another and back,
// and the database is restored to the time of the first: the mark that it finds there
// is the one that its rows name, and older than what was issued.
func TestDirectedRedisMovedAndBack(t *testing.T) {
	check.Deep(t)
	story(t)
	s, books := cold(t), &ledger{}
	proxy := proxied(t, s.redis)
	server := s.settings().With(onRedis(proxy.Addr)).With(direct())
	d := serve(t, server)
	take(d, books, 2500)
	s.copyAway(t)
	take(d, books, 100)
	time.Sleep(2 * time.Second) // the first Redis is in use with the copied database, too
	proxy.Switch(testserver.Redis(t).Addr)
	take(d, books, 30_000)
	time.Sleep(10 * time.Second)
	d.Kill()
	s.db.Kill()
	s.putBack(t, s.dbFolder())
	s.db.Restart()
	proxy.Switch(s.redis.Addr)
	mark, err := s.redis.Client().HGet(t.Context(), "id.gen.meta_{"+aliceList+"}", "w").Int64()
	if highest := books.Last() >> 14; err != nil || highest <= mark {
		t.Fatalf("the mark is %d (%v), and no index above %d was issued: it is not old", mark, err, highest)
	}
	take(serve(t, server), books, 30_000)
	books.Settle(t)
}

// wantOldRow fails when the row has not gone back in time: then the test would
// show nothing.
func wantOldRow(t *testing.T, dsn string, books *ledger) {
	t.Helper()
	if maxID, highest := number(t, dsn, aliceMaxID), books.Last()>>14; highest <= maxID {
		t.Fatalf("max_id is %d and no index above %d was issued: the row is not old", maxID, highest)
	}
}
