package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
)

// Settings says whether the database keeps what it has committed, and is one that segments can be taken
// from. It changes nothing. A setting that the user may not read is model.LevelUnknown with what to grant.
// Errors: *model.StoreError when the database does not answer, together with what was read before. Safe
// for concurrent use.
func (s *Store) Settings(ctx context.Context) ([]model.Finding, error) {
	const op = "read the settings"
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, s.explain(op, err)
	}
	defer conn.Close()
	a := &asker{ctx: ctx, conn: conn, hosts: s.hosts, now: s.opts.Now}
	checks := sqliteChecks(filepath.Dir(s.file))
	if s.server != nil {
		checks = mysqlChecks()
	}
	var found []model.Finding
	for _, c := range checks {
		f := c.Finding(a)
		if a.broken != nil {
			return found, s.explain(op, a.broken)
		}
		f.Store, f.Node = "database", s.address()
		found = append(found, f)
	}
	return found, nil
}

type dbCheck = model.Check[*asker]

const (
	warn, unsafe = model.LevelWarn, model.LevelUnsafe

	hiddenVariable = "look at the server's configuration, or at your provider's: it does not tell this variable"
	hiddenTable    = "the table " + table + " is not there or not visible: " + adviceMigrate +
		", or GRANT SELECT on it to the user of database.dsn"
)

func mysqlChecks() []dbCheck {
	return []dbCheck{
		{
			Setting: "clock", Want: "that of this machine, within 5s", Ask: askClock, Hidden: hiddenVariable,
			Level:  model.Unless(unsafe, model.ClockRight),
			Advice: "set both clocks (NTP): nothing is issued while they are further apart",
		}, {
			Setting: "engine of " + table, Want: "InnoDB", Hidden: hiddenTable,
			Ask: query1("SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() " +
				"AND table_name = '" + table + "'"),
			Level:  model.Unless(unsafe, "InnoDB"),
			Advice: adviceMigrate + ", as this engine cannot lock rows or undo half a transaction",
		}, {
			Setting: "character set of " + tagTable, Want: "utf8mb4", Hidden: hiddenTable,
			Ask: query1("SELECT character_set_name FROM information_schema.columns WHERE table_schema = DATABASE() " +
				"AND table_name = '" + tagTable + "' AND column_name = 'biz_tag'"),
			Level: model.Unless(warn, "utf8mb4"),
			Advice: "ALTER TABLE " + tagTable + " CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin: tags with " +
				"other letters cannot be used",
		}, {
			Setting: "read_only", Want: "OFF", Hidden: hiddenVariable,
			Ask: query1("SELECT IF(@@global.innodb_read_only, 'ON (innodb_read_only)', " +
				"IF(CAST(@@global.read_only AS CHAR) IN ('0', 'OFF'), 'OFF', 'ON'))"), // MariaDB 12 has more ways of on
			Level:  model.Unless(unsafe, "OFF"),
			Advice: adviceReadOnly + ": no segment can be taken",
		}, {
			Setting: "innodb_flush_log_at_trx_commit", Want: "1", Hidden: hiddenVariable,
			Ask:   query1("SELECT @@global.innodb_flush_log_at_trx_commit"),
			Level: model.Unless(unsafe, "1", "3"), // 3 is MariaDB's group commit of old with three syncs
			Advice: "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's file: a power cut takes back " +
				"segments that were issued, and only the high-water mark in Redis could keep their IDs from repeating",
		}, {
			Setting: "sync_binlog", Want: "1 with log_bin", Hidden: hiddenVariable,
			Ask:   query1("SELECT IF(@@global.log_bin, @@global.sync_binlog, 'log_bin is off')"),
			Level: model.Unless(unsafe, "1", "log_bin is off"), // without it the redo log alone decides
			Advice: "SET GLOBAL sync_binlog = 1, and in the server's file: after a power cut InnoDB rolls back " +
				"commits that the binary log lost, and max_id goes back",
		}, {
			Setting: "binlog_format", Want: "ROW or MIXED with log_bin",
			Ask: func(a *asker) string { // a server without the variable has rows
				return cmp.Or(a.ask("SELECT IF(@@global.log_bin, @@global.binlog_format, 'log_bin is off')"), "ROW")
			},
			Level:  model.Unless(unsafe, "ROW", "MIXED", "log_bin is off"),
			Advice: adviceBinlog,
		}, {
			Setting: "replicas", Want: "none, or semi-synchronous", Ask: askReplicas,
			Level: model.Unless(warn, "none", "semi-synchronous"),
			Advice: "turn on semi-synchronous replication, or promote only a replica that has everything: after a " +
				"failover to a replica that lags, max_id is back; Redis lifts it again, and numbers are skipped " +
				"when Redis lost its data too",
			Hidden: "GRANT REPLICATION SLAVE ON *.* to the user of database.dsn (MariaDB: REPLICATION MASTER ADMIN): " +
				"it may not ask for replicas, which matter at a failover",
		}, {
			Setting: "member of its group", Want: "yes, or no group", Ask: askMember,
			Level: model.Unless(unsafe, "yes", "no group"),
			Advice: "START GROUP_REPLICATION, or, if the group was given up for good, unset " +
				"group_replication_group_name: the server is outside its group, which continues without what is " +
				"written here",
			Hidden: "have super_read_only = ON in the file of each node, so that one that is outside takes no " +
				"writes: MySQL tells it from 8.1 on",
		}, {
			Setting: "group_replication_consistency", Want: "BEFORE_ON_PRIMARY_FAILOVER, with one primary",
			Ask: askGroup, Hidden: hiddenVariable,
			Level: model.Unless(warn, "no group", "BEFORE_ON_PRIMARY_FAILOVER", "BEFORE", "BEFORE_AND_AFTER"),
			Advice: "use single-primary mode with group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER on " +
				"every node: a new primary could answer before it has applied what the old one left",
		}, {
			Setting: "witness", Want: "one Redis for all replicas of shardid, or none for all", Hidden: adviceMigrate,
			Ask: query1("SELECT IF(COUNT(DISTINCT uses) > 1, 'not one', 'one') FROM " + replicaTable +
				" WHERE seen_at > " + serverNow + " - 8000"),
			Level: model.Unless(warn, "one"),
			Advice: "let redis.url name the same Redis in the configuration of every replica: those of this " +
				"deployment use different ones, or some none, so no Redis knows what was issued, and numbers are " +
				"skipped after a failover of the database",
		}, {
			Setting: "hosts that take writes", Want: "one", Hidden: hiddenVariable,
			Ask: func(a *asker) string { return a.hosts.writable(a.ctx) }, Level: model.Unless(unsafe, "one"),
			Advice: "SET GLOBAL read_only = ON, and in the server's file, on each host but the primary: a replica of " +
				"shardid that does not reach the primary uses another one, and IDs repeat",
		},
	}
}

