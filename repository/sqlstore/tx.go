package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"shardid/model"

	"gorm.io/gorm"
)

// txRetries is how often a transaction is run again that the server rolled back.
const txRetries = 2

// noteRetry is how often a command looks whether a replica has noted a change of the server,
// for as long as that is waited for. A replica that serves tells its callers instead.
const noteRetry = 300 * time.Millisecond

// errRowChanged: a row is not as it was read.
var errRowChanged = fmt.Errorf("%w: a row changed after it was read: the engine of its table is not InnoDB, a program "+
	"writes to it without locking, or others were quicker each time", model.Do("try again"))

// errNoLockRow: the row that callers wait for each other at, or that of the
// deployment, is missing.
var (
	errNoLockRow    = errors.New("a row of the schema is missing")
	errNoDeployment = fmt.Errorf("%w: %s", errNoLockRow, deploymentTable)
)

// do runs body in a transaction. The error is a refusal or a *model.StoreError.
func (s *Store) do(ctx context.Context, op string, body func(*gorm.DB) error) error {
	return s.answer(ctx, op, s.inTx(ctx, op, body))
}

// within is do for a body that gives something: nothing after an error.
func within[T any](ctx context.Context, s *Store, op string, body func(*gorm.DB) (T, error)) (T, error) {
	var value, none T
	err := s.do(ctx, op, func(tx *gorm.DB) (err error) {
		value, err = body(tx)
		return err
	})
	if err != nil {
		return none, err
	}
	return value, nil
}

// inMoment is inTx for a body that needs something of the row of the deployment, which it gets.
func (s *Store) inMoment(
	ctx context.Context, op string, needs []need, body func(tx *gorm.DB, m *moment) error,
) error {
	return s.inTx(ctx, op, func(tx *gorm.DB) error {
		m, err := s.moment(tx, needs...)
		if err != nil {
			return err
		}
		return body(tx, &m)
	})
}

// withMoment is within for such a body.
func withMoment[T any](ctx context.Context, s *Store, op string, needs []need,
	body func(tx *gorm.DB, m *moment) (T, error)) (T, error) {
	return within(ctx, s, op, func(tx *gorm.DB) (none T, err error) {
		m, err := s.moment(tx, needs...)
		if err != nil {
			return none, err
		}
		return body(tx, &m)
	})
}

// look is within for a body that only reads, by the clock of the database.
func look[T any](ctx context.Context, s *Store, op string, body func(tx *gorm.DB, at moment) (T, error)) (T, error) {
	return within(ctx, s, op, func(tx *gorm.DB) (none T, err error) {
		at, err := s.readMoment(tx, "")
		if err != nil {
			return none, err
		}
		return body(tx, at)
	})
}

// inTx runs body in one transaction and commits it, which is observed as op. body runs again, at most txRetries times,
// when nothing of it can have been stored: the connection broke before the transaction began, or the server named a
// deadlock or lock wait and acknowledged the ROLLBACK, or the mark at the witness had risen. It also runs again once
// the database server's change, which body met, is noted, or the region. After any other error, that of COMMIT
// included, the transaction may or may not be stored.
func (s *Store) inTx(ctx context.Context, op string, body func(*gorm.DB) error) (err error) {
	ctx, end := s.observe(ctx, op)
	defer func() { end(err) }()
	for try := 0; ; try++ {
		again, err := s.tryTx(ctx, body)
		if errors.Is(err, errServerChanged) {
			if err := s.noteServer(ctx); err != nil {
				if errors.Is(err, errServerChanged) && !s.serves.Load() && wait(ctx, noteRetry) {
					try--
					continue
				}
				return &model.NotBegunError{Err: err}
			}
			again = true
		}
		if errors.Is(err, errNoRegion) {
			if _, err := s.tryTx(ctx, func(tx *gorm.DB) error { return s.storeRegion(tx, false) }); err != nil {
				return err
			}
			again = true
		}
		again = again || errors.Is(err, errMarkMoved)
		if err == nil || !again || try == txRetries || ctx.Err() != nil {
			return err
		}
	}
}

