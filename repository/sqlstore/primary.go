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
	// othersFirst is how much later than a host that is doubted another one may answer and still be
	// taken in its place.
	othersFirst = 300 * time.Millisecond
	// commitsWithin is how long a host has not committed, at least, that is doubted: as long as
	// a statement may take.
	commitsWithin = 2 * time.Second
)

// primary connects to that one of several hosts that takes writes, and stays with the one that it
// found until a connection to it cannot be made, or one breaks while it commits nothing: a host
// that the network cut off from its group goes on to take connections. Safe for concurrent use.
type primary struct {
	hosts []connector
	names []string
	limit time.Duration // for one host: another one may answer

	mu         sync.Mutex
	at         int          // the host that took writes last; -1 before the first
	seen       []hostRecord // by host
	deployment string       // of all hosts; "" until one has said it
	grouped    bool         // a host was met that is a member of a group, so all are to be
}

// hostRecord is what a process has seen of a host.
type hostRecord struct {
	broke     bool      // a connection could not be made, or broke, since the last commit
	committed time.Time // when something that was written was committed last
}

func (r hostRecord) doubted() bool { return r.broke && time.Since(r.committed) >= commitsWithin }

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

// Connect tries the host that took writes last, unless that is doubted, and then all at once.
func (p *primary) Connect(ctx context.Context) (driver.Conn, error) {
	p.mu.Lock()
	at, doubted := p.at, make([]bool, len(p.seen))
	for i, r := range p.seen {
		doubted[i] = r.doubted()
	}
	p.mu.Unlock()
	if at >= 0 && !doubted[at] {
		if conn, err := p.open(ctx, at); err == nil {
			return conn, nil
		}
		p.broke(at)
		doubted[at] = true
	}
	f := p.search(ctx, at, doubted)
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.conn == nil {
		if at < 0 {
			p.deployment = "" // any of them may have been asked first
		}
		return nil, f.err
	}
	p.at = f.at
	return f.conn, nil
}

func (p *primary) broke(at int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[at].broke = true
}

func (p *primary) committed(at int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[at] = hostRecord{committed: time.Now()}
}

// found is what became of the connection to a host.
type found struct {
	at   int
	conn *primaryConn // nil with an error
	rank int
	err  error
}

// search asks all hosts at once, and takes the first that takes writes; a doubted one only if no
// other answers soon, and of those the last one to be used only if no other is there. The first of
// all times it waits for each: so a foreign one is found before anything is issued, and should
// several take writes, every process takes the same.
func (p *primary) search(ctx context.Context, last int, doubted []bool) (best found) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan found, len(p.hosts))
	for i := range p.hosts {
		go func() {
			conn, err := p.open(asking, i)
			f := found{i, conn, rank(i, last, doubted), err}
			if conn != nil && conn.outside { // rather one that is in a group
				f.rank += len(p.hosts)
			}
			answers <- f
		}()
	}
	var late <-chan time.Time
	for left := len(p.hosts); left > 0; {
		select {
		case a := <-answers:
			left--
			spare := a.conn
			if a.conn != nil && (best.conn == nil || a.rank < best.rank) {
				spare, best.at, best.conn, best.rank = best.conn, a.at, a.conn, a.rank
			}
			if best.err = errors.Join(best.err, a.err); spare != nil {
				_ = spare.Close() // one is enough
			}
			switch {
			case best.conn == nil || last < 0:
			case best.rank == 0:
				cancel()
			case late == nil:
				late = time.After(othersFirst)
			}
		case <-late:
			cancel()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	outside := best.conn != nil && best.conn.outside && p.grouped // it answered before those of the group
	if outside {
		best.err = errors.Join(best.err, fmt.Errorf("%s: %w", p.names[best.at], errOutside))
	}
	if best.conn != nil && (outside || errors.Is(best.err, errDeployments)) { // whose it is is not known
		_ = best.conn.mysqlConn.Close() // that of primaryConn would lock mu again
		best.conn = nil
	}
	return best
}

// rank is the lower the rather a host is taken of those that take writes.
func rank(at, last int, doubted []bool) int {
	switch {
	case last < 0:
		return at
	case !doubted[at]:
		return 0
	case at != last:
		return 1
	}
	return 2
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
		return false, fmt.Errorf("%w: %s has %.20q, and another one %.20q", errDeployments, p.names[at], deployment, p.deployment)
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
		c.of.broke(c.at)
	}
	return c.mysqlConn.Close()
}

// BeginTx implements driver.ConnBeginTx.
func (c *primaryConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.mysqlConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.wrote = false
	return &primaryTx{tx, c}, nil
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
func (t *primaryTx) Commit() error {
	err := t.Tx.Commit()
	if err == nil && t.conn.wrote {
		t.conn.of.committed(t.conn.at)
	}
	return err
}
