//go:build unix

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
)

// Of many that migrate at once one does the work, and again there is none. By hand the file loads over what is there.
func TestMigrateAtOnceAndAgain(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		migrateAtOnce(t, opts, map[string]int{MySQL: 8, SQLite: 2}[opts.Driver])
		s := open(t, opts)
		check.OK(t, s.Check(context.Background()))
		check.Equal(t, count(t, s, "SELECT COUNT(*) - COUNT(DISTINCT version_id) FROM shardid_schema"), 0,
			"migrations that ran twice")
		provision(t, s, app(1))
		again := func(want string) {
			t.Helper()
			var said []string
			err := s.Migrate(context.Background(), func(line string) { said = append(said, line) })
			if err != nil || !strings.HasPrefix(strings.Join(said, "\n"), want) {
				t.Errorf("said %q, %v, want %q", said, err, want)
			}
		}
		again("schema is at version")
		if s.server == nil {
			return // a file and its version are of one transaction; SQLite cannot add a column only if it is missing
		}
		run(t, s, "DELETE FROM shardid_schema WHERE version_id > 0")
		again("applied 00017_schema.sql")
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc"), 64, "rows")
	})
}

// A schema of a later program is refused, and one that is older than the baseline goes through the version that made it
// the baseline.
func TestMigrateRefusesOtherVersions(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		for version, want := range map[string]error{"12": errOlderSchema, "9999": errNewerSchema} {
			run(t, s, "DELETE FROM shardid_schema WHERE version_id > 0",
				"INSERT INTO shardid_schema (version_id, is_applied) VALUES ("+version+", 1)")
			err := s.Migrate(context.Background(), nil)
			check.Is(t, err, want)
			wantAdvice(t, err, "nothing was changed")
		}
	})
}

// The plan has the ALTERs of tables that others made and the files; after it was done there is none.
func TestMigrationPlan(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		s := open(t, opts)
		want := []string{"CREATE TABLE IF NOT EXISTS shardid_deployment"}
		if s.server != nil {
			run(t, s, original, leafOriginal, nodeOriginal)
			want = append(want, "ALTER TABLE id_alloc MODIFY app_id", "ADD COLUMN own_max_id", "ADD COLUMN TOKEN")
		}
		plan, err := s.MigrationPlan(context.Background())
		check.Must(t, err)
		for _, part := range want {
			if !strings.Contains(plan, part) {
				t.Errorf("no %q in %.300s…", part, plan)
			}
		}
		check.Must(t, s.Migrate(context.Background(), nil))
		plan, err = s.MigrationPlan(context.Background())
		if err != nil || plan != "" {
			t.Errorf("after it %q, %v", plan, err)
		}
	})
}

// A process that died with the lock holds the others up for its lease only.
func TestMigrateWaitsForTheLock(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	hold := func(lease string) {
		run(t, s, "UPDATE shardid_schema_lock SET locked = true, locked_by = 'another', lease_expires_at = "+
			"now(6) + "+lease)
	}
	hold("INTERVAL 1 SECOND")
	check.OK(t, s.Migrate(context.Background(), nil))
	hold("INTERVAL 1 HOUR")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	check.Is(t, s.Migrate(ctx, nil), context.DeadlineExceeded)
}

// The article's stored procedure makes the 64 rows of an app once, and nothing else.
func TestProcedure(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	run(t, s, "CALL alloc_initData(7, '名', 'd')")
	for _, call := range []string{"300, 'x', ''", "-1, 'x', ''", "7, 'other', ''", "NULL, 'x', ''"} {
		if _, err := s.pool.Exec("CALL alloc_initData(" + call + ")"); err == nil {
			t.Errorf("alloc_initData(%s) was taken", call)
		}
	}
	lists, err := s.Load(t.Context())
	if err != nil || len(lists) != 64 || count(t, s, "SELECT COUNT(*) FROM id_alloc") != 64 {
		t.Fatalf("%d lists, %v", len(lists), err)
	}
	for i, l := range lists {
		if l.Key != key(7, uint8(i)) || l.MaxID != 0 || l.Step != 1000 || l.AppName != "名" {
			t.Fatalf("list %+v", l)
		}
	}
}

