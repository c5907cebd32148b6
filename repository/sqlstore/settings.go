package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
)

// Settings says whether the database keeps what it has committed, and is one
// that segments can be taken from. It changes nothing. A setting that the user
// may not read is model.LevelUnknown with what to grant. Errors:
// *model.StoreError when the database does not answer, together with what was
// read before. Safe for concurrent use.
func (s *Store) Settings(ctx context.Context) ([]model.Finding, error) {
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, s.explain("read the settings", err)
	}
	defer conn.Close()
	checks := sqliteChecks(s.file)
	if s.server != nil {
		checks = mysqlChecks()
	}
	a := &asker{conn: conn}
	var found []model.Finding
	for _, check := range checks {
		f := check(ctx, a)
		if a.broken != nil {
			return found, s.explain("read the settings", a.broken)
		}
		f.Store, f.Node = "database", s.address()
		found = append(found, f)
	}
	return found, nil
}

// settingCheck reads one setting and judges it.
type settingCheck func(context.Context, *asker) model.Finding

// asker puts questions to one connection, so that all answers are of one server.
type asker struct {
	conn   *sql.Conn
	broken error // the server does not answer; no question is put after that
}

// ask gives the one value of a query, "" for no row or NULL. ok is false when the
// server refuses to say.
func (a *asker) ask(ctx context.Context, query string, args ...any) (value string, ok bool) {
	if a.broken != nil {
		return "", false
	}
	var got sql.NullString
	err := a.conn.QueryRowContext(ctx, query, args...).Scan(&got)
	switch {
	case err == nil || errors.Is(err, sql.ErrNoRows):
		return got.String, true
	case !isRefused(err):
		a.broken = fmt.Errorf("%s: %w", query, err)
	}
	return "", false
}

// isRefused tells a question that the server does not allow (no right) or does
// not know (variable, statement) from one that it could not answer.
func isRefused(err error) bool {
	var server *gosql.MySQLError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Number {
	case 1044, 1064, 1109, 1142, 1143, 1193, 1227, 1235, 1238, 1370, 3554:
		return true
	}
	return false
}

// count gives the number of rows of a query. ok is false when the server refuses
// to answer.
func (a *asker) count(ctx context.Context, query string) (n int, ok bool) {
	if a.broken != nil {
		return 0, false
	}
	rows, err := a.conn.QueryContext(ctx, query)
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			n++
		}
		err = rows.Err()
	}
	if err != nil && !isRefused(err) {
		a.broken = fmt.Errorf("%s: %w", query, err)
	}
	return n, err == nil
}

// status gives a server's status variable; "" when it has none of that name.
func status(ctx context.Context, a *asker, name string) string {
	if a.broken != nil {
		return ""
	}
	var value string
	err := a.conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) && !isRefused(err) {
		a.broken = fmt.Errorf("status %s: %w", name, err)
	}
	return value
}

const (
	whyOldServer = "it ignores CHECK, so a row whose app_id or shard_id breaks the layout of the IDs is taken: upgrade it"
	whyOtherKind = "only MySQL and MariaDB are tested: make sure that a commit is on the disk before it is acknowledged, and that UPDATE locks its rows"
	whyFlush     = "a power cut takes back segments that were handed out: only the mark in Redis could then keep their IDs from repeating: " +
		"SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's file"
	whySyncBinlog  = "after a power cut InnoDB rolls back commits that the binary log lost, and max_id goes back: SET GLOBAL sync_binlog = 1, and in the server's file"
	whyDoublewrite = "a page torn by a power cut cannot be repaired, and the backup that replaces it goes back in time: " +
		"set innodb_doublewrite = ON unless the file system writes pages atomically"
	whyReadOnly = "no segment can be taken: " + adviceReadOnly
	whyEngine   = "it cannot lock rows or undo half a transaction: " + adviceMigrate
	whyReplicas = "after a failover to a replica that lags, max_id is back; Redis lifts it again, so that IDs repeat when Redis lost its data too: " +
		"turn on semi-synchronous replication, or promote only a replica that has everything"
	whyNotTold  = "the server does not tell this variable: look at its configuration, or at your provider's"
	whyNoTable  = "the table is not there or not visible: " + adviceMigrate + ", or GRANT SELECT on it to the user of database.dsn"
	whyReplGone = "the user may not ask for replicas, which matter at a failover: GRANT REPLICATION SLAVE ON *.* to the user of database.dsn (MariaDB: REPLICATION MASTER ADMIN)"
)

