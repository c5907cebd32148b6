//go:build unix

package e2e_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestE2EExamples runs the programs of docs/examples twice each: a replica first answers 503
// with Retry-After, and the IDs are beyond the numbers of JavaScript.
func TestE2EExamples(t *testing.T) {
	check.Deep(t)
	story(t)
	const first = 1<<53 + 1
	dir := t.TempDir()
	must := func(args ...string) {
		if o := shardidIn(t, dir, nil, args...); o.exit != 0 {
			t.Fatalf("%v: %+v", args, o)
		}
	}
	must("migrate")
	must("tags", "add", "--tag", "orders", "--step", "1000", "--max-id", fmt.Sprint(first))
	d := serveIn(t, dir, nil)
	d.ready()
	target, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	goGorm := filepath.Join(t.TempDir(), "orders")
	seen := map[string]bool{}
	for name, words := range map[string][]string{
		"go-gorm": {goGorm},
		"python":  {"python3", filepath.Join(root, "python/orders.py")},
		"node":    {"node", filepath.Join(root, "node/orders.mjs")},
		"java":    {"java", "-cp", "", filepath.Join(root, "java/Orders.java")},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := ""
			if name == "go-gorm" {
				dsn = testserver.SharedMariaDB(t).NewDatabase(t)
				out, err := exec.Command("go", "build", "-o", goGorm, filepath.Join(root, "go-gorm")).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			} else if _, err := exec.LookPath(words[0]); err != nil {
				t.Skip("not installed:", words[0])
			}
			if name == "java" {
				words[2] = javaClient(t)
			}
			var asked atomic.Int32
			pass := httputil.NewSingleHostReverseProxy(target)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 {
					w.Header().Set("Retry-After", "1")
					http.Error(w, `{"code":-4,"message":"no ID in time"}`, http.StatusServiceUnavailable)
					return
				}
				pass.ServeHTTP(w, r)
			}))
			defer front.Close()
			var printed []string
			for run := range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				cmd := exec.CommandContext(ctx, words[0], append(words[1:], "alice", "bob", "张三")...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "SHARDID_URLS="+front.URL, "DATABASE_DSN="+dsn)
				begun := time.Now()
				out, err := cmd.CombinedOutput()
				cancel()
				lines := strings.Split(strings.TrimSpace(string(out)), "\n")
				lines = lines[max(0, len(lines)-3):] // gorm tells of slow statements
				if err != nil || len(lines) != 3 || !strings.HasSuffix(lines[2], " 张三") {
					t.Fatalf("%v: %s", err, out)
				}
				if took := time.Since(begun); run == 0 && took < time.Second {
					t.Errorf("it asked again before Retry-After, after %v", took)
				}
				last := int64(0)
				for _, line := range lines {
					var id int64
					if _, err := fmt.Sscan(line, &id); err != nil || id < first || id <= last || seen[fmt.Sprint(id)] {
						t.Errorf("ID %d of %s", id, out)
					}
					if last > 0 && id != last+1 {
						t.Errorf("%d after %d: digits were lost", id, last)
					}
					last, seen[fmt.Sprint(id)] = id, true
					printed = append(printed, fmt.Sprint(id))
				}
			}
			if asked.Load() < 2 {
				t.Errorf("%d requests", asked.Load())
			}
			var kept []string
			switch name {
			case "go-gorm":
				kept = ordersIn(t, "mysql", dsn)
			case "python":
				kept = ordersIn(t, "sqlite", filepath.Join(dir, "orders.db"))
			default:
				file := map[string]string{"node": "orders.jsonl", "java": "orders.csv"}[name]
				raw, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				kept = regexp.MustCompile(`\d{16,}`).FindAllString(string(raw), -1)
			}
			if !slices.Equal(kept, printed) {
				t.Errorf("kept %v of %v", kept, printed)
			}
		})
	}
}

// ordersIn are the IDs of a table orders.
func ordersIn(t *testing.T, driver, source string) (ids []string) {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM orders ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		ids = append(ids, "")
		if err := rows.Scan(&ids[len(ids)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}
