package sqlstore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	gosql "github.com/go-sql-driver/mysql"
)

// errDeployments: the hosts do not have one deployment.
var errDeployments = errors.New("the hosts of the database belong to different deployments")

const (
	// commitsWithin is how long a host has not committed, at least, that is doubted: as long as a statement may take.
	commitsWithin = 2 * time.Second
	// othersWithin is how long the others may take to answer in place of one that is doubted.
	othersWithin = time.Second
)

// primary connects to that one of several hosts that takes writes, and stays with the one that it found until a
// connection to it cannot be made, or one breaks while it commits nothing: a host that the network cut off from its
// group goes on to take connections. Safe for concurrent use.
type primary struct {
	hosts []connector
	names []string
	limit time.Duration // for one host: another one may answer

	mu         sync.Mutex
	at         int       // the host in use; -1 before the first
	broke      bool      // a connection to it could not be made, or broke, since its last commit
	committed  time.Time // when it last committed something that was written
	deployment string    // of all hosts; "" until one has said it
	grouped    bool      // a host was met that is a member of a group, so all are to be
}

// onHost is cfg for one of several hosts. A DSN that asks for TLS has had its own host's name put
// where this one's belongs.
func onHost(cfg *gosql.Config, address string) *gosql.Config {
	cfg = cfg.Clone()
	cfg.Net, cfg.Addr = "tcp", address
	if cfg.TLSConfig == "true" {
		cfg.TLS.ServerName, _, _ = net.SplitHostPort(address) // its form was checked
	}
	return cfg
}

func (p *primary) Driver() driver.Driver { return p.hosts[0].Driver() }

// Connect tries the host in use, unless that is doubted, and then all others. These are asked at once, and the first
// answer counts. At the start all are waited for: so a foreign one is found before anything is issued, and should
// several take writes, every process takes the same. A host that is doubted goes on when there is no other.
func (p *primary) Connect(ctx context.Context) (driver.Conn, error) {
	at, doubted := p.inUse()
	within := p.limit
	var failed error
	switch {
	case doubted:
		within = othersWithin
	case at >= 0:
		conn, err := p.open(ctx, at)
		if err == nil {
			return conn, nil
		}
		p.tell(at, false)
		failed = err
	}
	conn, err := p.search(ctx, at, within)
	if conn == nil && doubted {
		conn, failed = p.open(ctx, at)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn == nil {
		if at < 0 {
			p.deployment = "" // any of them may have been asked first
		}
		return nil, errors.Join(failed, err)
	}
	if p.at != conn.at { // it has as long to commit something
		p.at, p.broke, p.committed = conn.at, false, time.Now()
	}
	return conn, nil
}

// inUse is the host in use, and whether it is doubted.
func (p *primary) inUse() (at int, doubted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at, p.broke && time.Since(p.committed) >= commitsWithin
}

// tell says of a host that it has committed, or that a connection to it broke or could not be made.
func (p *primary) tell(at int, committed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at != p.at {
		return // it is not in use any more
	}
	if p.broke = !committed; committed {
		p.committed = time.Now()
	}
}

// search asks all hosts but the last one. One that is outside a group is taken only if no other takes writes.
func (p *primary) search(ctx context.Context, last int, within time.Duration) (*primaryConn, error) {
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	type answer struct {
		conn *primaryConn
		err  error
	}
	answers := make(chan answer, len(p.hosts))
	asked := 0
	for i := range p.hosts {
		if i != last {
			asked++
			go func() {
				conn, err := p.open(asking, i)
				answers <- answer{conn, err}
			}()
		}
	}
	var best *primaryConn
	var err error
	for range asked {
		a := <-answers
		spare := a.conn
		if a.conn != nil && (best == nil || best.outside && !a.conn.outside ||
			best.outside == a.conn.outside && a.conn.at < best.at) {
			spare, best = best, a.conn
		}
		if err = errors.Join(err, a.err); spare != nil {
			_ = spare.mysqlConn.Close() // one is enough
		}
		if last >= 0 && best != nil && !best.outside {
			cancel()
		}
	}
	p.mu.Lock()
	outside := best != nil && best.outside && p.grouped // it answered before those of the group
	p.mu.Unlock()
	if outside {
		err = errors.Join(err, fmt.Errorf("%s: %w", p.names[best.at], errOutside))
	}
	if best != nil && (outside || errors.Is(err, errDeployments)) { // whose it is is not known
		_ = best.mysqlConn.Close()
		return nil, err
	}
	return best, err
}

// open connects to a host that takes writes. Errors: errReadOnly for another one, errOutside,
// errDeployments.
func (p *primary) open(ctx context.Context, at int) (*primaryConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	opened, err := p.hosts[at].Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.names[at], err)
	}
	conn, ok := opened.(mysqlConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T of the MySQL driver has changed", opened), opened.Close())
	}
	outside, err := p.look(ctx, at, conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.names[at], err), conn.Close())
	}
	return &primaryConn{mysqlConn: conn, of: p, at: at, outside: outside}, nil
}