func mysqlChecks() []settingCheck {
	return []settingCheck{checkProduct, checkVersion, checkFlush, checkSyncBinlog, checkDoublewrite, checkWritable, checkEngine, checkReplicas}
}

// checkProduct judges what only speaks MySQL's protocol by the table of what cannot
// be tested.
func checkProduct(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "product", Want: "MySQL or MariaDB"}
	version, ok := a.ask(ctx, "SELECT VERSION()")
	if !ok {
		return model.Unread(f, whyNotTold)
	}
	aurora, _ := a.ask(ctx, "SELECT @@aurora_version")
	group, _ := a.ask(ctx, "SELECT @@group_replication_group_name")
	f.Value = product(version, aurora, group, status(ctx, a, "wsrep_cluster_state_uuid"))
	return model.ProductFinding(f, f.Value)
}

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
		return "Group Replication"
	case strings.Contains(version, "MariaDB"):
		return "MariaDB"
	}
	return "MySQL"
}

func checkVersion(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "version", Want: "MySQL 8.0.16 or MariaDB 10.2.1, or newer"}
	version, ok := a.ask(ctx, "SELECT VERSION()")
	if !ok {
		return model.Unread(f, whyNotTold)
	}
	return judgeVersion(f, version)
}

// judgeVersion reads what VERSION() gives, 8.0.36 or 10.11.6-MariaDB-log. The
// bounds are those from which CHECK holds.
func judgeVersion(f model.Finding, version string) model.Finding {
	kind, least := "MySQL", []int{8, 0, 16}
	if strings.Contains(version, "MariaDB") {
		kind, least = "MariaDB", []int{10, 2, 1}
	}
	f.Value = kind + " " + version
	have := numbers(version)
	if len(have) == 0 {
		f.Value = version
		return model.Unread(f, whyOtherKind)
	}
	return model.Judged(f, slices.Compare(have, least) >= 0, model.LevelUnsafe, whyOldServer)
}

// numbers gives the parts of the version that a text begins with.
func numbers(version string) (parts []int) {
	for _, part := range strings.Split(regexp.MustCompile(`^[\d.]*`).FindString(version), ".") {
		if n, err := strconv.Atoi(part); err == nil {
			parts = append(parts, n)
		}
	}
	return parts
}

// checkFlush accepts 3 as well, MariaDB's group commit of old with three syncs.
func checkFlush(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "innodb_flush_log_at_trx_commit", Want: "1"}
	return variable(ctx, a, f, model.LevelUnsafe, whyFlush, func(v string) bool { return v == "1" || v == "3" })
}

// checkSyncBinlog: without a binary log the redo log alone decides.
func checkSyncBinlog(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "sync_binlog", Want: "1"}
	logBin, ok := a.ask(ctx, "SELECT @@global.log_bin")
	if ok && !isOn(logBin) {
		f.Value, f.Want = "log_bin is off", "1 with log_bin"
		return model.Judged(f, true, "", "")
	}
	return variable(ctx, a, f, model.LevelUnsafe, whySyncBinlog, func(v string) bool { return v == "1" })
}

// checkDoublewrite: DETECT_ONLY finds torn pages and does not repair them.
func checkDoublewrite(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "innodb_doublewrite", Want: "ON"}
	return named(variable(ctx, a, f, model.LevelWarn, whyDoublewrite, func(v string) bool {
		return isOn(v) && !strings.EqualFold(v, "DETECT_ONLY")
	}))
}

func checkWritable(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "read_only", Want: "OFF"}
	if innodb, ok := a.ask(ctx, "SELECT @@global.innodb_read_only"); ok && isOn(innodb) {
		f.Setting = "innodb_read_only"
	}
	return named(variable(ctx, a, f, model.LevelUnsafe, whyReadOnly, func(v string) bool { return !isOn(v) }))
}

// named shows a switch as the server's manual does.
func named(f model.Finding) model.Finding {
	if name, ok := map[string]string{"0": "OFF", "1": "ON"}[f.Value]; ok {
		f.Value = name
	}
	return f
}

// variable reads the server variable that f is about, which no right guards.
func variable(ctx context.Context, a *asker, f model.Finding, level model.Level, why string, good func(string) bool) model.Finding {
	value, ok := a.ask(ctx, "SELECT @@global."+f.Setting)
	if !ok {
		return model.Unread(f, whyNotTold)
	}
	f.Value = value
	return model.Judged(f, good(value), level, why)
}

