//go:build unix

package stories_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shardid/scripts/testserver"
)

// password is what no output may hold.
const password = "hunter2-streng-geheim"

// mistake is a configuration that cannot work.
type mistake struct {
	settings func(t *testing.T) settings
	mentions string // what the log line holds
	advice   string // and what it says to do
}

func mistakes() map[string]mistake {
	onThisRedis := func(addr func(t *testing.T) string) func(t *testing.T) settings {
		return func(t *testing.T) settings { return provisioned(t).With(onRedis(addr(t))) }
	}
	onThisDatabase := func(dsn func(t *testing.T) string) func(t *testing.T) settings {
		return func(t *testing.T) settings { return onMariaDB(dsn(t)).With(onRedis(testserver.Redis(t).Addr)) }
	}
	locked := func(t *testing.T) string {
		r := testserver.Redis(t)
		if err := r.Client().ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
			t.Fatal(err)
		}
		return r.Addr
	}
	replica := func(t *testing.T) string { return testserver.RedisReplica(t, testserver.Redis(t)).Addr }
	sentinel := func(t *testing.T) string { return testserver.Sentinel(t).Addrs[0] }
	empty := func(t *testing.T) string { return testserver.SharedMariaDB(t).NewDatabase(t) }
	nowhere := func(t *testing.T) string { return testserver.SharedMariaDB(t).DSN("nowhere") }
	secret := func(t *testing.T) string { return strings.Replace(empty(t), "root@", "root:"+password+"@", 1) }
	wrong := func(t *testing.T) settings {
		return provisioned(t).With(as("", password+"-wrong", onRedis(locked(t))))
	}
	return map[string]mistake{
		"wrong redis password":    {wrong, "WRONGPASS", "redis.url"},
		"no redis password":       {onThisRedis(locked), "NOAUTH", "redis.url"},
		"wrong database password": {onThisDatabase(secret), "Access denied", "database.dsn"},
		"unknown database":        {onThisDatabase(nowhere), "Unknown database", "create the database"},
		"no migrate":              {onThisDatabase(empty), "id_alloc", "shardid migrate"},
		"a replica for a master":  {onThisRedis(replica), "READONLY", "master"},
		"a sentinel for a master": {onThisRedis(sentinel), "redis", "master_name"},
	}
}

func provisioned(t *testing.T) settings {
	t.Helper()
	s := onMariaDB(migrated(t))
	must(t, s, "provision", "--app", "1", "--name", "test")
	return s
}

// TestMistakes: each is said in one clear line and not in a flood, callers get an answer, and no password is told to
// anybody.
func TestMistakes(t *testing.T) {
	story(t)
	for name, m := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := serve(t, m.settings(t).With(settings{"SERVER_REQUEST_TIMEOUT": "300ms"}))
			said := pester(d)
			told := func() int { return len(d.Lines(m.mentions, m.advice)) }
			eventually(t, startLimit, "the mistake is told", func() bool { return told() > 0 })
			said += pester(d)
			if n := told(); n > 3 {
				t.Errorf("told %d times, want 3 at most:\n%s", n, d.Output())
			}
			if n := len(d.Lines(`"level":"ERROR"`)) + len(d.Lines(`"level":"WARN"`)); n > 5 {
				t.Errorf("%d lines of errors, want 5 at most:\n%s", n, d.Output())
			}
			if strings.Contains(said+d.Output(), password) {
				t.Errorf("the password is told:\n%s\n%s", said, d.Output())
			}
		})
	}
}

// pester asks for IDs and for the health again and again and gives the answers.
func pester(d *daemon) string {
	d.t.Helper()
	var said strings.Builder
	for range 30 {
		for _, target := range []string{aliceGet, helloGet, "/readyz/queue", "/healthz"} {
			a := d.get(target)
			if a.status != http.StatusServiceUnavailable {
				d.t.Fatalf("%s: %d %s, want 503", target, a.status, a.body)
			}
			fmt.Fprintln(&said, a.body)
		}
	}
	return said.String()
}
