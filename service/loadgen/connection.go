package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// errConnect: no connection could be made.
var errConnect = errors.New("no connection")

// clock counts nanoseconds since its base, monotonically.
type clock struct{ base time.Time }

func (c clock) now() int64 { return int64(time.Since(c.base)) }

// time is the wall's, and still monotonic.
func (c clock) time(at int64) time.Time { return c.base.Add(time.Duration(at)) }

// connection is one connection to the target; it can be opened again. It belongs to
// one goroutine.
type connection struct {
	target  *target
	clock   clock
	timeout time.Duration

	nc       net.Conn // nil while there is none
	answers  *responseReader
	deadline int64 // of nc, by the clock
	used     int64 // when the last answer came, 0 before the first
	idle     int64 // how long it had not been used before the last request, ns
}

// open connects. Errors: errConnect.
func (c *connection) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	nc, err := c.dial(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errConnect, err)
	}
	c.nc, c.answers, c.deadline, c.used = nc, newResponseReader(nc), 0, 0
	return nil
}

func (c *connection) dial(ctx context.Context) (net.Conn, error) {
	if c.target.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", c.target.address)
	}
	return (&tls.Dialer{Config: c.target.tls}).DialContext(ctx, "tcp", c.target.address)
}

// shut closes the connection, if there is one.
func (c *connection) shut() {
	if c.nc != nil {
		_ = c.nc.Close() // nothing that was sent on it is awaited any more
		c.nc = nil
	}
}

// exchange sends a request and reads its answer, which is valid until the next one.
// After an error the connection must be shut. Errors: those of responseReader.read,
// os.ErrDeadlineExceeded.
func (c *connection) exchange(request []byte) (response, error) {
	now := c.clock.now()
	if c.idle = 0; c.used > 0 {
		c.idle = now - c.used
	}
	if err := c.limit(now); err != nil {
		return response{}, err
	}
	if _, err := c.nc.Write(request); err != nil {
		return response{}, err
	}
	return c.answers.read()
}

// limit sees to it that the connection fails at a time between timeout and a quarter
// more from now. A deadline is moved only when it would be too early, as moving it
// for every request costs.
func (c *connection) limit(now int64) error {
	if c.deadline-now >= int64(c.timeout) {
		return nil
	}
	c.deadline = now + int64(c.timeout) + int64(c.timeout)/4
	return c.nc.SetDeadline(c.clock.time(c.deadline))
}
