//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
	migrations "shardid/sql"
)

func TestMigrateManyAtOnce(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		start := time.Now()
		migrateAtOnce(t, opts, 8)
		t.Logf("8 starters took %v", time.Since(start))
		s := open(t, opts)
		check.OK(t, s.Check(context.Background()))
		check.Equal(t, count(t, s, "SELECT COUNT(*) - COUNT(DISTINCT version_id) FROM shardid_schema"), 0,
			"migrations that ran twice")
		provision(t, s, app(1))
	})
}

func TestMigrateTellsAndRepeats(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		var said []string
		tell := func(line string) { said = append(said, line) }
		if err := s.Migrate(context.Background(), tell); err != nil || len(said) != 1 || !strings.Contains(said[0], "schema is at version") {
			t.Errorf("second run said %q, %v", said, err)
		}
		if s.server == nil {
			return // a file and its version are of one transaction; SQLite cannot add a column only if it is missing
		}
		run(t, s, "DELETE FROM shardid_schema WHERE version_id > 0")
		provision(t, s, app(1))
		said = nil
		if err := s.Migrate(context.Background(), tell); err != nil || said[0] != "applied 00017_schema.sql" {
			t.Errorf("third run said %q, %v", said, err)
		}
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

// The plan is what Migrate then does: the ALTERs of tables that others made and the files, and after
// it nothing.
func TestMigrationPlan(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		s := open(t, opts)
		want := []string{"CREATE TABLE IF NOT EXISTS shardid_deployment"}
		if s.server != nil {
			run(t, s, original, leafOriginal, nodeOriginal)
			want = append(want, "ALTER TABLE id_alloc MODIFY", "ALTER TABLE leaf_alloc ADD COLUMN doubt", "ALTER TABLE WORKER_NODE ADD COLUMN TOKEN")
		}
		plan, err := s.MigrationPlan(context.Background())
		check.Must(t, err)
		for _, part := range want {
			if !strings.Contains(plan, part) {
				t.Errorf("no %q in %.300s…", part, plan)
			}
		}
		check.Must(t, s.Migrate(context.Background(), func(line string) {
			if _, alter, found := strings.Cut(line, "made: "); found && !strings.Contains(plan, alter) {
				t.Errorf("%q was not planned", line)
			}
		}))
		plan, err = s.MigrationPlan(context.Background())
		if err != nil || plan != "" {
			t.Errorf("after it %q, %v", plan, err)
		}
	})
}

// A process that died with the lock holds the others up for its lease only.
func TestMigrateWaitsForTheLock(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	run(t, s, "UPDATE shardid_schema_lock SET locked = true, locked_by = 'dead', lease_expires_at = now(6) + INTERVAL 1 SECOND")
	start := time.Now()
	if err := s.Migrate(context.Background(), nil); err != nil || time.Since(start) > 4*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	run(t, s, "UPDATE shardid_schema_lock SET locked = true, locked_by = 'alive', lease_expires_at = now(6) + INTERVAL 1 HOUR")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	check.Is(t, s.Migrate(ctx, nil), context.DeadlineExceeded)
}

// The files load through the client, twice, before and after migrate.
func TestMigrateByHand(t *testing.T) {
	check.Deep(t)
	for _, first := range []string{"client", "migrate"} {
		t.Run(first+" first", func(t *testing.T) {
			s := open(t, backends()[0].empty(t))
			if first == "migrate" {
				check.Must(t, s.Migrate(context.Background(), nil))
			}
			loadByClient(t, s)
			check.Must(t, check.Err(s.pool.Exec("CALL alloc_initData(7, '名', 'd')")))
			loadByClient(t, s)
			check.Must(t, s.Migrate(context.Background(), nil))
			check.OK(t, s.Check(context.Background()))
			checkProcedure(t, s)
		})
	}
}

