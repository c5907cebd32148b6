//go:build unix

package stories_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
)

// examples are the programs of docs/examples: what each needs, how it is run, and how to see the IDs that it kept.
func examples() map[string]struct{ needs, run, kept string } {
	const query = "SELECT id FROM orders ORDER BY id"
	return map[string]struct{ needs, run, kept string }{
		"go-gorm": {"go version", "go run -C $EXAMPLES/go-gorm .", `$MARIADB -N -e "` + query + `"`},
		"python": {"python3 --version", "python3 $EXAMPLES/python/orders.py",
			`python3 -c "import sqlite3; print(*(i for i, in sqlite3.connect('orders.db').execute('` + query + `')))"`},
		"node": {"node --version", "node $EXAMPLES/node/orders.mjs", `grep -oE "[0-9]{16,}" orders.jsonl`},
		"java": {"javac -version", "java -cp $CLASSES $EXAMPLES/java/Orders.java", `grep -oE "[0-9]{16,}" orders.csv`},
	}
}

// TestExamples runs each example twice. At first a replica answers 503 with Retry-After. The IDs are beyond the
// numbers of JavaScript, and what is printed is what is kept.
func TestExamples(t *testing.T) {
	check.Deep(t)
	story(t)
	const first = 1<<53 + 1
	d := prepared(t, nil, []string{"migrate"}, strings.Fields(fmt.Sprint("tags add --tag orders --max-id ", first)))
	d.ready()
	target, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(docs + "examples")
	if err != nil {
		t.Fatal(err)
	}
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	db, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(db.Addr)
	mariadb := fmt.Sprintf("%s --no-defaults --protocol=tcp -h %s -P %s -u root %s",
		testserver.MariaDBClient(), host, port, db.DBName)
	env := append(os.Environ(), "EXAMPLES="+folder, "CLASSES="+javaClasses(t), "DATABASE_DSN="+dsn, "MARIADB="+mariadb)
	for name, c := range examples() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if out, err := shell(t, dir, env, c.needs); err != nil {
				t.Skipf("not installed: %s: %s", c.needs, out)
			}
			var asked atomic.Int32
			pass := httputil.NewSingleHostReverseProxy(target)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 1 {
					pass.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Retry-After", "1")
				http.Error(w, `{"code":-4,"message":"no ID in time"}`, http.StatusServiceUnavailable)
			}))
			defer front.Close()
			printed, begun := "", time.Now()
			for run := range 2 {
				out, err := shell(t, dir, append(env, "SHARDID_URLS="+front.URL), c.run+" alice bob 张三")
				lines := regexp.MustCompile(`(?m)^(\d{16,}) .*(alice|bob|张三)$`).FindAllStringSubmatch(out, -1)
				if err != nil || len(lines) != 3 {
					t.Fatalf("%v: %s, want three IDs", err, out)
				}
				for _, line := range lines {
					printed += line[1] + " "
				}
				if took := time.Since(begun); run == 0 && took < time.Second {
					t.Errorf("it asked again before Retry-After, after %v", took)
				}
			}
			var ids [6]int64
			if _, err := fmt.Sscan(printed, &ids[0], &ids[1], &ids[2], &ids[3], &ids[4], &ids[5]); err != nil {
				t.Fatal(err)
			}
			for i, id := range ids {
				if id < first || i%3 > 0 && id != ids[i-1]+1 {
					t.Errorf("%v: an ID is below %d, or digits were lost", ids, int64(first))
				}
			}
			kept, err := shell(t, dir, env, c.kept)
			if err != nil || strings.Join(strings.Fields(kept), " ")+" " != printed {
				t.Errorf("%v: kept %s of %s", err, kept, printed)
			}
		})
	}
}