func checkEngine(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "engine of " + table, Want: "InnoDB"}
	engine, ok := a.ask(ctx, `SELECT engine FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = ?`, table)
	if !ok || engine == "" {
		return model.Unread(f, whyNoTable)
	}
	f.Value = engine
	return model.Judged(f, engine == "InnoDB", model.LevelUnsafe, whyEngine)
}

// checkReplicas: replicas that the primary does not wait for may miss what it
// has acknowledged.
func checkReplicas(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "replicas", Want: "none, or semi-synchronous"}
	n, ok := countReplicas(ctx, a)
	switch {
	case !ok:
		return model.Unread(f, whyReplGone)
	case n == 0:
		f.Value = "none"
		return model.Judged(f, true, "", "")
	case waitsForReplicas(ctx, a):
		f.Value = strconv.Itoa(n) + ", semi-synchronous"
		return model.Judged(f, true, "", "")
	}
	f.Value = strconv.Itoa(n) + ", asynchronous"
	return model.Judged(f, false, model.LevelWarn, whyReplicas)
}

// countReplicas asks MariaDB's status, which needs no right, then as MySQL wants
// it, from 8.0.22 and before.
func countReplicas(ctx context.Context, a *asker) (n int, ok bool) {
	if logBin, known := a.ask(ctx, "SELECT @@global.log_bin"); known && !isOn(logBin) {
		return 0, true
	}
	if connected := status(ctx, a, "Slaves_connected"); connected != "" {
		var err error
		n, err = strconv.Atoi(connected)
		return n, err == nil
	}
	if n, ok = a.count(ctx, "SHOW REPLICAS"); ok {
		return n, true
	}
	return a.count(ctx, "SHOW SLAVE HOSTS")
}

// waitsForReplicas: semi-synchronous replication, under its old and new name, is
// configured and not given up at the moment.
func waitsForReplicas(ctx context.Context, a *asker) bool {
	return strings.EqualFold(status(ctx, a, "Rpl_semi_sync_master_status"), "ON") ||
		strings.EqualFold(status(ctx, a, "Rpl_semi_sync_source_status"), "ON")
}

const (
	whyJournal  = "the file system of the database cannot share memory between processes, as WAL needs: put the file on a local disk"
	whySync     = "a commit may be lost in a power cut, and IDs then repeat"
	whyNetwork  = "locks and syncs of network file systems are not to be relied on: two processes could hand out one segment, and a commit could be lost: put the file on a local disk"
	whyMemory   = "the file is gone after a reboot, and IDs start again from 1: put it on a disk"
	whyLayer    = "the file is gone when the container is made anew, and IDs start again from 1: put it on a volume"
	whyFSHidden = "the kind of the file system is not told here: it must be on a local disk that outlives a reboot"
)

func sqliteChecks(file string) []settingCheck {
	return []settingCheck{checkJournal, checkSync, func(context.Context, *asker) model.Finding {
		return judgeFS(fileSystem(filepath.Dir(file)))
	}}
}

func checkJournal(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "journal_mode", Want: "wal"}
	f.Value, _ = a.ask(ctx, "PRAGMA journal_mode")
	return model.Judged(f, f.Value == "wal", model.LevelUnsafe, whyJournal)
}

func checkSync(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "synchronous", Want: "FULL or EXTRA"}
	value, _ := a.ask(ctx, "PRAGMA synchronous")
	names := map[string]string{"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"} // https://sqlite.org/pragma.html#pragma_synchronous
	f.Value = names[value]
	return model.Judged(f, f.Value == "FULL" || f.Value == "EXTRA", model.LevelUnsafe, whySync)
}

// judgeFS judges the kind of file system that holds the database; "" is one
// that cannot be told.
func judgeFS(kind string) model.Finding {
	f := model.Finding{Setting: "file system", Value: kind, Want: "local disk"}
	switch {
	case kind == "":
		return model.Unread(f, whyFSHidden)
	case strings.HasPrefix(kind, "network"):
		return model.Judged(f, false, model.LevelUnsafe, whyNetwork)
	case kind == "tmpfs":
		return model.Judged(f, false, model.LevelWarn, whyMemory)
	case kind == "overlay":
		return model.Judged(f, false, model.LevelWarn, whyLayer)
	}
	return model.Judged(f, true, "", "")
}
