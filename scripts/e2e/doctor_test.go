//go:build unix

package e2e_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// badRedis evicts lists and lets replicas be written.
func badRedis(t *testing.T) *testserver.RedisServer {
	t.Helper()
	return testserver.Redis(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--replica-read-only", "no")
}

// badMariaDB loses commits in a power cut.
func badMariaDB(t *testing.T) settings {
	t.Helper()
	s := onMariaDB(testserver.MariaDB(t, "--innodb-flush-log-at-trx-commit=2").NewDatabase(t))
	must(t, s, "migrate")
	return s
}

// row is a line of the table, its columns parted by two blanks.
func row(columns ...string) *regexp.Regexp {
	for i, c := range columns {
		columns[i] = regexp.QuoteMeta(c)
	}
	return regexp.MustCompile(`(?m)^` + strings.Join(columns, `  +(?:\S+  +)?`) + `  +\S`)
}

func wantRow(t *testing.T, o outcome, columns ...string) {
	t.Helper()
	if re := row(columns...); !re.MatchString(o.stdout) {
		t.Errorf("no row %s in\n%s", re, o.stdout)
	}
}

// TestDoctorGood: nothing unsafe is exit 0 and silence on stderr, and a replica does not warn of what is
// as it should be.
func TestDoctorGood(t *testing.T) {
	story(t)
	s := provisioned(t).With(onRedis(testserver.Redis(t).Addr))
	d := serve(t, s)
	eventually(t, startLimit, "served", func() bool { return d.get(aliceGet).status == 200 })
	o := shardid(t, s, "doctor")
	if o.exit != 0 || o.stderr != "" || strings.Contains(o.stdout, "unsafe") || strings.Contains(o.stdout, "unknown") {
		t.Errorf("%+v", o)
	}
	wantRow(t, o, "STORE", "SETTING", "VALUE", "WANTED", "VERDICT")
	wantRow(t, o, "database", "sync_binlog", "log_bin is off", "1 with log_bin", "ok")
	wantRow(t, o, "redis", "role", "master", "master", "ok")
	time.Sleep(time.Second)
	if said := d.Lines("setting"); len(said) > 0 {
		t.Errorf("%s", said)
	}
}

// TestDoctorAway: what can be checked is, the rest is named, soon and without
// passwords.
func TestDoctorAway(t *testing.T) {
	check.Deep(t)
	story(t)
	away := onMariaDB("root:" + password + "@tcp(127.0.0.1:1)/nowhere")
	paused := testserver.Redis(t)
	paused.Pause()
	for name, c := range map[string]struct {
		settings settings
		word     string
		row      []string
	}{
		"database":     {away.With(onRedis(testserver.Redis(t).Addr)), "start it, or correct database.dsn", []string{"redis", "role", "master"}},
		"redis":        {onMariaDB(migrated(t)).With(onRedis("127.0.0.1:1")), "start Redis or correct redis.addrs", []string{"database", "read_only", "OFF"}},
		"redis silent": {onMariaDB(migrated(t)).With(onRedis(paused.Addr)), "no answer in time", []string{"database", "read_only", "OFF"}},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			o := shardid(t, c.settings, "doctor")
			wantOneLine(t, o)
			if o.exit != 1 || !strings.Contains(o.stderr, c.word) || strings.Contains(o.stdout+o.stderr, password) {
				t.Errorf("%+v", o)
			}
			wantRow(t, o, c.row...)
			wantRow(t, o, strings.Fields(name)[0], "reachable", "no", "yes", "unknown")
			if took := time.Since(begun); took > 12*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestDoctorEmbedded: it makes no file; once there is one it is checked.
func TestDoctorEmbedded(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	o := shardidIn(t, dir, nil, "doctor")
	wantRow(t, o, "database", "file", "-", "made by the first start", "unknown")
	if o.exit != 0 || shardidIn(t, dir, nil, "migrate").exit != 0 {
		t.Errorf("%+v", o)
	}
	o = shardidIn(t, dir, nil, "doctor")
	if o.exit != 0 || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	wantRow(t, o, "database", "journal_mode", "wal", "wal", "ok")
	wantRow(t, o, "database", "synchronous", "FULL", "FULL or EXTRA", "ok")
	wantRow(t, o, "redis", "redis.mode", "embedded", "any", "ok")
}

// TestDoctorUnsafe: all of it is in the table, and in the one line that says what is wrong. A replica
// warns of each finding once, although Redis came late and although requests go on; a warning of the
// other store does not wait for it.
func TestDoctorUnsafe(t *testing.T) {
	check.Deep(t)
	story(t)
	db, r := badMariaDB(t), badRedis(t)
	o := shardid(t, db.With(onRedis(r.Addr)), "doctor")
	wantOneLine(t, o)
	if o.exit != 1 {
		t.Errorf("exit %d", o.exit)
	}
	wantRow(t, o, "database", "innodb_flush_log_at_trx_commit", "2", "1", "unsafe")
	wantRow(t, o, "redis", "maxmemory-policy", "allkeys-lru", "noeviction", "unsafe")
	wantRow(t, o, "redis", "replica-read-only", "no", "yes", "warn")
	for _, word := range []string{"innodb_flush_log_at_trx_commit is 2, it should be 1", "maxmemory-policy is allkeys-lru, it should be noeviction"} {
		if !strings.Contains(o.stderr, word) {
			t.Errorf("%q is not in %s", word, o.stderr)
		}
	}
	if strings.Contains(o.stderr, "replica-read-only") {
		t.Errorf("a warning in %s", o.stderr)
	}
	t.Log("\n" + o.stdout + o.stderr)
	var found []model.Finding // the same for programs
	o = shardid(t, db.With(onRedis(r.Addr)), "doctor", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &found); err != nil || o.exit != 1 || !slices.ContainsFunc(found, func(f model.Finding) bool {
		return f.Store == "redis" && f.Setting == "maxmemory-policy" && f.Level == model.LevelUnsafe
	}) {
		t.Errorf("%v: %+v", err, o)
	}
	must(t, db, "provision", "--app", "1", "--name", "test")
	r.Stop()
	d := serve(t, db.With(onRedis(r.Addr)).With(settings{"QUEUE_TIMEOUT": "300ms"}))
	warned := func(words ...string) int { return len(d.Lines(append(words, `"level":"WARN"`, `"want":`)...)) }
	eventually(t, startLimit, "the database is warned of", func() bool { return warned("innodb_flush_log_at_trx_commit") == 1 })
	if n := warned(`"store":"redis"`); n != 0 {
		t.Errorf("%d findings of a store that is away", n)
	}
	r.Restart()
	eventually(t, startLimit, "Redis is warned of", func() bool { return warned("maxmemory-policy", `"value":"allkeys-lru"`, `"why":`) == 1 })
	time.Sleep(5 * time.Second) // longer than the pause before a store is asked again
	if n := warned(); n != 3 {
		t.Errorf("%d findings, want the policy, the writable replicas and the flush:\n%s", n, strings.Join(d.Lines("WARN"), ""))
	}
	t.Log(strings.Join(d.Lines("WARN", `"want"`), ""))
}
