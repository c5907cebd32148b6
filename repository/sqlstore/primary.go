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

// othersFirst is how much later than the host that is doubted another one may answer and still be
// taken in its place.
const othersFirst = 300 * time.Millisecond

// primary connects to that one of several hosts that takes writes. It stays with the one that it
// found until a connection to it breaks. Safe for concurrent use.
type primary struct {
	hosts []careful
	names []string
	limit time.Duration // for one host: another one may answer

	mu         sync.Mutex
	at         int    // the host that took writes last; -1 before the first
	doubted    bool   // a connection to it broke: another one is taken, if one takes writes
	deployment string // of all hosts; "" until one has said it
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

// Connect tries the host that took writes last, unless that is doubted, and then all at once.
func (p *primary) Connect(ctx context.Context) (driver.Conn, error) {
	p.mu.Lock()
	at, doubted := p.at, p.doubted
	p.mu.Unlock()
	if at >= 0 && !doubted {
		if conn, err := p.open(ctx, at); err == nil {
			return conn, nil
		}
	}
	f := p.search(ctx, at)
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.conn == nil {
		p.doubted = true
		if at < 0 {
			p.deployment = "" // any of them may have been asked first
		}
		return nil, f.err
	}
	p.at, p.doubted = f.at, false
	return f.conn, nil
}

// found is what became of the connection to a host.
type found struct {
	at   int
	conn driver.Conn
	err  error
}

// search asks all hosts at once, and takes the first that takes writes; the last one to be used, if
// no other answers soon. The first of all times it waits for each: so a foreign one is found before
// anything is issued, and should several take writes, every process takes the same.
func (p *primary) search(ctx context.Context, last int) (best found) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan found, len(p.hosts))
	for i := range p.hosts {
		go func() {
			conn, err := p.open(asking, i)
			answers <- found{i, conn, err}
		}()
	}
	var late <-chan time.Time
	for left := len(p.hosts); left > 0; {
		select {
		case a := <-answers:
			left--
			spare := a.conn
			if a.conn != nil && (best.conn == nil || best.at == last || last < 0 && a.at < best.at) {
				spare, best.at, best.conn = best.conn, a.at, a.conn
			}
			if best.err = errors.Join(best.err, a.err); spare != nil {
				_ = spare.Close() // one is enough
			}
			switch {
			case best.conn == nil || last < 0:
			case best.at != last:
				cancel()
			case late == nil:
				late = time.After(othersFirst)
			}
		case <-late:
			cancel()
		}
	}
	if best.conn != nil && errors.Is(best.err, errDeployments) {
		_ = best.conn.Close() // whose it is is not known
		best.conn = nil
	}
	return best
}

// open connects to a host that takes writes. Errors: errReadOnly for another one, errDeployments.
func (p *primary) open(ctx context.Context, at int) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	conn, err := p.hosts[at].connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.names[at], err)
	}
	if err = p.look(ctx, at, conn); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.names[at], err), conn.Close())
	}
	return &primaryConn{conn, p, at}, nil
}

// look asks a server whose it is, and whether it takes writes.
func (p *primary) look(ctx context.Context, at int, conn *carefulConn) error {
	deployment, err := readOne(ctx, conn, "SELECT deployment FROM "+deploymentTable)
	if err != nil && !serverSaid(err, 1146, 1142) { // there is no such table yet, or the user may not read it
		return err
	}
	p.mu.Lock()
	p.deployment = cmp.Or(p.deployment, deployment)
	known := p.deployment
	p.mu.Unlock()
	if deployment != "" && deployment != known {
		return fmt.Errorf("%w: %s has %.20q, and another one %.20q", errDeployments, p.names[at], deployment, known)
	}
	readOnly, err := readOne(ctx, conn, "SELECT @@GLOBAL.read_only")
	if err == nil && isOn(readOnly) {
		return errReadOnly
	}
	return err
}

// readOne reads one value, "" where there is no row.
func readOne(ctx context.Context, conn *carefulConn, query string) (string, error) {
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
	text := fmt.Sprint(values[0])
	if bytes, ok := values[0].([]byte); ok {
		text = string(bytes)
	}
	return text, rows.Close()
}

// primaryConn tells when it breaks.
type primaryConn struct {
	*carefulConn
	of *primary
	at int
}

// Close tells whether the connection broke. The pool closes each that did, and asks IsValid only
// of those that are given back to it, which one of a failed transaction is not.
func (c *primaryConn) Close() error {
	if !c.IsValid() {
		c.of.mu.Lock()
		c.of.doubted = c.of.doubted || c.of.at == c.at
		c.of.mu.Unlock()
	}
	return c.carefulConn.Close()
}
