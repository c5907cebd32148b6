//go:build unix

package sqlstore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// settingIs wants a setting to have a value and a level.
func settingIs(t *testing.T, s *Store, setting, value string, level model.Level) {
	t.Helper()
	found, err := s.Settings(t.Context())
	check.Must(t, err)
	for _, f := range found {
		if f.Setting == setting {
			check.Equal(t, f.Value+" "+string(f.Level), value+" "+string(level), f)
			check.Equal(t, f.Why != "", level != model.LevelOK, f, "why")
			return
		}
	}
	t.Errorf("nothing is said of %s", setting)
}

// TestSettings: what servers really say. The settings of production are good, and each wrong one is told.
func TestSettings(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		found, err := s.Settings(t.Context())
		check.Must(t, err)
		check.Equal(t, len(found) >= 2, true, "findings")
		if s.server == nil { // each connection sets it, and no file keeps it
			check.Equal(t, text(t, s, "PRAGMA synchronous"), "2", "which is FULL: a commit outlives a power cut")
		}
		for _, f := range found {
			bad := f.Level != model.LevelOK && f.Setting != "file system"
			if bad || f.Store != "database" || f.Node == "" || f.Want == "" {
				t.Errorf("%+v", f)
			}
		}
	})
	const flush, unsafe, ok = "innodb_flush_log_at_trx_commit", model.LevelUnsafe, model.LevelOK
	for driver, cases := range map[string][]struct {
		change, setting, value string
		want                   model.Level
	}{
		MySQL: {
			{"DO 1", flush, "2", unsafe},
			{"DO 1", "sync_binlog", "0", unsafe},
			{"SET GLOBAL sync_binlog = 100", "sync_binlog", "100", unsafe},
			{"SET GLOBAL sync_binlog = 1", "sync_binlog", "1", ok},
			{"SET GLOBAL binlog_format = 'STATEMENT'", "binlog_format", "STATEMENT", unsafe},
			{"SET GLOBAL binlog_format = 'MIXED'", "binlog_format", "MIXED", ok},
			{"SET GLOBAL read_only = 1", "read_only", "ON", unsafe},
			{"SET GLOBAL read_only = 0", "read_only", "OFF", ok},
			{"ALTER TABLE leaf_alloc CONVERT TO CHARACTER SET latin1", "character set of leaf_alloc", "latin1", warn},
			{"ALTER TABLE leaf_alloc CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
				"character set of leaf_alloc", "utf8mb4", ok},
			{"ALTER TABLE id_alloc ENGINE = MyISAM", "engine of id_alloc", "MyISAM", unsafe},
			{"DROP TABLE id_alloc", "engine of id_alloc", "", model.LevelUnknown},
		},
		SQLite: {
			{"PRAGMA journal_mode = DELETE", "journal_mode", "delete", unsafe},
		},
	} {
		o := Options{Driver: driver, DSN: filepath.Join(t.TempDir(), "a.db")}
		if driver == MySQL {
			o.DSN = testserver.MariaDB(t, "--innodb-flush-log-at-trx-commit=2", "--log-bin=b", "--sync-binlog=0").
				NewDatabase(t)
		}
		s := openMigrated(t, o)
		for _, c := range cases {
			run(t, s, c.change)
			settingIs(t, s, c.setting, c.value, c.want)
		}
		if s.server != nil {
			s.opts.Now = func() time.Time { return time.Now().Add(time.Hour) }
			settingIs(t, s, "clock", "1h0m0s apart", unsafe)
		}
	}
}

// TestSettingsOfReplicas: one that the primary does not wait for, then one it does.
func TestSettingsOfReplicas(t *testing.T) {
	check.Deep(t)
	pair := testserver.MariaDBReplicated(t)
	s := open(t, Options{Driver: MySQL, DSN: pair.Primary.NewDatabase(t)})
	become := func(value string) {
		check.Eventually(t, value, func() error {
			found, err := s.Settings(t.Context())
			for _, f := range found {
				if f.Setting == "replicas" && f.Value != value {
					return fmt.Errorf("%+v", f)
				}
			}
			return err
		})
	}
	become("asynchronous")
	settingIs(t, s, "replicas", "asynchronous", model.LevelWarn)
	t.Cleanup(pair.Stall())
	become("semi-synchronous")
	settingIs(t, s, "replicas", "semi-synchronous", model.LevelOK)
}

// TestSettingsWithoutRights: a user who may read one other table learns all that the server tells anybody; the rest is
// unknown, with what to grant. No answer is an error, with advice and without the password.
func TestSettingsWithoutRights(t *testing.T) {
	server := testserver.MariaDB(t, "--log-bin=b", "--sync-binlog=1")
	root := openMigrated(t, Options{Driver: MySQL, DSN: server.NewDatabase(t)})
	run(t, root, "CREATE TABLE other (i int)", "CREATE USER nobody@'127.0.0.1' IDENTIFIED BY 'hunter2-geheim'",
		"GRANT SELECT ON other TO nobody@'127.0.0.1'")
	as := func(change func(*gosql.Config)) *Store {
		return open(t, Options{Driver: MySQL, DSN: withDSN(t, root.server.FormatDSN(), change)})
	}
	s := as(func(c *gosql.Config) { c.User, c.Passwd = "nobody", "hunter2-geheim" })
	settingIs(t, s, "engine of id_alloc", "", model.LevelUnknown)
	settingIs(t, s, "innodb_flush_log_at_trx_commit", "1", model.LevelOK)
	if testserver.OnMySQL() {
		settingIs(t, s, "replicas", "", model.LevelUnknown)
	}
	_, err := as(func(c *gosql.Config) { c.Passwd, c.Addr = "hunter2-geheim", "127.0.0.1:1" }).Settings(t.Context())
	wantAdvice(t, err, "start the database server at 127.0.0.1:1, or correct database.dsn")
	check.Lacks(t, err.Error(), "hunter2")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := open(t, Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "a.db")})
	check.Equal(t, check.Err(file.Settings(ctx)) != nil, true, "an answer after the end")
}
