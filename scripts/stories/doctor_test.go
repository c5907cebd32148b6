//go:build unix

package stories_test

import (
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/testserver"
)

// TestDoctor: doctor shows each setting with its verdict. What is unsafe, and what cannot be asked, is in its one
// line on stderr, without passwords; that one store is away hides nothing of the other.
func TestDoctor(t *testing.T) {
	story(t)
	good := func(t *testing.T) settings { return provisioned(t).With(onRedis(testserver.Redis(t).Addr)) }
	unsafe := func(t *testing.T) settings { s, _ := onUnsafe(t); return s }
	without := func(away settings) func(*testing.T) settings {
		return func(t *testing.T) settings { return good(t).With(away) }
	}
	silent := func(t *testing.T) settings {
		paused := testserver.Redis(t)
		paused.Pause()
		return good(t).With(onRedis(paused.Addr))
	}
	noRedis := []string{"redis  reachable  no  yes  unknown", "database  read_only  OFF"}
	for name, c := range map[string]struct {
		on    func(t *testing.T) settings
		exit  int
		shows []string // rows: columns parted by two blanks, without the node
		says  []string // on stderr
	}{
		"good": {good, 0, []string{
			"STORE  SETTING  VALUE  WANTED  VERDICT",
			"database  sync_binlog  log_bin is off  1 with log_bin  ok",
			"redis  role  master  master  ok",
		}, nil},
		"the database is away": {
			without(onMariaDB("root:" + password + "@tcp(127.0.0.1:1)/nowhere")), 1,
			[]string{"database  reachable  no  yes  unknown", "redis  role  master"},
			[]string{"start it, or correct database.dsn"},
		},
		"Redis is away":   {without(onRedis("127.0.0.1:1")), 1, noRedis, []string{"start Redis, or correct redis."}},
		"Redis is silent": {silent, 1, noRedis, []string{"no answer in time"}},
		"unsafe": {unsafe, 1, []string{
			"database  innodb_flush_log_at_trx_commit  2  1  unsafe",
			"redis  maxmemory-policy  allkeys-lru  noeviction  unsafe",
			"redis  replica-read-only  no  yes  warn",
		}, []string{
			"innodb_flush_log_at_trx_commit is 2, it should be 1",
			"maxmemory-policy is allkeys-lru, it should be noeviction",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := shardid(t, c.on(t), "doctor")
			wantOneLine(t, o)
			if o.exit != c.exit || strings.Contains(o.stdout+o.stderr, password) {
				t.Errorf("got %+v, want exit %d and no password", o, c.exit)
			}
			if strings.Contains(o.stderr, "replica-read-only") {
				t.Errorf("a mere warning is on stderr: %s", o.stderr)
			}
			for _, text := range c.says {
				if !strings.Contains(o.stderr, text) {
					t.Errorf("%q is not in %s", text, o.stderr)
				}
			}
			for _, shown := range c.shows {
				row := strings.ReplaceAll(regexp.QuoteMeta(shown), "  ", `  +(?:\S+  +)?`)
				if !regexp.MustCompile(`(?m)^` + row + `  +\S`).MatchString(o.stdout) {
					t.Errorf("no row %q in\n%s", shown, o.stdout)
				}
			}
		})
	}
}

// onUnsafe are stores that lose commits in a power cut, evict lists and let replicas be written.
func onUnsafe(t *testing.T) (settings, *testserver.RedisServer) {
	t.Helper()
	s := onMariaDB(testserver.MariaDB(t, "--innodb-flush-log-at-trx-commit=2").NewDatabase(t))
	must(t, s, "migrate")
	must(t, s, "provision", "--app", "1", "--name", "test")
	r := testserver.Redis(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--replica-read-only", "no")
	return s.With(onRedis(r.Addr)), r
}