func loadByClient(t *testing.T, s *Store) {
	t.Helper()
	files, err := migrations.Files("mysql")
	check.Must(t, err)
	names, err := fs.Glob(files, "*.sql")
	check.Must(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		check.Must(t, err)
		client(t, s, string(text))
	}
}

// client runs a script with the mysql program.
func client(t *testing.T, s *Store, script string) {
	t.Helper()
	bin := testserver.MariaDBClient()
	if bin == "" {
		t.Skip("the mysql client is not installed")
	}
	host, port, _ := strings.Cut(s.server.Addr, ":")
	cmd := exec.Command(bin, "--no-defaults", "-h", host, "-P", port, "-u", s.server.User, s.server.DBName)
	cmd.Stdin, cmd.Env = strings.NewReader(script), os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// checkProcedure wants 64 rows of app 7, made by the procedure, and nothing else.
func checkProcedure(t *testing.T, s *Store) {
	t.Helper()
	for _, call := range []string{"300, 'x', ''", "-1, 'x', ''", "7, 'other', ''", "NULL, 'x', ''"} {
		if _, err := s.pool.Exec("CALL alloc_initData(" + call + ")"); err == nil {
			t.Errorf("alloc_initData(%s) was taken", call)
		}
	}
	lists, err := s.Load(context.Background())
	if err != nil || len(lists) != 64 || count(t, s, "SELECT COUNT(*) FROM id_alloc") != 64 {
		t.Fatalf("%d lists, %v", len(lists), err)
	}
	for i, l := range lists {
		if l.Key != key(7, uint8(i)) || l.MaxID != 0 || l.Step != 1000 || l.AppName != "名" {
			t.Fatalf("list %+v", l)
		}
	}
}

const original = `CREATE TABLE id_alloc (app_id int(11) NOT NULL, app_name varchar(128) NOT NULL,
	max_id bigint(20) NOT NULL DEFAULT '1', shard_id int(11) NOT NULL, step int(11) NOT NULL DEFAULT '1000',
	description varchar(255) DEFAULT NULL, create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
	update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
	max_limit_id bigint(20) DEFAULT NULL, PRIMARY KEY (app_id, shard_id))`

func TestMigrateAdoptsTheOriginal(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(original) }
	for name, ddl := range map[string]string{
		"as published":   original + " ENGINE=InnoDB DEFAULT CHARSET=utf8",
		"utf8mb4":        original + " DEFAULT CHARSET=utf8mb4",
		"MyISAM, latin1": original + " ENGINE=MyISAM DEFAULT CHARSET=latin1",
		"no limit":       edit("max_limit_id bigint(20) DEFAULT NULL,", ""),
		"limit not null": edit("max_limit_id bigint(20) DEFAULT NULL,", "max_limit_id bigint(20) NOT NULL,"),
		"no key":         edit(", PRIMARY KEY (app_id, shard_id)", ""),
		"plain index":    edit("PRIMARY KEY (app_id", "KEY k (app_id"),
		"unique index":   edit("PRIMARY KEY (app_id", "UNIQUE KEY k (app_id"),
		"null keys":      edit(", PRIMARY KEY (app_id, shard_id)", "", "app_id int(11) NOT NULL", "app_id int", "shard_id int(11) NOT NULL", "shard_id int"),
		"small numbers":  edit("max_id bigint(20)", "max_id int", "app_id int(11)", "app_id tinyint unsigned"),
		"loose": edit("step int(11) NOT NULL DEFAULT '1000'", "step int", "create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP", "create_time datetime",
			"update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,", "", "description varchar(255) DEFAULT NULL,", ""),
		"upper case, wide": strings.ToUpper(edit("varchar(128)", "varchar(200)", "id_alloc", "`id_alloc`")),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, backends()[0].empty(t))
			run(t, s, "SET sql_mode = ''", strings.Replace(ddl, "`ID_ALLOC`", "id_alloc", 1),
				"CREATE PROCEDURE alloc_initData(appId INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < 64 DO "+
					"INSERT INTO id_alloc(app_id, app_name, max_id, shard_id) VALUES (appId, 'old', 0, i); SET i = i + 1; END WHILE; END",
				"CALL alloc_initData(3)",
				"UPDATE id_alloc SET max_id = 5000 WHERE shard_id = 9")
			adopt(t, s)
		})
	}
}

