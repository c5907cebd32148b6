package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// txRetries is how often a transaction is run again that the server rolled back.
const txRetries = 2

// inTx runs body in one transaction and commits it. body runs again, at most
// txRetries times, when nothing of it can have been stored: the connection broke or
// the SQLite file was held before the transaction began, or the server named a deadlock or lock wait and
// acknowledged the ROLLBACK. It also runs again once the database server's change,
// which body met, is noted. After any other error, that of COMMIT included, the
// transaction may or may not be stored.
func (s *Store) inTx(ctx context.Context, body func(*gorm.DB) error) error {
	for try := 0; ; try++ {
		again, err := s.tryTx(ctx, body)
		if errors.Is(err, errServerChanged) {
			if err := s.noteServer(ctx); err != nil {
				return err
			}
			again = true
		}
		again = again || errors.Is(err, errMarkAhead) // nothing was written
		if err == nil || !again || try == txRetries || ctx.Err() != nil {
			return err
		}
	}
}

// tryTx is one attempt; again says that nothing of it is stored for sure and
// another attempt may do better.
func (s *Store) tryTx(ctx context.Context, body func(*gorm.DB) error) (again bool, err error) {
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if s.server == nil {
		// The driver skips a statement whose context has ended and interrupts
		// even a ROLLBACK; the waits inside are bounded by busy_timeout.
		ctx = context.WithoutCancel(ctx)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return errors.Is(err, driver.ErrBadConn) || isBusy(err), err
	}
	if err := body(s.session(ctx, tx)); err != nil {
		return rollback(conn, tx) && isRolledBack(err), err
	}
	if err := tx.Commit(); err != nil {
		discard(conn)
		return false, err
	}
	return false, nil
}

// session binds gorm to the transaction.
func (s *Store) session(ctx context.Context, tx *sql.Tx) *gorm.DB {
	g := s.gorm.Session(&gorm.Session{NewDB: true, Context: ctx})
	g.Statement.ConnPool = tx
	return g
}

// rollback says whether the server acknowledged it.
func rollback(conn *sql.Conn, tx *sql.Tx) bool {
	if err := tx.Rollback(); err != nil {
		discard(conn)
		return false
	}
	return true
}

// discard closes a connection that may still hold an open transaction, instead
// of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // its error is the one given here
}

// errNoLockRow: the row that callers wait for each other at, or that of the
// deployment, is missing.
var errNoLockRow = errors.New("a row of the schema is missing")

// lockNamed makes this transaction the only one that gives out rows of a table,
// until it ends. As the first statement it also makes all that follow see what
// the others before it have stored. Locking the table's own rows instead would
// make callers who find none deadlock over the gap, and hold up renewals. The
// row is locked and never changed. SQLite's lock was taken by BEGIN. Errors:
// errReadOnly, errNoLockRow.
func (s *Store) lockNamed(tx *gorm.DB, name string) error {
	if s.server == nil {
		return nil
	}
	var found []string // of one column, whether the server is read-only
	err := tx.Raw("SELECT @@global.read_only FROM "+mutexTable+" WHERE name = ? FOR UPDATE", name).Scan(&found).Error
	switch {
	case err != nil:
		return fmt.Errorf("lock %s: %w", name, err)
	case len(found) == 0:
		return fmt.Errorf("%w: %s", errNoLockRow, name)
	case isOn(found[0]):
		return errReadOnly
	}
	return nil
}

// forUpdate ends a SELECT that locks its rows. SQLite's lock was taken by BEGIN.
func (s *Store) forUpdate() string {
	if s.server == nil {
		return ""
	}
	return " FOR UPDATE"
}

func (s *Store) confirm(ctx context.Context, op string, body func(*gorm.DB) (int64, error)) (n int64, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
		if _, err = s.moment(tx); err == nil { // a change that nobody has noted yet comes first
			n, err = body(tx)
		}
		return err
	})
	if err != nil {
		return 0, s.answer(ctx, op, err)
	}
	return n, nil
}