// The tables as the originals' scripts make them.
const (
	original = `CREATE TABLE id_alloc (app_id int(11) NOT NULL, app_name varchar(128) NOT NULL,
		max_id bigint(20) NOT NULL DEFAULT '1', shard_id int(11) NOT NULL, step int(11) NOT NULL DEFAULT '1000',
		description varchar(255) DEFAULT NULL, create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
		update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
		max_limit_id bigint(20) DEFAULT NULL, PRIMARY KEY (app_id, shard_id))`
	leafOriginal = `CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint(20) NOT NULL DEFAULT '1',
		step int(11) NOT NULL, description varchar(256) DEFAULT NULL,
		update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB`
	workerOriginal = `CREATE TABLE leaf_workerid_alloc (id bigint(20) NOT NULL AUTO_INCREMENT, ip varchar(127) DEFAULT NULL,
		port varchar(127) DEFAULT NULL, ip_port varchar(127) NOT NULL, max_timestamp bigint(20) DEFAULT NULL,
		create_time timestamp NULL DEFAULT NULL, update_time timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
		PRIMARY KEY (id), UNIQUE KEY idx_ipport (ip_port) USING BTREE) ENGINE=InnoDB`
	nodeOriginal = `CREATE TABLE WORKER_NODE (ID BIGINT NOT NULL AUTO_INCREMENT COMMENT 'auto increment id',
		HOST_NAME VARCHAR(64) NOT NULL COMMENT 'host name', PORT VARCHAR(64) NOT NULL COMMENT 'port',
		TYPE INT NOT NULL COMMENT 'node type: ACTUAL or CONTAINER', LAUNCH_DATE DATE NOT NULL COMMENT 'launch date',
		MODIFIED TIMESTAMP NOT NULL COMMENT 'modified time', CREATED TIMESTAMP NOT NULL COMMENT 'created time',
		PRIMARY KEY (ID)) COMMENT='DB WorkerID Assigner for UID Generator',ENGINE = INNODB`
)

// rowsOfOriginals are what the originals' programs leave behind.
func rowsOfOriginals() []string {
	lists := make([]string, model.Shards)
	for shard := range lists {
		lists[shard] = fmt.Sprintf("(3, 'old', %d, %d)", shard, 1000*shard)
	}
	return []string{
		"INSERT INTO id_alloc (app_id, app_name, shard_id, max_id) VALUES " + strings.Join(lists, ", "),
		"INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES ('leaf-segment-test', 2001, 2000, 'Test')",
		"INSERT INTO leaf_workerid_alloc (ip_port, ip, port, max_timestamp) " +
			"VALUES ('10.0.0.0:8080', '10.0.0.0', '8080', 1567733700834)",
		"INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) " +
			"VALUES ('10.1.1.1', '1567733700834-5', 2, NOW(), NOW(), NOW())",
	}
}