func adopt(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	check.Must(t, s.Migrate(ctx, nil))
	check.OK(t, s.Check(ctx))
	lists, err := s.Load(ctx)
	if err != nil || len(lists) != 64 || lists[9].MaxID != 5000 || lists[9].Limit.MaxID != 0 || lists[9].Step != 1000 || lists[9].AppName != "old" {
		t.Fatalf("lists %+v, %v", lists, err)
	}
	wantSegment(t, one(s, key(3, 9), 0), 5001, 6000)
	provision(t, s, app(5))
	fresh := openMigrated(t, backends()[0].empty(t))
	for _, facts := range []string{
		`SELECT GROUP_CONCAT(column_name, ' ', data_type, ' ', COALESCE(character_set_name, ''), ' ', IF(column_name LIKE '%_time', '', is_nullable),
			' ', COALESCE(column_default, 'NULL'), ' ', extra ORDER BY column_name) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'id_alloc'`,
		`SELECT GROUP_CONCAT(constraint_name ORDER BY constraint_name) FROM information_schema.table_constraints
			WHERE table_schema = DATABASE() AND table_name = 'id_alloc' AND constraint_name <> 'k'`,
		`SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics
			WHERE table_schema = DATABASE() AND table_name = 'id_alloc' AND index_name = 'PRIMARY'`,
		`SELECT CONCAT(engine, table_collation) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'id_alloc'`,
	} {
		if got, want := strings.ToLower(text(t, s, facts)), strings.ToLower(text(t, fresh, facts)); got != want {
			t.Errorf("adopted %s\n  fresh %s", got, want)
		}
	}
	run(t, s, "DELETE FROM id_alloc", "CALL alloc_initData(7, '名', 'd')")
	checkProcedure(t, s)
}

