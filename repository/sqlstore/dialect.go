package sqlstore

import (
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
)

// Where MySQL, MariaDB and SQLite differ, beside how a connection is opened (open.go), what errors are called
// (errors.go) and which settings there are (settings.go). Only MariaDB reads a comment that begins with /*M!, only
// MySQL one with /*!80000.

// either gives the wording of the database that is used.
func (s *Store) either(mysql, sqlite string) string {
	if s.server == nil {
		return sqlite
	}
	return mysql
}

// The locks of rows that are read. SQLite's one lock was taken by BEGIN.
const (
	share     = " LOCK IN SHARE MODE"
	exclusive = " FOR UPDATE"
)

// lock ends a SELECT that locks its rows so.
func (s *Store) lock(kind string) string { return s.either(kind, "") }

// forUpdate is an exclusive lock.
func (s *Store) forUpdate() string { return s.lock(exclusive) }

// lockOf is an exclusive lock of those tables, by their names in the statement, that MySQL locks alone.
func (s *Store) lockOf(tables string) string {
	return s.lock(exclusive + " /*!80000 OF " + tables + " */")
}

// primaryKey makes a server look rows up by their key: MySQL would scan, and lock, the whole of a small table.
func (s *Store) primaryKey() string { return s.either(" FORCE INDEX (PRIMARY)", "") }

// orRaise ends an INSERT of tombstones, which raises those that are there.
func (s *Store) orRaise() string {
	return s.either(
		" ON DUPLICATE KEY UPDATE max_id = GREATEST(max_id, VALUES(max_id)), deleted_at = VALUES(deleted_at)",
		" ON CONFLICT DO UPDATE SET max_id = MAX(max_id, excluded.max_id), deleted_at = excluded.deleted_at")
}

// unixTime is a column with a time, in Unix s, which no time zone changes.
func (s *Store) unixTime(column string) string {
	return s.either("UNIX_TIMESTAMP("+column+")", "CAST(strftime('%s', "+column+") AS INTEGER)")
}

// ageOf is how old a column with a time is, in ms.
func (s *Store) ageOf(column string) string {
	return s.either("("+serverNow+") - CAST(UNIX_TIMESTAMP("+column+") * 1000 AS SIGNED)", // in any zone
		"CAST(round((julianday('now') - julianday("+column+")) * 86400000) AS INTEGER)")
}

// columnsOf names the columns of a table.
func (s *Store) columnsOf() string {
	return s.either("SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND "+
		"table_name = ?", "SELECT name FROM pragma_table_info(?)")
}

const (
	// globalStatus is read without any privilege.
	globalStatus = "/*M!100000 information_schema *//*!80000 performance_schema */.global_status"
	// serverNow is the server's clock, Unix ms.
	serverNow = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000"
	// identityColumns are the server's own name, its life, and the connection. The end of a UUID stays the same until
	// the server stops: it is random at each start, then the address of the network card.
	identityColumns = "/*M!100000 CONCAT_WS('|', @@hostname, @@port, @@datadir) *//*!80000 @@server_uuid */ AS host, " +
		"/*M!100000 CONCAT_WS('-', RIGHT(UUID(), 17), @@server_id) *//*!80000 '' */ AS life, " +
		"CONCAT_WS('-', CONNECTION_ID(), RIGHT(UUID(), 17)) AS connection"
	// startColumns are the name of the server's group, if it is a member of one, and what it counts since its
	// start: for these it looks at all of its variables, and at all of its threads.
	startColumns = "/*M!100000 '' *//*!80000 COALESCE((SELECT variable_value FROM " +
		"performance_schema.global_variables WHERE variable_name = 'group_replication_group_name'), '') */ " +
		"AS `group`, (SELECT GROUP_CONCAT(LOWER(variable_name), '=', variable_value SEPARATOR ' ') FROM " +
		globalStatus + " WHERE variable_name IN ('uptime', 'wsrep_cluster_state_uuid', '" + sentInGroup +
		"')) AS status"
)

// sqliteDialect lets gorm speak to SQLite by modernc.org/sqlite, which is SQLite
// itself without cgo; gorm's own driver needs cgo. SQLite understands all of MySQL's
// dialect that the store uses but for row locks. Its tables are made by migrations.
type sqliteDialect struct {
	mysql.Dialector
	pool gorm.ConnPool
}

// Initialize sends nothing. A row lock is left out: a transaction holds the file's
// only write lock from its beginning.
func (d sqliteDialect) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{LastInsertIDReversed: true})
	db.ClauseBuilders["FOR"] = func(clause.Clause, clause.Builder) {}
	return nil
}
