package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"shardid/model"
)

// Settings says whether the database keeps what it has committed, and is one
// that segments can be taken from. It changes nothing. A setting that the user
// may not read is model.LevelUnknown with what to grant. Errors:
// *model.StoreError when the database does not answer, together with what was
// read before. Safe for concurrent use.
func (s *Store) Settings(ctx context.Context) ([]model.Finding, error) {
	const op = "read the settings"
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, s.explain(op, err)
	}
	defer conn.Close()
	a := &asker{ctx: ctx, conn: conn}
	checks := sqliteSettings(filepath.Dir(s.file))
	if s.server != nil {
		checks = mysqlSettings()
	}
	var found []model.Finding
	for _, c := range checks {
		f := c.finding(a)
		if a.broken != nil {
			return found, s.explain(op, a.broken)
		}
		f.Store, f.Node = "database", s.address()
		found = append(found, f)
	}
	return found, nil
}

// setting is one that is judged by its value.
type setting struct {
	name, want string
	// read gives the value; not ok when the server does not tell it. nil reads the
	// server variable of the name, which no right guards.
	read   func(a *asker) (value string, ok bool)
	good   func(value string) bool
	level  model.Level // of a value that is not good
	why    string
	hidden string // why, when the server does not tell
	// judge replaces all of that.
	judge func(f model.Finding, a *asker) model.Finding
}

func (c setting) finding(a *asker) model.Finding {
	f := model.Finding{Setting: c.name, Want: c.want}
	if c.judge != nil {
		return c.judge(f, a)
	}
	read := c.read
	if read == nil {
		read = valueOf("SELECT @@global." + c.name)
	}
	value, ok := read(a)
	if !ok || value == "" {
		return model.Unread(f, cmp.Or(c.hidden, whyNotTold))
	}
	f.Value = value
	return model.Judged(f, c.good(value), c.level, c.why)
}

const (
	whyNotTold = "the server does not tell this variable: look at its configuration, or at your provider's"
	whyOutside = "the server is outside its group, which goes on without what is written here: START GROUP_REPLICATION, or, if the group was given up for good, unset group_replication_group_name"
	// Of SQLite's file.
	whyNetwork = "locks and syncs of network file systems are not to be relied on: two processes could hand out one segment, and a commit could be lost: put the file on a local disk"
	whyMemory  = "the file is gone after a reboot, and IDs start again from 1: put it on a disk"
	whyLayer   = "the file is gone when the container is made anew, and IDs start again from 1: put it on a volume"
)

func mysqlSettings() []setting {
	return []setting{
		{name: "product", want: "MySQL or MariaDB", judge: judgeProduct},
		{name: "version", want: "one that enforces CHECK", read: readChecks, level: model.LevelUnsafe,
			good:   func(v string) bool { return !strings.HasSuffix(v, ignoresCheck) },
			why:    "a row whose app_id or shard_id breaks the layout of the IDs is taken: upgrade the server, or have CHECK enforced (MySQL 8.0.16, MariaDB 10.2.1 and newer do)",
			hidden: "the table " + table + " is not there or not visible: " + adviceMigrate + ", or GRANT SELECT on it to the user of database.dsn"},
		{name: "innodb_flush_log_at_trx_commit", want: "1", level: model.LevelUnsafe,
			good: is("1", "3"), // 3 is MariaDB's group commit of old with three syncs
			why: "a power cut takes back segments that were handed out: only the mark in Redis could then keep their IDs from repeating: " +
				"SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's file"},
		{name: "sync_binlog", want: "1 with log_bin", level: model.LevelUnsafe, good: is("1", "log_bin is off"),
			read: func(a *asker) (string, bool) {
				if a.isOff("log_bin") { // the redo log alone decides
					return "log_bin is off", true
				}
				return a.ask("SELECT @@global.sync_binlog")
			},
			why: "after a power cut InnoDB rolls back commits that the binary log lost, and max_id goes back: SET GLOBAL sync_binlog = 1, and in the server's file"},
		{name: "innodb_doublewrite", want: "ON", read: onOff("innodb_doublewrite"), level: model.LevelWarn,
			good: func(v string) bool { return isOn(v) && !strings.EqualFold(v, "DETECT_ONLY") }, // that one repairs nothing
			why: "a page torn by a power cut cannot be repaired, and the backup that replaces it goes back in time: " +
				"set innodb_doublewrite = ON unless the file system writes pages atomically"},
		{name: "read_only", want: "OFF", good: func(v string) bool { return !isOn(v) }, level: model.LevelUnsafe, why: "no segment can be taken: " + adviceReadOnly,
			read: func(a *asker) (string, bool) {
				if innodb, ok := a.ask("SELECT @@global.innodb_read_only"); ok && isOn(innodb) {
					return "ON (innodb_read_only)", true
				}
				return onOff("read_only")(a)
			}},
		{name: "engine of " + table, want: "InnoDB", good: is("InnoDB"), level: model.LevelUnsafe,
			read:   valueOf("SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '" + table + "'"),
			why:    "it cannot lock rows or undo half a transaction: " + adviceMigrate,
			hidden: "the table is not there or not visible: " + adviceMigrate + ", or GRANT SELECT on it to the user of database.dsn"},
		{name: "replicas", want: "none, or semi-synchronous", read: readReplicas, level: model.LevelWarn,
			good: func(v string) bool { return !strings.HasSuffix(v, " asynchronous") },
			why: "after a failover to a replica that lags, max_id is back; Redis lifts it again, so that IDs repeat when Redis lost its data too: " +
				"turn on semi-synchronous replication, or promote only a replica that has everything",
			hidden: "the user may not ask for replicas, which matter at a failover: GRANT REPLICATION SLAVE ON *.* to the user of database.dsn (MariaDB: REPLICATION MASTER ADMIN)"},
		{name: "witness", want: "one Redis for all replicas of shardid, or none for all", good: is("one"), level: model.LevelWarn,
			read: func(a *asker) (string, bool) {
				there, ok := a.ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '" + replicaTable + "'")
				if !ok || there == "0" {
					return "", false
				}
				return a.ask("SELECT IF((SELECT COUNT(DISTINCT uses) FROM " + replicaTable + " WHERE seen_at > " + serverNow + " - 8000) > 1, 'not one', 'one')")
			},
			why: "replicas of this deployment use different Redis, or some none, so no Redis knows what was handed out, and numbers are left out after a failover of the database: " +
				"let redis.* name the same Redis in the configuration of every replica",
			hidden: adviceMigrate},
	}
}