// observe begins a call under the name op, up to what names one app or tag.
func (s *Store) observe(ctx context.Context, op string) (context.Context, func(error)) {
	if i := strings.IndexAny(op, `"0123456789`); i > 0 {
		op = op[:i-1]
	}
	ctx, end := s.opts.Observe.Begin(ctx, "database", op)
	return ctx, func(err error) {
		if isRefusal(err) || isDuplicate(err) {
			err = nil
		}
		end(err)
	}
}

// wait is false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// tryTx is one attempt; again says that nothing of it is stored for sure and
// another attempt may do better.
func (s *Store) tryTx(ctx context.Context, body func(*gorm.DB) error) (again bool, err error) {
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return false, &model.NotBegunError{Err: err}
	}
	commits := false
	defer func() {
		if !commits { // which gives it back
			_ = conn.Close()
		}
	}()
	if s.server == nil {
		// The driver skips a statement whose context has ended and interrupts
		// even a ROLLBACK; nothing waits inside.
		ctx = context.WithoutCancel(ctx)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return errors.Is(err, driver.ErrBadConn), &model.NotBegunError{Err: err}
	}
	writing := &writingTx{Tx: tx}
	session := s.gorm.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = writing
	if err := body(session); err != nil {
		if tx.Rollback() != nil {
			s.hosts.tell(false)
			discard(conn)
			return false, err
		}
		if errors.Is(err, errReadOnly) { // the next connection may be to another host
			discard(conn)
		}
		return isRolledBack(err), err
	}
	committed := make(chan error, 1) // a server that waits for its replicas may answer much later, or never
	commits = true
	go func() {
		err := tx.Commit()
		if err != nil {
			discard(conn)
		}
		_ = conn.Close()
		committed <- err
	}()
	select {
	case err = <-committed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		s.hosts.tell(false)
		return false, err
	}
	if writing.wrote {
		s.hosts.tell(true)
	}
	return false, nil
}

// discard closes a connection that may still hold an open transaction, instead
// of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // its error is the one given here
}

// lockNamed makes this transaction the only one that gives out rows of a table,
// until it ends. As the first statement it also makes all that follow see what
// the others before it have stored. Locking the table's own rows instead would
// make callers who find none deadlock over the gap, and hold up renewals. The
// row is locked and never changed. Errors: errNoLockRow, and those of moment.
func (s *Store) lockNamed(tx *gorm.DB, name string) (moment, error) {
	if s.server != nil {
		found, err := query[[]string](tx, "lock "+name, "SELECT name FROM "+mutexTable+" WHERE name = ?"+s.forUpdate(),
			name)
		if _, err = oneRow(found, err, fmt.Errorf("%w: %s", errNoLockRow, name)); err != nil {
			return moment{}, err
		}
	}
	return s.moment(tx)
}

// query gives what a statement reads; the zero value, or an empty slice, without a row. Its
// error begins with what was tried.
func query[T any](tx *gorm.DB, what, sql string, args ...any) (found T, err error) {
	if err := tx.Raw(sql, args...).Scan(&found).Error; err != nil {
		return found, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

// write runs a statement of a transaction. Its error begins with what was tried.
func write(tx *gorm.DB, what, sql string, args ...any) error {
	if err := tx.Exec(sql, args...).Error; err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// updateRows is write for a statement that must change so many rows; the error may be
// errRowChanged.
func updateRows(tx *gorm.DB, rows int, what, sql string, args ...any) error {
	res := tx.Exec(sql, args...)
	if res.Error != nil {
		return fmt.Errorf("%s: %w", what, res.Error)
	}
	if res.RowsAffected != int64(rows) {
		return fmt.Errorf("%s: %w: %d of %d rows were as read", what, errRowChanged, res.RowsAffected, rows)
	}
	return nil
}
