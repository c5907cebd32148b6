package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
)

// errDeployments: a host has another deployment than the one in use.
var errDeployments = fmt.Errorf("%w: the hosts belong to different deployments",
	model.Do("let database.hosts name a primary and its replicas only"))

const (
	// commitsWithin is how long a host has not committed, at least, that is doubted: as long as a statement may take.
	commitsWithin = 2 * time.Second
	// othersWithin is how long the others may take to answer in place of one that is doubted.
	othersWithin = time.Second
)

// primary connects to that one of several hosts that takes writes, and stays with the one that it found until a
// connection to it cannot be made, or a transaction breaks and nothing has been committed for a while: a host that the
// network cut off from its group continues to take connections. Then it asks the others, one after the other. Safe for
// concurrent use.
type primary struct {
	hosts []connector
	names []string
	limit time.Duration // for one host

	mu         sync.Mutex
	at         int       // the host in use
	broke      bool      // a connection could not be made, or a transaction broke, since the last commit
	committed  time.Time // when something that was written was last committed, or another host was taken
	deployment string    // of the hosts that were taken; "" until one has said it
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

// Connect asks the host in use first, or last if it is doubted, and gives a connection to the first that takes writes.
func (p *primary) Connect(ctx context.Context) (driver.Conn, error) {
	inUse, doubted := p.inUse()
	first, within := inUse, p.limit
	if doubted {
		first, within = inUse+1, min(p.limit, othersWithin)
	}
	var failed error
	for i := range p.hosts {
		next := (first + i) % len(p.hosts)
		if next == inUse {
			within = p.limit
		}
		conn, err := p.open(ctx, next, within)
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
		if next == inUse {
			p.tell(false)
		}
	}
	return nil, failed
}

// inUse is the host in use, and whether it is doubted.
func (p *primary) inUse() (at int, doubted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at, p.broke && time.Since(p.committed) >= commitsWithin
}

// tell says that something that was written was committed, or that a transaction broke. nil is of one host alone.
func (p *primary) tell(committed bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broke = !committed; committed {
		p.committed = time.Now()
	}
}

// open connects to a host that takes writes which are not lost, and has it in use: a member of a group that was started
// again may take some until it joins. Errors: errReadOnly, errOutside, errDeployments.
func (p *primary) open(ctx context.Context, at int, within time.Duration) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := p.hosts[at].Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.names[at], err)
	}
	deployment, err := readOne(ctx, conn, "SELECT deployment FROM "+deploymentTable)
	if serverSaid(err, 1146, 1142) { // there is no such table yet, or the user may not read it
		err = nil
	}
	var readOnly, sent string
	if err == nil {
		var state string
		state, err = readOne(ctx, conn, "SELECT CONCAT(@@GLOBAL.read_only, ' ', COALESCE((SELECT variable_value FROM "+
			globalStatus+" WHERE variable_name = '"+sentInGroup+"'), ''))")
		readOnly, sent, _ = strings.Cut(state, " ")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
	case p.deployment != "" && deployment != p.deployment: // also one that has no tables of shardid
		err = fmt.Errorf("%w: %.20q, and that of another one is %.20q", errDeployments, deployment, p.deployment)
	case isOn(readOnly):
		err = errReadOnly
	case isOutside(sent):
		err = errOutside
	default:
		p.deployment = cmp.Or(p.deployment, deployment)
		if at != p.at {
			p.at, p.broke, p.committed = at, false, time.Now() // it has as long to commit something
		}
		return conn, nil
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", p.names[at], err), conn.Close())
}

// writable is "one", or the servers that take writes where more than one of those does that answer.
func (p *primary) writable(ctx context.Context) string {
	servers := map[string]string{} // their addresses
	for i := 0; p != nil && i < len(p.hosts); i++ {
		within, cancel := context.WithTimeout(ctx, othersWithin)
		if conn, err := p.hosts[i].Connect(within); err == nil {
			state, err := readOne(within, conn,
				"SELECT CONCAT(@@GLOBAL.read_only, ' ', @@hostname, ' ', @@port, ' ', @@server_id)")
			if readOnly, server, _ := strings.Cut(state, " "); err == nil && !isOn(readOnly) {
				servers[server] = p.names[i]
			}
			_ = conn.Close()
		}
		cancel()
	}
	if len(servers) > 1 {
		return strings.Join(slices.Sorted(maps.Values(servers)), " and ")
	}
	return "one"
}

// readOne reads the one value of a query, "" without a row.
func readOne(ctx context.Context, conn driver.Conn, query string) (string, error) {
	//nolint:forcetypeassert // it is MySQL's driver
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	values := make([]driver.Value, 1)
	if err = rows.Next(values); errors.Is(err, io.EOF) {
		return "", nil
	}
	text, _ := values[0].([]byte)
	return string(text), err
}

// writingTx notes whether its transaction has written anything: a host that cannot commit commits what only reads. Once
// the server has rolled it back nothing more is sent, as the server would commit each further statement by itself.
type writingTx struct {
	*sql.Tx
	wrote bool
	ended error // why the server has rolled it back; nil while it lasts
}

// ExecContext implements gorm.ConnPool.
func (t *writingTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if t.ended != nil {
		return nil, t.ended
	}
	result, err := t.Tx.ExecContext(ctx, query, args...)
	if err == nil {
		rows, _ := result.RowsAffected() // the drivers have no error of it
		t.wrote = t.wrote || rows > 0
	} else if isRolledBack(err) {
		t.ended = err
	}
	return result, err
}

// QueryContext implements gorm.ConnPool.
func (t *writingTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if t.ended != nil {
		return nil, t.ended
	}
	rows, err := t.Tx.QueryContext(ctx, query, args...)
	if isRolledBack(err) {
		t.ended = err
	}
	return rows, err
}