// look asks a server whose it is, whether it takes writes, and whether it is outside a group. One that
// is started again may take writes until it joins: they would be lost.
func (p *primary) look(ctx context.Context, at int, conn mysqlConn) (outside bool, err error) {
	deployment, err := readOne(ctx, conn, "SELECT deployment FROM "+deploymentTable)
	if err != nil && !serverSaid(err, 1146, 1142) { // there is no such table yet, or the user may not read it
		return false, err
	}
	readOnly, err := readOne(ctx, conn, "SELECT @@GLOBAL.read_only")
	if err != nil {
		return false, err
	}
	sent, err := readOne(ctx, conn, "SHOW GLOBAL STATUS LIKE '"+sentInGroup+"'")
	if err != nil {
		return false, err
	}
	outside = isOutside(sent)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deployment = cmp.Or(p.deployment, deployment)
	p.grouped = p.grouped || sent != "" && !outside
	switch {
	case deployment != "" && deployment != p.deployment:
		return false, fmt.Errorf("%w: %s has %.20q, and another one %.20q",
			errDeployments, p.names[at], deployment, p.deployment)
	case isOn(readOnly):
		return false, errReadOnly
	case outside && p.grouped:
		return false, errOutside
	}
	return outside, nil
}

// readOne reads the last value of the first row, "" without a row.
func readOne(ctx context.Context, conn mysqlConn, query string) (string, error) {
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return "", err
	}
	values := make([]driver.Value, len(rows.Columns()))
	switch err = rows.Next(values); {
	case errors.Is(err, io.EOF):
		return "", rows.Close()
	case err != nil:
		return "", errors.Join(err, rows.Close())
	}
	last := values[len(values)-1]
	text := fmt.Sprint(last)
	if bytes, ok := last.([]byte); ok {
		text = string(bytes)
	}
	return text, rows.Close()
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

// primaryConn tells when it breaks, and when it commits.
type primaryConn struct {
	mysqlConn
	of      *primary
	at      int
	outside bool // its server is outside a group
	wrote   bool // in its transaction
}

// Close tells whether the connection broke: the pool closes each that did. It asks IsValid of those
// only that are given back to it, and a failed transaction discards its connection.
func (c *primaryConn) Close() error {
	if !c.IsValid() {
		c.of.tell(c.at, false)
	}
	return c.mysqlConn.Close()
}

// BeginTx implements driver.ConnBeginTx.
func (c *primaryConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.mysqlConn.BeginTx(ctx, opts)
	c.wrote = false
	return primaryTx{tx, c}, err
}

// ExecContext implements driver.ExecerContext.
func (c *primaryConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.mysqlConn.ExecContext(ctx, query, args)
	if err == nil {
		rows, _ := result.RowsAffected() // the driver has no error of it
		c.wrote = c.wrote || rows > 0
	}
	return result, err
}

type primaryTx struct {
	driver.Tx
	conn *primaryConn
}

// Commit implements driver.Tx. That of a transaction which wrote nothing tells nothing.
func (t primaryTx) Commit() error {
	err := t.Tx.Commit()
	if err == nil && t.conn.wrote {
		t.conn.of.tell(t.conn.at, true)
	}
	return err
}