// Tables of other programs become as ours are, and every number in them continues.
func TestMigrateAdopts(t *testing.T) {
	with := func(options string, edits ...string) (tables []string) {
		for _, table := range []string{original, leafOriginal, workerOriginal, nodeOriginal} {
			table = strings.Join(strings.Fields(table), " ")
			tables = append(tables, strings.NewReplacer(edits...).Replace(table)+options)
		}
		return tables
	}
	for name, tables := range map[string][]string{
		"as published":   with(" DEFAULT CHARSET=utf8"),
		"MyISAM, latin1": with(" ENGINE=MyISAM DEFAULT CHARSET=latin1"),
		"no keys": with("", ", PRIMARY KEY (app_id, shard_id)", "", "app_id int(11) NOT NULL", "app_id int",
			", PRIMARY KEY (biz_tag)", "", ", UNIQUE KEY idx_ipport (ip_port) USING BTREE", ""),
		"narrow, wide and loose": with("", "app_id int(11)", "app_id tinyint unsigned", "app_name varchar(128)",
			"APP_NAME varchar(200)", "max_id bigint(20) NOT NULL DEFAULT '1', shard", "max_id int NOT NULL, shard",
			"step int(11) NOT NULL DEFAULT '1000'", "step int", "description varchar(255) DEFAULT NULL,", ""),
		"other columns": with("", "max_limit_id bigint(20) DEFAULT NULL,", "", "PRIMARY KEY (biz_tag)",
			"random_step int(11) NOT NULL DEFAULT '1', PRIMARY KEY (biz_tag)",
			"create_time timestamp NULL DEFAULT NULL,", "",
			"update_time timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,", "",
			"MODIFIED TIMESTAMP NOT NULL", "MODIFIED TIMESTAMP NOT NULL DEFAULT 0"),
	} {
		t.Run(name, func(t *testing.T) {
			opts := backends()[0].empty(t)
			db := plain(t, opts.DSN+"&sql_mode=''")
			for _, statement := range append(tables, rowsOfOriginals()...) {
				if _, err := db.Exec(statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			opts.DSN += "&sql_mode=%27STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE%27" // MySQL's, mostly
			migrateAtOnce(t, opts, 2)
			s, fresh := open(t, opts), openMigrated(t, backends()[0].empty(t))
			check.OK(t, s.Check(t.Context()))
			for _, table := range adoptedTables() {
				is := shapeOf(t, s, table.name)
				for _, line := range shapeOf(t, fresh, table.name) {
					if !slices.Contains(is, line) {
						t.Errorf("%s: no %q in\n%s", table.name, line, strings.Join(is, "\n"))
					}
				}
			}
			lists, err := s.Load(t.Context())
			if err != nil || len(lists) != model.Shards || lists[9].Limit.MaxID != 0 || lists[9].AppName != "old" {
				t.Fatalf("lists %+v, %v", lists, err)
			}
			wantSegment(t, one(s, key(3, 9), 0), 9001, 10_000)
			next := model.TagSegment{First: 2001, End: 4001, Step: 2000}
			wantTag(t, s, model.TagRequest{Tag: "leaf-segment-test"}, next)
			lease := acquire(t, workersOf(s), workertest.Owner(0))
			if lease.WorkerID != 1 || lease.After != 1567733700834+foreignLease {
				t.Errorf("got %+v", lease)
			}
			check.Equal(t, register(t, s, aStart("t", 1<<22, 1_800_000_000)).ID, 2)
			provision(t, s, app(5))
			addTag(t, s, "订单😀", 5)
		})
	}
}

// What the other program stores in columns that it has widened stays, and fits as before.
func TestMigrateKeepsRoom(t *testing.T) {
	s := open(t, backends()[0].empty(t))
	wide := strings.NewReplacer("biz_tag varchar(128)", "biz_tag varchar(255)", "step int(11)", "step bigint",
		"description varchar(256)", "description text", "HOST_NAME VARCHAR(64)", "HOST_NAME VARCHAR(255)",
		"LAUNCH_DATE DATE", "LAUNCH_DATE DATETIME")
	fill := []string{
		"INSERT INTO leaf_alloc (biz_tag, step, description) VALUES (REPEAT('t', %[1]d), 1 << 40, REPEAT('d', 1000))",
		"INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) " +
			"VALUES (REPEAT('h', %[1]d), '1', 2, '2024-03-04 05:06:07', NOW(), NOW())",
	}
	const has = "SELECT GROUP_CONCAT(biz_tag, step, description, HOST_NAME, LAUNCH_DATE) " +
		"FROM leaf_alloc, WORKER_NODE"
	run(t, s, wide.Replace(leafOriginal), wide.Replace(nodeOriginal))
	run(t, s, fmt.Sprintf(fill[0], 200), fmt.Sprintf(fill[1], 200))
	before := text(t, s, has)
	check.Must(t, s.Migrate(t.Context(), nil))
	check.Equal(t, text(t, s, has), before)
	run(t, s, fmt.Sprintf(fill[0], 255), fmt.Sprintf(fill[1], 255))
}

// shapeOf are the columns, keys and checks of a table, and its options.
func shapeOf(t *testing.T, s *Store, name string) (lines []string) {
	t.Helper()
	const of = " WHERE table_schema = DATABASE() AND table_name = @name "
	for _, from := range []string{
		`LOWER(column_name), data_type, COALESCE(collation_name, ''), is_nullable, COALESCE(column_default, 'NULL'),
			extra) FROM information_schema.columns`,
		"LOWER(index_name), seq_in_index, LOWER(column_name), non_unique) FROM information_schema.statistics",
		"constraint_name) FROM information_schema.table_constraints",
		"engine, table_collation) FROM information_schema.tables",
	} {
		found, err := query[[]string](s.gorm, "look", "SELECT CONCAT_WS(' ', "+from+of, sql.Named("name", name))
		check.Must(t, err)
		lines = append(lines, found...)
	}
	return lines
}

// A table that is another one than its name says, or has rows that do not fit, stays as it is.
func TestMigrateRefuses(t *testing.T) {
	noKey := strings.Replace(original, ", PRIMARY KEY (app_id, shard_id)", "", 1)
	insert := func(columns, values string) string {
		return "INSERT INTO id_alloc (app_id, shard_id, app_name, " + columns + ") VALUES " + values
	}
	for want, statements := range map[string][]string{
		"Duplicate entry '1-3'":        {noKey, insert("max_id", "(1, 3, 'x', 10), (1, 3, 'x', 2000)")},
		"id_alloc_app_id_is_0_to_255":  {original, insert("max_id", "(300, 3, 'x', 10)")},
		"id_alloc_shard_id_is_0_to_63": {original, insert("max_id", "(3, 64, 'x', 10)")},
		"definition of id_alloc": {strings.Replace(original, "max_id bigint(20) NOT", "max_id bigint", 1),
			insert("max_id", "(1, 3, 'x', NULL)")},
		"its primary key is (id)": {
			"CREATE TABLE id_alloc (id int PRIMARY KEY, app_id int, shard_id int, max_id int, app_name text)"},
		"leaf_alloc: it has no column biz": {"CREATE TABLE leaf_alloc (id int)"},
		"leaf_workerid_alloc: it is a view": {
			"CREATE VIEW leaf_workerid_alloc AS SELECT 1 AS id, 2 AS ip, 3 AS port, 4 AS ip_port, 5 AS max_timestamp"},
	} {
		t.Run(want, func(t *testing.T) {
			s := open(t, backends()[0].empty(t))
			run(t, s, statements...)
			const made = "SELECT GROUP_CONCAT(table_name, column_name, column_type, is_nullable " +
				"ORDER BY table_name, column_name) FROM information_schema.columns " +
				"WHERE table_schema = DATABASE() AND table_name NOT LIKE 'shardid_%'"
			before := text(t, s, made)
			err := s.Migrate(context.Background(), nil)
			if check.Is(t, err, errInTheWay); err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
			check.Equal(t, text(t, s, made), before, "how it was made")
		})
	}
}

func migrateAtOnce(t *testing.T, opts Options, starters int) {
	t.Helper()
	_, errs := atOnce(starters, func(int) (none struct{}, err error) {
		s, err := Open(context.Background(), opts)
		if err != nil {
			return none, err
		}
		defer s.Close()
		return none, s.Migrate(context.Background(), nil)
	})
	check.Must(t, errors.Join(errs...))
}
