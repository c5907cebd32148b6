//go:build unix

package sqlstore

import (
	"context"
	"database/sql/driver"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestAnotherServer: another kind of server at the address of the database is an error that says
// what to correct.
func TestAnotherServer(t *testing.T) {
	for name, greeting := range map[string]string{
		"SSH":                    "SSH-2.0-OpenSSH_9.9\r\n",
		"a refusal in HTTP":      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"a refusal of Redis":     "-ERR unknown command\r\n",
		"a session of ZooKeeper": "\x00\x00\x00\x25" + strings.Repeat("\x00", 0x25),
		"an older protocol":      "\x08\x00\x00\x00\x09garbage",
		"no packet of MySQL's":   "\x08\x00\x00\x07\x0agarbage",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testserver.Fake(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, greeting)
				_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				_, _ = conn.Read(make([]byte, 4096))
			})
			for key, hosts := range map[string][]string{"database.dsn": nil, "database.hosts": {addr}} {
				s := open(t, Options{Driver: MySQL, DSN: "user:word@tcp(" + addr + ")/db", Hosts: hosts})
				for range 2 { // the pool goes on
					err := s.Check(t.Context())
					for _, word := range []string{"MySQL or MariaDB", key, addr} {
						wantAdvice(t, err, word)
					}
				}
			}
		})
	}
}

// panicking panics as the driver does on a greeting that lacks a part.
type panicking struct{ driver.Connector }

func (panicking) Connect(context.Context) (driver.Conn, error) { return nil, []error{}[len("ab")] }

// TestGreetingThatPanics: a panic of the driver on a greeting is such an error too.
func TestGreetingThatPanics(t *testing.T) {
	_, err := connector{panicking{}}.Connect(t.Context())
	check.Is(t, err, errUnreadable)
	s := open(t, Options{Driver: MySQL, DSN: "user:word@tcp(127.0.0.1:1)/db"})
	wantAdvice(t, s.explain("check", err), "correct database.dsn: what listens at 127.0.0.1:1 does not speak as MySQL or MariaDB do")
}
