//go:build unix

// The first minute of a user: an empty folder, one command, and an ID of every mode. Then the worst that can
// happen to that process: it is killed while it works, and started again in its folder.

package stories_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/rig"

	_ "modernc.org/sqlite" // the driver "sqlite", for a file of others
)

// TestFirstMinute: an empty folder, one command, and one curl for each mode. The first ID of each list is
// known beforehand, nothing is an alarm, and the log names the store that keeps the worker IDs.
func TestFirstMinute(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	for _, c := range []struct{ name, target, body string }{
		{"the first ID of an app", aliceGet, `{"code":0,"id":16385,"idStr":"16385"}`},
		{"the first ID of a tag", segmentGet + demoTag, "1"},
		{"the next ones", segmentGet + demoTag + "?count=3", "2\n3\n4\n"},
		{"the first number of a key", "/v1/sequence/chat/ids?key=room42", `{"code":0,"ids":["1"]}`},
		{"the next ones", "/v1/sequence/chat/ids?key=room42&count=2", `{"code":0,"ids":["2","3"]}`},
	} {
		if got := eventuallyID(t, d, c.target); got != c.body {
			t.Errorf("%s: %q, want %q", c.name, got, c.body)
		}
	}
	flake := number64(t, eventuallyID(t, d, snowflakeGet))
	if got, want := workerOf(flake), d.flakeStatus().WorkerID; got != want {
		t.Errorf("the first snowflake is of worker %d, /api/status says %d", got, want)
	}
	uid := number64(t, eventuallyID(t, d, uidGet))
	if next := number64(t, d.want(uidGet, 200, 0).body); uidWorkerOf(uid) != 1 || next != uid+1 {
		t.Errorf("the first UIDs are %d and %d, want two of worker 1 in a row", uid, next)
	}
	d.lease("demo")
	check.Equal(t, strings.Join(d.alarms(), " "), "", "alarms of a demo")
	check.Lacks(t, d.get("/healthz").body, "redis", "what works")
	check.Has(t, d.Output(), `"registry":"sqlite"`, "the log")
}

// TestKilledUnderLoad: the embedded stores survive kill -9 and orderly stops in turns. No ID of any mode comes twice,
// the numbers of a key rise, and each life has a worker ID of the UID mode of its own.
func TestKilledUnderLoad(t *testing.T) {
	story(t)
	p, queue, tag, flakes, uids := newPlace(t, "embedded", nil, "--demo"), &ledger{}, &ledger{}, &ledger{}, &ledger{}
	var numbered rig.Order
	for life := range 4 {
		p.settings = settings{"UID_MODE": []string{"cached", "default"}[life%2]}
		p.start().ready()
		draws := []draw{
			{place: p, target: aliceGet, batch: 10, books: queue},
			{place: p, target: segmentGet + demoTag, batch: 10, books: tag},
			{place: p, target: snowflakeGet, batch: 10, books: flakes},
			{place: p, target: uidGet, batch: 7, books: uids},
		}
		callers, numberers := gather(t, 4, draws...), number(p, &numbered)
		for _, w := range draws {
			reach(t, w.books, w.books.Count()+1000)
		}
		reach(t, &numbered, numbered.Count()+1000)
		if life%2 == 0 {
			p.kill()
		} else {
			p.stop()
		}
		callers.Stop()
		numberers.Stop()
		if workers := uidWorkers(uids); len(workers) != life+1 {
			t.Errorf("UIDs by worker ID after %d lives: %v", life+1, workers)
		}
	}
	for name, books := range map[string]*ledger{"queue": queue, "tag": tag, "snowflake": flakes, "UID": uids} {
		books.Settle(t, name)
	}
	numbered.Settle(t, "sequences")
}

// TestLostDatabase: a folder that has been in use does not begin anew when its
// database is gone, empty or another one, and continues once it is back.
func TestLostDatabase(t *testing.T) {
	story(t)
	dir := t.TempDir()
	d := serveIn(t, dir, nil, "--demo")
	d.ready()
	d.want("/api/snowflake/get/x", 200, 0)
	d.stops(syscall.SIGTERM, startLimit)
	file, saved := filepath.Join(dir, "data", "shardid.db"), filepath.Join(dir, "saved.db")
	check.Must(t, os.Rename(file, saved))
	for name, damage := range map[string]func(){
		"missing":     func() {},
		"zero length": func() { writeFile(t, file, "") },
		"no table":    func() { sqliteFile(t, file, "PRAGMA user_version = 7") },
		"foreign":     func() { sqliteFile(t, file, "CREATE TABLE theirs (x)") },
	} {
		t.Run(name, func(t *testing.T) {
			damage()
			before, _ := os.ReadFile(file)
			for _, args := range []string{"serve", "migrate", "provision --app 2 --name b", "doctor"} {
				o := shardidIn(t, dir, settings{"SERVER_ADDR": "127.0.0.1:0"}, strings.Fields(args)...)
				check.Equal(t, o.exit, 1, args)
				check.Has(t, o.stderr, "data/shardid.db has no tables of shardid, but data/shardid/", args)
				check.Has(t, o.stderr, "restore the file from a backup", args)
			}
			if after, _ := os.ReadFile(file); string(after) != string(before) {
				t.Error("the file was changed")
			}
			if err := os.Remove(file); err != nil && name != "missing" {
				t.Error(err)
			}
		})
	}
	check.Must(t, os.Rename(saved, file))
	serveIn(t, dir, nil).ready()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

func sqliteFile(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	check.Must(t, err)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
