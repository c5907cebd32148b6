package sqlstore

import (
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"
)

// sqliteDriver is the name under which modernc.org/sqlite registers itself.
const sqliteDriver = "sqlite"

// sqliteDialect lets gorm speak to SQLite by modernc.org/sqlite, which is SQLite
// itself without cgo. gorm's own driver needs cgo. Only what the store uses is here:
// its tables are made by migrations, so that there is no Migrator.
type sqliteDialect struct{ pool gorm.ConnPool }

func (sqliteDialect) Name() string { return sqliteDriver }

// Initialize sends nothing. A row lock is left out: a transaction holds the file's
// only write lock from its beginning.
func (d sqliteDialect) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{LastInsertIDReversed: true})
	db.ClauseBuilders["FOR"] = func(clause.Clause, clause.Builder) {}
	return nil
}

func (sqliteDialect) Migrator(*gorm.DB) gorm.Migrator { return nil }

func (sqliteDialect) DataTypeOf(field *schema.Field) string { return string(field.DataType) }

func (sqliteDialect) DefaultValueOf(*schema.Field) clause.Expression {
	return clause.Expr{SQL: "NULL"} // SQLite has no DEFAULT in VALUES
}

func (sqliteDialect) BindVarTo(writer clause.Writer, _ *gorm.Statement, _ any) {
	_ = writer.WriteByte('?') // into memory
}

// QuoteTo quotes each part of a name such as table.column.
func (sqliteDialect) QuoteTo(writer clause.Writer, name string) {
	quoted := "`" + strings.Join(strings.Split(strings.ReplaceAll(name, "`", "``"), "."), "`.`") + "`"
	_, _ = writer.WriteString(quoted) // into memory
}

func (sqliteDialect) Explain(sql string, vars ...any) string {
	return logger.ExplainSQL(sql, nil, `"`, vars...)
}
