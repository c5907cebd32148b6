package load

import (
	"net"
	"testing"
	"time"
)

// deadlines is a connection that remembers its deadline.
type deadlines struct {
	net.Conn
	last  time.Time
	moved int
}

func (d *deadlines) SetDeadline(t time.Time) error {
	d.last, d.moved = t, d.moved+1
	return nil
}

// TestLimit: at every request the deadline is between the timeout and a quarter more
// away, and it is moved rarely.
func TestLimit(t *testing.T) {
	const timeout, requests = time.Second, 10_000
	nc := &deadlines{}
	c := connection{nc: nc, clock: clock{time.Now()}, timeout: timeout}
	for n := range requests { // one a millisecond
		now := int64(n) * int64(time.Millisecond)
		if err := c.limit(now); err != nil {
			t.Fatal(err)
		}
		if left := nc.last.Sub(c.clock.time(now)); left < timeout || left > timeout*5/4 {
			t.Fatalf("request %d: %v left", n, left)
		}
	}
	if nc.moved > 50 {
		t.Errorf("moved %d times for %d requests", nc.moved, requests)
	}
}
