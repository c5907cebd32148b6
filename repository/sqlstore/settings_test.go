//go:build unix

package sqlstore

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// settingsOf gives the findings by setting.
func settingsOf(t *testing.T, s *Store) map[string]model.Finding {
	t.Helper()
	found, err := s.Settings(t.Context())
	check.Must(t, err)
	by := map[string]model.Finding{}
	for _, f := range found {
		wantSensible(t, f)
		by[f.Setting] = f
	}
	return by
}

// wantSensible: whatever is not ok says why, in one line.
func wantSensible(t *testing.T, f model.Finding) {
	t.Helper()
	if f.Store != "database" || f.Node == "" || f.Want == "" || f.Level != model.LevelOK && f.Why == "" || strings.ContainsAny(f.Why, "\n\r") {
		t.Errorf("%+v", f)
	}
}

func wantLevel(t *testing.T, f model.Finding, value string, level model.Level) {
	t.Helper()
	if f.Level != level || f.Value != value {
		t.Errorf("%s is %q, %s, want %q, %s", f.Setting, f.Value, f.Level, value, level)
	}
}

// TestSettingsGood: nothing to say about the settings of production.
func TestSettingsGood(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		found := settingsOf(t, s)
		for _, f := range found {
			if f.Level != model.LevelOK && f.Setting != "file system" {
				t.Errorf("%+v", f)
			}
		}
		if want := 3; len(found) < want {
			t.Errorf("%d findings", len(found))
		}
	})
}

// TestSettingsOfMariaDB: one server that was started wrongly, put right step by
// step.
func TestSettingsOfMariaDB(t *testing.T) {
	server := testserver.MariaDB(t, "--innodb-flush-log-at-trx-commit=2", "--log-bin=b", "--sync-binlog=0", "--skip-innodb-doublewrite")
	s := open(t, Options{Driver: MySQL, DSN: server.NewDatabase(t)})
	const flush = "innodb_flush_log_at_trx_commit"
	for _, c := range []struct {
		change, setting, value string
		want                   model.Level
	}{
		{"", flush, "2", model.LevelUnsafe},
		{"", "sync_binlog", "0", model.LevelUnsafe},
		{"", "innodb_doublewrite", "OFF", model.LevelWarn},
		{flush + " = 0", flush, "0", model.LevelUnsafe},
		{flush + " = 3", flush, "3", model.LevelOK},
		{flush + " = 1", flush, "1", model.LevelOK},
		{"sync_binlog = 100", "sync_binlog", "100", model.LevelUnsafe},
		{"sync_binlog = 1", "sync_binlog", "1", model.LevelOK},
	} {
		if c.value == "3" && testserver.OnMySQL() {
			continue // only MariaDB has it
		}
		if c.change != "" {
			run(t, s, "SET GLOBAL "+c.change)
		}
		wantLevel(t, settingsOf(t, s)[c.setting], c.value, c.want)
	}
	quiet := open(t, Options{Driver: MySQL, DSN: testserver.SharedMariaDB(t).NewDatabase(t)})
	wantLevel(t, settingsOf(t, quiet)["sync_binlog"], "log_bin is off", model.LevelOK)
}

// TestSettingsThatChange: read-only, and another engine.
func TestSettingsThatChange(t *testing.T) {
	server := testserver.MariaDB(t)
	s := open(t, Options{Driver: MySQL, DSN: server.NewDatabase(t)})
	wantLevel(t, settingsOf(t, s)["engine of id_alloc"], "", model.LevelUnknown)
	run(t, s, "CREATE TABLE id_alloc (app_id int) ENGINE=MyISAM", "SET GLOBAL read_only = ON")
	found := settingsOf(t, s)
	wantLevel(t, found["engine of id_alloc"], "MyISAM", model.LevelUnsafe)
	wantLevel(t, found["read_only"], "ON", model.LevelUnsafe)
	run(t, s, "SET GLOBAL read_only = OFF")
}

// TestSettingsOfReplicas: one that the primary does not wait for, then one it
// does.
func TestSettingsOfReplicas(t *testing.T) {
	check.Deep(t)
	primaryArgs, replicaArgs, wait := testserver.SemiSync()
	primary := testserver.MariaDB(t, append(primaryArgs, "--log-bin=b", "--server-id=1", "--sync-binlog=1")...)
	s := open(t, Options{Driver: MySQL, DSN: primary.NewDatabase(t)})
	wantLevel(t, settingsOf(t, s)["replicas"], "none", model.LevelOK)
	primary.Replicate(testserver.MariaDB(t, append(replicaArgs, "--server-id=2")...))
	awaitReplicas(t, s, "1, asynchronous", model.LevelWarn)
	run(t, s, wait)
	awaitReplicas(t, s, "1, semi-synchronous", model.LevelOK)
}

func awaitReplicas(t *testing.T, s *Store, value string, level model.Level) {
	t.Helper()
	var f model.Finding
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		if f = settingsOf(t, s)["replicas"]; f.Value == value {
			break
		}
	}
	wantLevel(t, f, value, level)
}

// TestSettingsWithoutRights: a user who may read one other table learns all that
// the server tells anybody; the rest is unknown, with what to grant.
func TestSettingsWithoutRights(t *testing.T) {
	server := testserver.MariaDB(t, "--log-bin=b", "--sync-binlog=1")
	root := openMigrated(t, Options{Driver: MySQL, DSN: server.NewDatabase(t)})
	run(t, root, "CREATE TABLE other (i int)", "CREATE USER nobody@'127.0.0.1' IDENTIFIED BY 'hunter2-geheim'")
	run(t, root, "GRANT SELECT ON other TO nobody@'127.0.0.1'")
	s := open(t, Options{Driver: MySQL, DSN: withDSN(t, root.server.FormatDSN(), func(c *gosql.Config) {
		c.User, c.Passwd = "nobody", "hunter2-geheim"
	})})
	found := settingsOf(t, s)
	wantLevel(t, found["engine of id_alloc"], "", model.LevelUnknown)
	wantLevel(t, found["innodb_flush_log_at_trx_commit"], "1", model.LevelOK)
	wantRefusals(t, s)
}