func TestMigrateRefusesWhatIsInTheWay(t *testing.T) {
	noKey := strings.Replace(original, ", PRIMARY KEY (app_id, shard_id)", "", 1)
	for name, c := range map[string]struct {
		statements []string
		want       []string
	}{
		"duplicates": {[]string{noKey, "INSERT INTO id_alloc (app_id, app_name, shard_id, max_id) VALUES (1, 'x', 3, 10), (1, 'x', 3, 2000), (1, 'x', 4, 0)"},
			[]string{"several rows for one list: (app_id 1, shard_id 3) 2 rows, highest max_id 2000: keep"}},
		"app 300": {[]string{original, "INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (300, 'x', 3), (-1, 'x', 70)"},
			[]string{"app_id outside 0…255: (app_id -1, shard_id 70) out of range, (app_id 300, shard_id 3) out of range", "shard_id outside 0…63: (app_id -1, shard_id 70)"}},
		"negative": {[]string{original, "INSERT INTO id_alloc (app_id, app_name, shard_id, max_id, max_limit_id) VALUES (1, 'x', 3, -5, -6)"},
			[]string{"(app_id 1, shard_id 3) -5", "(app_id 1, shard_id 3) -6"}},
		"NULLs": {[]string{strings.NewReplacer("app_id int(11) NOT NULL", "app_id int", "max_id bigint(20) NOT NULL", "max_id bigint").Replace(noKey),
			"INSERT INTO id_alloc (app_id, app_name, shard_id, max_id) VALUES (NULL, 'x', 3, NULL)"},
			[]string{"(app_id NULL, shard_id 3) out of range", "(app_id NULL, shard_id 3) NULL"}},
		"too many to name": {[]string{original, "INSERT INTO id_alloc (app_id, app_name, shard_id, step) VALUES (1,'',1,0),(1,'',2,0),(1,'',3,0),(1,'',4,0),(1,'',5,0),(1,'',6,0)"},
			[]string{"(app_id 1, shard_id 5) 0, and more: set step to 1000"}},
		"other key": {[]string{"CREATE TABLE id_alloc (id int PRIMARY KEY, app_id int, shard_id int, max_id bigint, app_name text)"},
			[]string{"its primary key is (id)"}},
		"other table": {[]string{"CREATE TABLE id_alloc (id int)"}, []string{"it has no column app_id"}},
		"view":        {[]string{"CREATE VIEW id_alloc AS SELECT 1 AS app_id, 2 AS shard_id, 3 AS max_id, 'x' AS app_name"}, []string{"it is a view"}},
		"other tags":  {[]string{"CREATE TABLE leaf_alloc (id int)"}, []string{"leaf_alloc: it has no column biz_tag"}},
		"other key of tags": {[]string{strings.Replace(leafOriginal, "(biz_tag))", "(biz_tag, step))", 1)},
			[]string{"its primary key is (biz_tag,step)"}},
		"view of workers": {[]string{"CREATE VIEW leaf_workerid_alloc AS SELECT 1 AS id, 2 AS ip, 3 AS port, 4 AS ip_port, 5 AS max_timestamp"},
			[]string{"leaf_workerid_alloc: it is a view"}},
		"other nodes": {[]string{"CREATE TABLE WORKER_NODE (ID int PRIMARY KEY, NAME text)"},
			[]string{"WORKER_NODE: it has no column host_name"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, backends()[0].empty(t))
			run(t, s, c.statements...)
			const made = "SELECT GROUP_CONCAT(table_name, column_name, column_type, is_nullable) " +
				"FROM information_schema.columns WHERE table_schema = DATABASE()"
			before := text(t, s, made)
			err := s.Migrate(context.Background(), nil)
			wantAdvice(t, err, "nothing was changed")
			for _, want := range c.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got  %v\nwant %s", err, want)
				}
			}
			check.Equal(t, text(t, s, made), before, "how it was made")
			check.Equal(t, count(t, s, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"), 1,
				"tables")
		})
	}
}

