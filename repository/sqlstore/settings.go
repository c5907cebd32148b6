package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