// wantRefusals asks as MySQL is asked: for replicas, a right is needed.
func wantRefusals(t *testing.T, s *Store) {
	t.Helper()
	conn, err := s.pool.Conn(t.Context())
	check.Must(t, err)
	defer conn.Close()
	a := &asker{ctx: t.Context(), conn: conn}
	for _, query := range []string{"SHOW REPLICAS", "SHOW SLAVE HOSTS"} { // unknown to MariaDB, forbidden
		if _, ok := a.rows(query); ok || a.broken != nil {
			t.Errorf("%s: ok %t, %v", query, ok, a.broken)
		}
	}
	wantLevel(t, setting{name: "of_another_server"}.finding(a), "", model.LevelUnknown)
}

// TestSettingsAway: no answer is an error, with advice and without the password.
func TestSettingsAway(t *testing.T) {
	s := open(t, Options{Driver: MySQL, DSN: "root:hunter2-geheim@tcp(127.0.0.1:1)/nowhere"})
	_, err := s.Settings(t.Context())
	wantAdvice(t, err, "no database server answers at 127.0.0.1:1")
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v tells the password", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := open(t, Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "a.db")})
	if _, err = file.Settings(ctx); err == nil {
		t.Error("answered after the end")
	}
}

func TestSettingsOfSQLite(t *testing.T) {
	s := openMigrated(t, Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "a.db")})
	check.Equal(t, count(t, s, "PRAGMA busy_timeout"), 5000)
	for _, c := range []struct {
		pragma, setting, value string
		want                   model.Level
	}{
		{"user_version", "synchronous", "FULL", model.LevelOK}, // as it is opened
		{"user_version", "journal_mode", "wal", model.LevelOK},
		{"synchronous = NORMAL", "synchronous", "NORMAL", model.LevelUnsafe},
		{"synchronous = OFF", "synchronous", "OFF", model.LevelUnsafe},
		{"synchronous = EXTRA", "synchronous", "EXTRA", model.LevelOK},
		{"journal_mode = DELETE", "journal_mode", "delete", model.LevelUnsafe},
		{"journal_mode = WAL", "journal_mode", "wal", model.LevelOK},
	} {
		run(t, s, "PRAGMA "+c.pragma)
		wantLevel(t, settingsOf(t, s)[c.setting], c.value, c.want)
	}
}

// TestCheckIsEnforced: the server is judged by its table and not by its name.
func TestCheckIsEnforced(t *testing.T) {
	s := openMigrated(t, Options{Driver: MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)})
	off, on := "SET GLOBAL check_constraint_checks = OFF", "SET GLOBAL check_constraint_checks = ON"
	if !strings.Contains(text(t, s, "SELECT VERSION()"), "MariaDB") {
		const of = "ALTER TABLE id_alloc ALTER CHECK id_alloc_shard_id_is_0_to_63 "
		off, on = of+"NOT ENFORCED", of+"ENFORCED"
	}
	for _, c := range []struct {
		change string
		want   model.Level
	}{
		{"DO 1", model.LevelOK},
		{off, model.LevelUnsafe},
		{on, model.LevelOK},
		{"ALTER TABLE id_alloc DROP CONSTRAINT id_alloc_shard_id_is_0_to_63", model.LevelUnsafe}, // as MySQL 5.7 makes it
		{"ALTER TABLE id_alloc RENAME TO elsewhere", model.LevelUnknown},
	} {
		run(t, s, c.change)
		if f := settingsOf(t, s)["version"]; f.Level != c.want {
			t.Errorf("%s: %+v", c.change, f)
		}
	}
}

// TestProduct: servers that are not here, by what they say.
func TestProduct(t *testing.T) {
	for _, c := range []struct{ version, aurora, group, wsrep, want string }{
		{"8.0.11-TiDB-v8.5.0", "", "", "", "TiDB"},
		{"8.0.30-Vitess", "", "", "", "Vitess"},
		{"8.0.39", "3.08.0", "", "", "Aurora"},
		{"11.4.2-MariaDB-log", "", "", "8d0bfd34-0a0b-11ef-9f4b-5a1f6a4f1c11", "Galera"},
		{"10.11.6-MariaDB", "", "", "00000000-0000-0000-0000-000000000000", "MariaDB"},
		{"9.7.4", "", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "", "Group Replication"},
		{"9.7.4", "", "", "", "MySQL"},
	} {
		got := product(c.version, c.aurora, c.group, c.wsrep)
		f := model.ProductFinding(model.Finding{}, got)
		p, known := model.ProductNamed(got)
		doubted := known && p.Verdict != model.VerdictWorks
		if got != c.want || (f.Level == model.LevelOK) == doubted || doubted && f.Why == "" {
			t.Errorf("%+v: %s, %+v", c, got, f)
		}
	}
}

// A product that is refused is not migrated, and says why.
func TestRefusedProduct(t *testing.T) {
	err := refuseProduct("8.0.11-TiDB-v8.5.0")
	wantAdvice(t, err, "no stored procedures")
	for _, version := range []string{"9.7.4", "11.8.6-MariaDB", "8.0.30-Vitess"} {
		check.OK(t, refuseProduct(version), version)
	}
}
