//go:build unix

package testserver

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The server that runs is the one that DB and KV name.
func TestEditionRuns(t *testing.T) {
	var version string
	wantNil(t, "ask", SharedMariaDB(t).withDB(askLimit, func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	}))
	_, want, _ := strings.Cut(Database(), "-")
	if !strings.HasPrefix(version, want) || OnMySQL() == strings.Contains(version, "MariaDB") {
		t.Errorf("DB=%s runs version %s", Database(), version)
	}
	info, err := SharedRedis(t).Client().Info(t.Context(), "server").Result()
	wantNil(t, "info", err)
	product, want, _ := strings.Cut(KeyValue(), "-")
	if product == "" {
		product = "redis"
	}
	if !strings.Contains(info, product+"_version:"+want) {
		t.Errorf("KV=%s runs %s", KeyValue(), info)
	}
}

func TestEditionUnknown(t *testing.T) {
	t.Setenv("DB", "mysql-5.0")
	if _, err := database(); err == nil || !strings.Contains(err.Error(), "mysql-9.7, mariadb-10.11, mariadb-11.8") {
		t.Errorf("DB=mysql-5.0: %v", err)
	}
}

// A server that was not fetched is an error and never another server.
func TestEditionMissing(t *testing.T) {
	t.Setenv("SHARDID_TEST_SERVERS", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	t.Setenv("KV", "valkey-9.1")
	_, err := keyValue()
	if err == nil || !strings.Contains(err.Error(), "`scripts/fetch-test-server.sh valkey-9.1` fetches it") {
		t.Errorf("KV=valkey-9.1, not fetched: %v", err)
	}
}

// The script and this package know the same servers, by the same banners.
func TestEditionsOfTheScript(t *testing.T) {
	script, err := os.ReadFile("../fetch-test-server.sh")
	wantNil(t, "read", err)
	var got, want []string
	for _, m := range regexp.MustCompile(`(?s)\n\t([a-z]+-[0-9.]+)\)\n.*?banner='([^']*)'`).FindAllStringSubmatch(string(script), -1) {
		got = append(got, m[1]+" "+strings.ReplaceAll(m[2], `\.`, "."))
	}
	for _, e := range slices.Concat(databases, keyValues) {
		want = append(want, e.name+" "+e.banner)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the script knows\n%q, this package\n%q", got, want)
	}
}

func TestFetchUnknown(t *testing.T) {
	out, err := exec.Command("../fetch-test-server.sh", "mysql-9.7", "oracle-23").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no server is called oracle-23") {
		t.Errorf("%v: %s", err, out)
	}
}

// Without a way to fetch, the script says why, keeps the reason and fails.
func TestFetchWithoutApt(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"mkdir", "cat", "grep", "rm", "tail", "mktemp", "flock", "id", "head"} {
		path, err := exec.LookPath(name)
		wantNil(t, "find "+name, err)
		wantNil(t, "link", os.Symlink(path, bin+"/"+name))
	}
	cmd := exec.Command("../fetch-test-server.sh", "valkey-9.1")
	cmd.Env = []string{"PATH=" + bin, "SHARDID_TEST_SERVERS=" + dir}
	out, err := cmd.CombinedOutput()
	const why = "this system has no apt-get or no dpkg-deb"
	if err == nil || !strings.Contains(string(out), "valkey-9.1 could not be fetched") || !strings.Contains(string(out), why) {
		t.Errorf("%v: %s", err, out)
	}
	if kept, err := os.ReadFile(dir + "/valkey-9.1.missing"); !strings.Contains(string(kept), why) {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// test-stores.sh names in its last lines what could not be fetched, and fails when a
// test does and not before.
func TestStoresScript(t *testing.T) {
	for name, c := range map[string]struct {
		goTest, combination string
		fails               bool
		last                string
	}{
		"both missing":  {"exit 1", "mysql-9.7+valkey-9.1", false, "NOT RUN: valkey-9.1 could not be fetched: no mirror"},
		"half missing":  {"exit 0", "mysql-9.7+half", false, "NOT RUN: mysql-9.7 could not be fetched: no mirror"},
		"a test failed": {"echo boom; exit 1", "half+half", true, "every server of these combinations was there"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go":                           "if [ $1 = list ]; then exit 0; fi; " + c.goTest,
				"scripts/fetch-test-server.sh": "case $1 in half) exit 0 ;; esac; echo \"test servers: $1 could not be fetched: no mirror\"; exit 1",
			} {
				wantNil(t, "folder", os.MkdirAll(dir+"/scripts", 0o700))
				wantNil(t, "write", os.WriteFile(dir+"/"+file, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
			}
			script, err := os.ReadFile("../test-stores.sh")
			wantNil(t, "read", err)
			wantNil(t, "write", os.WriteFile(dir+"/scripts/test-stores.sh", script, 0o700))
			cmd := exec.Command(dir+"/scripts/test-stores.sh", c.combination)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if (err != nil) != c.fails || !strings.HasPrefix(lines[len(lines)-1], c.last) || strings.Contains(string(out), "boom") != c.fails {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