// askClock compares the server's clock with this machine's.
func askClock(a *asker) string {
	before := a.now()
	ms, err := strconv.ParseInt(a.ask("SELECT "+serverNow), 10, 64)
	if err != nil {
		return ""
	}
	return model.ClockValue(time.UnixMilli(ms), before, a.now())
}

func sqliteChecks(folder string) []dbCheck {
	return []dbCheck{
		{
			Setting: "journal_mode", Want: "wal",
			Ask: query1("PRAGMA journal_mode"), Level: model.Unless(unsafe, "wal"),
			Advice: "put the file on a local disk: its file system cannot share memory between processes, as WAL needs",
		}, {
			Setting: "file system", Want: "local disk", Ask: func(*asker) string { return fileSystem(folder) },
			Level: func(kind string) model.Level {
				if kind == "network" {
					return unsafe
				}
				return model.Unless(warn, "disk")(kind)
			},
			Advice: "put it on a local disk, or a volume on one: locks and syncs of network file systems are not to " +
				"be relied on, and IDs start again from 1 when a file of tmpfs is gone after a reboot, or one of a " +
				"container's own layer with the container",
			Hidden: "put it on a local disk that outlives a reboot: the kind of the file system is not told here",
		},
	}
}

// askReplicas asks whether there are some, and whether commits wait for one: others may miss what was
// acknowledged. MariaDB's status needs no right; MySQL is asked for the list of them. Semi-synchronous
// replication, under its old and new name, counts where it is configured and not given up at the moment.
func askReplicas(a *asker) string {
	connected, told := a.status("Slaves_connected"), true
	if connected == "" && a.ask("SELECT @@global.log_bin") != "0" {
		var replicas int
		if replicas, told = a.countRows("SHOW REPLICAS"); !told {
			replicas, told = a.countRows("SHOW SLAVE HOSTS") // before MySQL 8.0.22
		}
		connected = fmt.Sprint(replicas)
	}
	switch {
	case !told:
		return ""
	case connected == "", connected == "0":
		return "none"
	case a.status("Rpl_semi_sync_master_status") == "ON", a.status("Rpl_semi_sync_source_status") == "ON":
		return "semi-synchronous"
	}
	return "asynchronous"
}

func askMember(a *asker) string {
	switch sent := a.status(sentInGroup); {
	case isOutside(sent):
		return "no"
	case sent != "":
		return "yes"
	case a.ask("SELECT @@global.group_replication_group_name") == "":
		return "no group"
	}
	return "" // MySQL before 8.1
}

func askGroup(a *asker) string {
	switch {
	case a.ask("SELECT @@global.group_replication_group_name") == "":
		return "no group"
	case a.ask("SELECT @@global.group_replication_single_primary_mode") == "0":
		return "several primaries"
	}
	return a.ask("SELECT @@global.group_replication_consistency")
}

// query1 asks for the one value of a query.
func query1(query string) func(*asker) string {
	return func(a *asker) string { return a.ask(query) }
}

// asker puts questions to one connection, so that all answers are of one server.
type asker struct {
	ctx    context.Context
	conn   *sql.Conn
	hosts  *primary // nil for one host alone
	now    func() time.Time
	broken error // the server does not answer; no question is put after that
}

// ask gives the one value of a query, "" for no row, NULL or a server that does not say: it forbids the question (no
// right) or does not know it (variable, statement).
func (a *asker) ask(query string) string {
	var value sql.NullString
	if a.broken == nil {
		a.told(query, a.conn.QueryRowContext(a.ctx, query).Scan(&value))
	}
	return value.String
}

// countRows gives how many rows a query has, and whether the server says it.
func (a *asker) countRows(query string) (n int, told bool) {
	if a.broken != nil {
		return 0, false
	}
	rows, err := a.conn.QueryContext(a.ctx, query)
	if err != nil {
		return 0, a.told(query, err)
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, a.told(query, rows.Err())
}

// told says whether a question was answered, and notes a server that does not answer at all.
func (a *asker) told(query string, err error) bool {
	if _, said := errors.AsType[*gosql.MySQLError](err); err != nil && !said && !errors.Is(err, sql.ErrNoRows) {
		a.broken = fmt.Errorf("%s: %w", query, err)
	}
	return err == nil
}

// status gives a server's status variable; "" when it has none of that name.
func (a *asker) status(name string) string {
	return a.ask("SELECT variable_value FROM " + globalStatus + " WHERE variable_name = '" + name + "'")
}