// The tables as the originals' scripts make them.
const (
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

// originalRows are what the originals' programs leave behind, and go on writing
// beside us.
func originalRows() []string {
	return []string{
		"INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES ('leaf-segment-test', 1, 2000, 'Test leaf Segment Mode Get Id')",
		"UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'leaf-segment-test'",
		"INSERT INTO leaf_workerid_alloc (ip_port, ip, port, max_timestamp, create_time, update_time) VALUES ('10.0.0.0:8080', '10.0.0.0', '8080', 1567733700834, NOW(), NOW())",
		"INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) VALUES ('10.1.1.1', '1567733700834-5', 2, NOW(), NOW(), NOW())",
	}
}

func TestMigrateAdoptsTheOtherOriginals(t *testing.T) {
	check.Deep(t)
	forked := strings.Replace(leafOriginal, "PRIMARY KEY", "random_step int(11) NOT NULL DEFAULT '1', PRIMARY KEY", 1)
	noTimes := strings.NewReplacer(" create_time timestamp NULL DEFAULT NULL,", "", " update_time timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,", "").
		Replace(strings.Join(strings.Fields(workerOriginal), " "))
	for name, c := range map[string][]string{
		"as published":     {leafOriginal, workerOriginal, nodeOriginal},
		"utf8":             {leafOriginal + " DEFAULT CHARSET=utf8", workerOriginal + " DEFAULT CHARSET=utf8", nodeOriginal + " DEFAULT CHARSET=utf8"},
		"MyISAM, latin1":   {leafOriginal + " ENGINE=MyISAM DEFAULT CHARSET=latin1", workerOriginal + " ENGINE=MyISAM CHARSET=latin1", nodeOriginal + " ENGINE=MyISAM CHARSET=latin1"},
		"a fork's columns": {forked, noTimes, nodeOriginal},
		"no keys": {strings.Replace(leafOriginal, ", PRIMARY KEY (biz_tag)", "", 1),
			strings.Replace(workerOriginal, ", UNIQUE KEY idx_ipport (ip_port) USING BTREE", "", 1), nodeOriginal},
		"zero dates": {leafOriginal, workerOriginal, strings.NewReplacer("MODIFIED TIMESTAMP NOT NULL", "MODIFIED TIMESTAMP NOT NULL DEFAULT 0",
			"CREATED TIMESTAMP NOT NULL", "CREATED TIMESTAMP NOT NULL DEFAULT 0").Replace(nodeOriginal)},
	} {
		t.Run(name, func(t *testing.T) {
			opts := backends()[0].empty(t)
			db := plain(t, opts.DSN+"&sql_mode=''")
			opts.DSN += "&sql_mode=%27STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE%27" // MySQL's, as far as it matters
			for _, statement := range append(c, originalRows()...) {
				if !strings.Contains(c[1], "create_time") {
					statement = strings.NewReplacer(", create_time, update_time", "", "1567733700834, NOW(), NOW())", "1567733700834)").Replace(statement)
				}
				if _, err := db.Exec(statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			starters := 1
			if name == "as published" {
				starters = 4
			}
			migrateAtOnce(t, opts, starters)
			adoptOriginals(t, open(t, opts))
		})
	}
}

// adoptOriginals uses what the originals left.
func adoptOriginals(t *testing.T, s *Store) {
	t.Helper()
	wantTag(t, s, model.TagRequest{Tag: "leaf-segment-test"}, model.TagSegment{First: 2001, End: 4001, Step: 2000})
	addTag(t, s, "订单😀", 5)
	lease := acquire(t, s.Workers(WorkersOptions{}), workertest.Owner(0))
	if lease.WorkerID != 1 || lease.After != 1567733700834+foreignLease {
		t.Errorf("got %+v", lease)
	}
	check.Equal(t, register(t, s, aStart("t", 1<<22, 1_800_000_000)).ID, 2)
	fresh := openMigrated(t, backends()[0].empty(t))
	for _, name := range []string{tagTable, workerTable, nodeTable} {
		want := strings.Split(tableColumns(t, fresh, name), ",")
		got := "," + tableColumns(t, s, name) + ","
		for _, column := range want {
			if !strings.Contains(got, ","+column+",") {
				t.Errorf("%s: no column %q in %s", name, column, got)
			}
		}
		if engine := text(t, s, "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '"+name+"'"); engine != "InnoDB" {
			t.Errorf("%s is of %s", name, engine)
		}
		check.Equal(t, keys(t, s, name), keys(t, fresh, name), name, "keys")
	}
	loadByClient(t, s)
	loadByClient(t, s)
	for _, statement := range originalRows() { // their programs go on
		run(t, s, strings.NewReplacer("'leaf-segment-test', 1", "'another', 1", "10.0.0.0", "10.3.3.3").Replace(statement))
	}
}

// tableColumns gives names and types. How two columns of the originals are to be
// null, and what they default to, is theirs.
func tableColumns(t *testing.T, s *Store, name string) string {
	t.Helper()
	return strings.ToLower(text(t, s, `SELECT GROUP_CONCAT(column_name, ' ', data_type, ' ', COALESCE(character_maximum_length, 0), ' ', is_nullable ORDER BY column_name)
		FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '`+name+"'"))
}

func keys(t *testing.T, s *Store, name string) string {
	t.Helper()
	return text(t, s, `SELECT GROUP_CONCAT(index_name, ' ', column_name, ' ', non_unique ORDER BY index_name) FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name = '`+name+"'")
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
