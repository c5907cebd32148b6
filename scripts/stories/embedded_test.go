//go:build unix

package stories_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite", for a file of others
)

// TestLostDatabase: a folder that has been in use does not begin anew when its
// database is gone, empty or another one, and goes on once it is back.
func TestLostDatabase(t *testing.T) {
	story(t)
	dir := t.TempDir()
	d := serveIn(t, dir, nil, "--demo")
	d.ready()
	d.want("/api/snowflake/get/x", 200, 0)
	d.stops(syscall.SIGTERM, startLimit)
	file, saved := filepath.Join(dir, "data", "shardid.db"), filepath.Join(dir, "saved.db")
	if err := os.Rename(file, saved); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		make func()
		word string
	}{
		"missing":     {func() {}, "is not there"},
		"zero length": {func() { writeFile(t, file, "") }, "is empty"},
		"no table":    {func() { sqliteFile(t, file, "PRAGMA user_version = 7") }, "is empty"},
		"foreign":     {func() { sqliteFile(t, file, "CREATE TABLE theirs (x)") }, "has no table of shardid"},
	} {
		t.Run(name, func(t *testing.T) {
			c.make()
			before, _ := os.ReadFile(file)
			for _, args := range []string{"serve", "migrate", "provision --app 2 --name b", "doctor"} {
				what := try{args, 1, "", "data/shardid.db " + c.word + ", but data/shardid/"}
				o := what.in(t, dir, settings{"SERVER_ADDR": "127.0.0.1:0"})
				if advice := "restore the file from a backup"; !strings.Contains(o.stderr, advice) {
					t.Errorf("%s does not say %q: %s", args, advice, o.stderr)
				}
			}
			if after, _ := os.ReadFile(file); string(after) != string(before) {
				t.Error("the file was changed")
			}
			if err := os.Remove(file); err != nil && name != "missing" {
				t.Error(err)
			}
		})
	}
	if err := os.Rename(saved, file); err != nil {
		t.Fatal(err)
	}
	serveIn(t, dir, nil).ready()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func sqliteFile(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