func sqliteSettings(folder string) []setting {
	return []setting{
		{name: "journal_mode", want: "wal", read: valueOf("PRAGMA journal_mode"), good: is("wal"), level: model.LevelUnsafe,
			why: "the file system of the database cannot share memory between processes, as WAL needs: put the file on a local disk"},
		{name: "synchronous", want: "FULL or EXTRA", good: is("FULL", "EXTRA"), level: model.LevelUnsafe,
			read: func(a *asker) (string, bool) {
				value, ok := a.ask("PRAGMA synchronous")
				return map[string]string{"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}[value], ok // https://sqlite.org/pragma.html#pragma_synchronous
			},
			why: "a commit may be lost in a power cut, and IDs then repeat"},
		{name: "file system", want: "local disk", judge: func(f model.Finding, _ *asker) model.Finding { return judgeFS(f, fileSystem(folder)) }},
	}
}

// judgeFS judges the kind of file system that holds the database; "" is one
// that cannot be told.
func judgeFS(f model.Finding, kind string) model.Finding {
	f.Value = kind
	switch {
	case kind == "":
		return model.Unread(f, "the kind of the file system is not told here: it must be on a local disk that outlives a reboot")
	case strings.HasPrefix(kind, "network"):
		return model.Judged(f, false, model.LevelUnsafe, whyNetwork)
	case kind == "tmpfs":
		return model.Judged(f, false, model.LevelWarn, whyMemory)
	case kind == "overlay":
		return model.Judged(f, false, model.LevelWarn, whyLayer)
	}
	return model.Judged(f, true, "", "")
}

// judgeProduct judges what only speaks MySQL's protocol by the table of what cannot
// be tested.
func judgeProduct(f model.Finding, a *asker) model.Finding {
	version, ok := a.ask("SELECT VERSION()")
	if !ok {
		return model.Unread(f, whyNotTold)
	}
	aurora, _ := a.ask("SELECT @@aurora_version")
	group, _ := a.ask("SELECT @@group_replication_group_name")
	f.Value = product(version, aurora, group, a.status("wsrep_cluster_state_uuid"))
	if f.Value != groupReplication {
		return model.ProductFinding(f, f.Value)
	}
	if isOutside(a.status(sentInGroup)) {
		return model.Judged(f, false, model.LevelUnsafe, whyOutside)
	}
	// A new primary must not answer before it has applied what the old one left.
	consistency, told := a.ask("SELECT @@group_replication_consistency")
	if !told {
		return model.Unread(f, whyNotTold)
	}
	p, _ := model.ProductNamed(f.Value)
	single := !a.isOff("group_replication_single_primary_mode")
	return model.Judged(f, single && consistency != "EVENTUAL", model.LevelWarn, p.Advice)
}

// groupReplication is its name in model.Products.
const groupReplication = "Group Replication"

// product names the server by what it says: VERSION(), two variables and a status
// that others do not have or leave empty.
func product(version, aurora, group, wsrep string) string {
	switch {
	case strings.Contains(version, "TiDB"):
		return "TiDB"
	case strings.Contains(version, "Vitess"):
		return "Vitess"
	case aurora != "":
		return "Aurora"
	case strings.Trim(wsrep, "0-") != "":
		return "Galera"
	case group != "":
		return groupReplication
	case strings.Contains(version, "MariaDB"):
		return "MariaDB"
	}
	return "MySQL"
}

const ignoresCheck = ", which ignores CHECK"

// readChecks gives the server's version, and whether it keeps rows out that break the layout
// of the IDs: an old one drops CHECK from a table, and a newer one may be told not to enforce it.
func readChecks(a *asker) (string, bool) {
	made, ok := a.ask("SHOW CREATE TABLE " + table)
	version, told := a.ask("SELECT VERSION()")
	if !ok || !told {
		return "", false
	}
	if strings.Count(made, " CHECK (") < 3 || strings.Contains(made, "NOT ENFORCED") || a.isOff("check_constraint_checks") {
		version += ignoresCheck
	}
	return version, true
}

// readReplicas counts replicas and says whether commits wait for one: others may miss
// what was acknowledged. It asks MariaDB's status, which needs no right, then as MySQL
// wants it, from 8.0.22 and before. Semi-synchronous replication, under its old and new
// name, counts where it is configured and not given up at the moment.
func readReplicas(a *asker) (string, bool) {
	n, ok := 0, a.isOff("log_bin")
	if !ok {
		if connected := a.status("Slaves_connected"); connected != "" {
			var err error
			n, err = strconv.Atoi(connected)
			ok = err == nil
		} else {
			var hosts []string
			if hosts, ok = a.rows("SHOW REPLICAS"); !ok {
				hosts, ok = a.rows("SHOW SLAVE HOSTS")
			}
			n = len(hosts)
		}
	}
	switch {
	case !ok:
		return "", false
	case n == 0:
		return "none", true
	case strings.EqualFold(a.status("Rpl_semi_sync_master_status"), "ON"), strings.EqualFold(a.status("Rpl_semi_sync_source_status"), "ON"):
		return strconv.Itoa(n) + ", semi-synchronous", true
	}
	return strconv.Itoa(n) + ", asynchronous", true
}

// is says whether a value is one of those.
func is(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, v) }
}

