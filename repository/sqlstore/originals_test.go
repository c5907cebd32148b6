//go:build unix

package sqlstore

import (
	"context"
	"strings"
	"sync"
	"testing"

	"shardid/model"
	"shardid/repository/workertest"
)

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
	if lease.WorkerID != 1 || lease.After != 1567733700834+10_000 {
		t.Errorf("got %+v", lease)
	}
	if node := register(t, s, nodeStart("t", 1<<22, 1_800_000_000)); node.WorkerID != 2 {
		t.Errorf("got %+v", node)
	}
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
		if keys(t, s, name) != keys(t, fresh, name) {
			t.Errorf("%s has keys %s, want %s", name, keys(t, s, name), keys(t, fresh, name))
		}
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
	var wg sync.WaitGroup
	for range starters {
		s := open(t, opts)
		wg.Go(func() {
			if err := s.Migrate(context.Background(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func TestMigrateRefusesOtherTables(t *testing.T) {
	for ddl, want := range map[string]string{
		"CREATE TABLE leaf_alloc (id int)":                                                                        "leaf_alloc: it has no column biz_tag",
		strings.Replace(leafOriginal, "(biz_tag))", "(biz_tag, step))", 1):                                        "its primary key is (biz_tag,step)",
		"CREATE VIEW leaf_workerid_alloc AS SELECT 1 AS id, 2 AS ip, 3 AS port, 4 AS ip_port, 5 AS max_timestamp": "leaf_workerid_alloc: it is a view",
		"CREATE TABLE WORKER_NODE (ID int PRIMARY KEY, NAME text)":                                                "WORKER_NODE: it has no column host_name",
	} {
		s := open(t, backends()[0].empty(t))
		run(t, s, ddl)
		err := s.Migrate(t.Context(), nil)
		wantAdvice(t, err, "nothing was changed")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if n := count(t, s, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"); n != 1 {
			t.Errorf("%d tables", n)
		}
	}
}
