package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
)

// errDeployments: the hosts do not have one deployment.
var errDeployments = errors.New("the hosts of the database belong to different deployments")

// primary connects to that one of several hosts that takes writes. It stays with the one that it
// found until a connection to it breaks. Safe for concurrent use.
type primary struct {
	hosts []careful
	names []string

	mu         sync.Mutex
	at         int    // the host that took writes last; -1 before the first
	avoid      bool   // a connection to it broke: it is the last to be tried
	deployment string // of all hosts; "" until one has said it
}

func (p *primary) Driver() driver.Driver { return p.hosts[0].Driver() }

// Connect tries the host that took writes last, unless a connection to it broke, and then the
// others at once. The first of all times it waits for each of them, so that a foreign one is
// found before anything is issued.
func (p *primary) Connect(ctx context.Context) (driver.Conn, error) {
	p.mu.Lock()
	at, avoid := p.at, p.avoid
	p.mu.Unlock()
	var others, last []int
	for i := range p.hosts {
		if i != at {
			others = append(others, i)
		} else {
			last = []int{at}
		}
	}
	tries := [][]int{last, others}
	if avoid {
		tries = [][]int{others, last}
	}
	var failed error
	for _, hosts := range tries {
		f := p.first(ctx, hosts, at < 0)
		if f.conn != nil {
			p.settle(f.at, false)
			return f.conn, nil
		}
		failed = errors.Join(failed, f.err)
	}
	p.settle(at, true)
	return nil, failed
}

// settle says which host comes first from now on, or last.
func (p *primary) settle(at int, avoid bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at, p.avoid = at, avoid; at < 0 {
		p.deployment = "" // any of them may have been asked first
	}
}

// found is what became of the connection to a host.
type found struct {
	at   int
	conn driver.Conn
	err  error
}

// first connects to that one of some hosts that takes writes and answers first, or waits for all of
// them: should several take writes, the same one is found by every process.
func (p *primary) first(ctx context.Context, hosts []int, all bool) (first found) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan found, len(hosts))
	for _, i := range hosts {
		go func() {
			conn, err := p.open(asking, i)
			answers <- found{i, conn, err}
		}()
	}
	for range hosts {
		switch a := <-answers; {
		case a.err != nil:
			first.err = errors.Join(first.err, a.err)
		case first.conn != nil && first.at < a.at:
			_ = a.conn.Close() // one is enough
		default:
			if first.conn != nil {
				_ = first.conn.Close()
			}
			if first.at, first.conn = a.at, a.conn; !all {
				cancel()
			}
		}
	}
	if first.conn != nil && errors.Is(first.err, errDeployments) {
		_ = first.conn.Close() // whose it is is not known
		first.conn = nil
	}
	return first
}

// open connects to a host that takes writes. Errors: errReadOnly for another one, errDeployments.
func (p *primary) open(ctx context.Context, at int) (driver.Conn, error) {
	conn, err := p.hosts[at].Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.names[at], err)
	}
	careful, ok := conn.(*carefulConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T is no connection of ours", conn), conn.Close())
	}
	if err = p.look(ctx, at, careful); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.names[at], err), conn.Close())
	}
	return &primaryConn{careful, p, at}, nil
}

// look asks a server whose it is, and whether it takes writes.
func (p *primary) look(ctx context.Context, at int, conn *carefulConn) error {
	deployment, err := readOne(ctx, conn, "SELECT deployment FROM "+deploymentTable)
	if err != nil && !serverSaid(err, 1146, 1142) { // there is no such table yet, or the user may not read it
		return err
	}
	p.mu.Lock()
	if p.deployment == "" {
		p.deployment = deployment
	}
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

// IsValid is asked by the pool after each use.
func (c *primaryConn) IsValid() bool {
	if c.carefulConn.IsValid() {
		return true
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.avoid = c.of.avoid || c.of.at == c.at
	return false
}