// valueOf reads the one value of a query.
func valueOf(query string) func(*asker) (string, bool) {
	return func(a *asker) (string, bool) { return a.ask(query) }
}

// onOff reads a switch and shows it as the server's manual does.
func onOff(variable string) func(*asker) (string, bool) {
	return func(a *asker) (string, bool) {
		value, ok := a.ask("SELECT @@global." + variable)
		return cmp.Or(map[string]string{"0": "OFF", "1": "ON"}[value], value), ok
	}
}

// asker puts questions to one connection, so that all answers are of one server.
type asker struct {
	ctx    context.Context
	conn   *sql.Conn
	broken error // the server does not answer; no question is put after that
}

// rows gives the last column of a query. ok is false when the server refuses to say:
// it does not allow the question (no right) or does not know it (variable, statement).
func (a *asker) rows(query string) (values []string, ok bool) {
	if a.broken != nil {
		return nil, false
	}
	err := func() error {
		rows, err := a.conn.QueryContext(a.ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		for err == nil && rows.Next() {
			got := make([]sql.NullString, len(columns))
			into := make([]any, len(columns))
			for i := range got {
				into[i] = &got[i]
			}
			err = rows.Scan(into...)
			values = append(values, got[len(got)-1].String)
		}
		return cmp.Or(err, rows.Err())
	}()
	if err != nil && !serverSaid(err, 1044, 1064, 1109, 1142, 1143, 1146, 1193, 1227, 1235, 1238, 1370, 3554) {
		a.broken = fmt.Errorf("%s: %w", query, err)
	}
	return values, err == nil
}

// ask gives the one value of a query, "" for no row or NULL.
func (a *asker) ask(query string) (value string, ok bool) {
	values, ok := a.rows(query)
	if len(values) > 0 {
		value = values[0]
	}
	return value, ok
}

// isOff says whether a server variable is known to be off.
func (a *asker) isOff(variable string) bool {
	value, ok := a.ask("SELECT @@global." + variable)
	return ok && !isOn(value)
}

// status gives a server's status variable; "" when it has none of that name.
func (a *asker) status(name string) string {
	value, _ := a.ask("SHOW GLOBAL STATUS LIKE '" + name + "'")
	return value
}
