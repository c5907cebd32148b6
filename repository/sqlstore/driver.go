package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"

	"shardid/repository/framing"
)

// errUnreadable: the driver panicked on an answer.
var errUnreadable = errors.New("the server's answer cannot be read")

// wireKey is where Connect's context has the place for what dial makes.
type wireKey struct{}

// dial connects for the driver.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	wire := framing.MySQL(conn)
	if made, ok := ctx.Value(wireKey{}).(**framing.MySQLConn); ok {
		*made = wire
	}
	return wire, nil
}

// careful connects through the driver, which panics on an answer that lacks a part, and says only
// "invalid connection" of one that was refused: both become errors that say what it was.
type careful struct {
	driver.Connector
	limit time.Duration // for all of the opening
}

func (c careful) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err // and no nil of another type
	}
	return conn, nil
}

func (c careful) connect(ctx context.Context) (*carefulConn, error) {
	var wire *framing.MySQLConn
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, wireKey{}, &wire), c.limit)
	defer cancel()
	inner, err := attempt(&wire, func() (driver.Conn, error) { return c.Connector.Connect(ctx) })
	if err != nil {
		if wire != nil {
			_ = wire.Close() // closed already, unless the driver panicked
		}
		return nil, err
	}
	conn, ok := inner.(mysqlConn)
	if !ok || !readAbove(inner, wire) {
		return nil, errors.Join(fmt.Errorf("%T of the MySQL driver has changed", inner), inner.Close())
	}
	return &carefulConn{conn, wire}, nil
}

// readAbove has the driver read its packets where TLS has decrypted them, so that these are
// bounded too. The driver makes that connection itself and offers no way to it.
func readAbove(conn driver.Conn, wire *framing.MySQLConn) bool {
	field := reflect.ValueOf(conn).Elem().FieldByName("netConn")
	if !field.IsValid() || field.Type() != reflect.TypeFor[net.Conn]() {
		return false
	}
	at := (*net.Conn)(field.Addr().UnsafePointer())
	*at = wire.AboveTLS(*at)
	return true
}

// attempt makes a panic of work an error, and adds why the connection was refused, if there is one.
func attempt[T any](wire **framing.MySQLConn, work func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errUnreadable, p)
		}
		if err == nil || *wire == nil {
			return
		}
		if why := (*wire).Refused(); why != nil {
			err = fmt.Errorf("%w: %w", why, err)
		}
	}()
	return work()
}

// mysqlConn is what the driver's connection can do.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// carefulConn bounds the packets of a connection and survives its panics. What is prepared is
// not covered: parameters go into the text of a statement.
type carefulConn struct {
	mysqlConn
	wire *framing.MySQLConn
}

func guard[T any](c *carefulConn, work func() (T, error)) (T, error) {
	value, err := attempt(&c.wire, work)
	if errors.Is(err, errUnreadable) {
		_ = c.Close() // the pool drops it
	}
	return value, err
}

func guardErr(c *carefulConn, work func() error) error {
	_, err := guard(c, func() (struct{}, error) { return struct{}{}, work() })
	return err
}

func (c *carefulConn) Ping(ctx context.Context) error {
	return guardErr(c, func() error { return c.mysqlConn.Ping(ctx) })
}

func (c *carefulConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return guard(c, func() (driver.Stmt, error) { return c.mysqlConn.PrepareContext(ctx, query) })
}

func (c *carefulConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return guard(c, func() (driver.Result, error) { return c.mysqlConn.ExecContext(ctx, query, args) })
}

func (c *carefulConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := guard(c, func() (driver.Rows, error) { return c.mysqlConn.QueryContext(ctx, query, args) })
	if err != nil {
		return nil, err
	}
	return &carefulRows{rows, c}, nil
}

func (c *carefulConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := guard(c, func() (driver.Tx, error) { return c.mysqlConn.BeginTx(ctx, opts) })
	if err != nil {
		return nil, err
	}
	return &carefulTx{tx, c}, nil
}

type carefulTx struct {
	driver.Tx
	conn *carefulConn
}

func (t *carefulTx) Commit() error   { return guardErr(t.conn, t.Tx.Commit) }
func (t *carefulTx) Rollback() error { return guardErr(t.conn, t.Tx.Rollback) }

// carefulRows has one set of rows: no statement of ours gives another.
type carefulRows struct {
	driver.Rows
	conn *carefulConn
}

func (r *carefulRows) Next(dest []driver.Value) error {
	return guardErr(r.conn, func() error { return r.Rows.Next(dest) })
}

func (r *carefulRows) Close() error { return guardErr(r.conn, r.Rows.Close) }
