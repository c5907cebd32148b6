//go:build unix

package sqlstore

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"shardid/repository/framing"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// piece is a packet of MySQL.
func piece(number byte, content string) string {
	n := len(content)
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), number}) + content
}

const (
	okContent     = "\x00\x00\x00\x02\x00\x00\x00"
	greetsContent = "\x0a8.0.0\x00\x01\x00\x00\x00saltsalt\x00\xff\xf7\x08\x02\x00\xff\x81\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00saltsaltsalt\x00mysql_native_password\x00"
	aColumn       = "\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
)

// hostileMySQL greets, lets anyone in, and answers statements with answer, and again and again
// with more.
func hostileMySQL(t *testing.T, greeting, admitted, answer, more string) string {
	return testserver.Hostile(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, greeting)
		answerStatements(conn, admitted, answer, more)
	})
}

func answerStatements(conn net.Conn, admitted, answer, more string) {
	packet := func() (content []byte, err error) {
		head := make([]byte, 4)
		if _, err = io.ReadFull(conn, head); err == nil {
			content = make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
			_, err = io.ReadFull(conn, content)
		}
		return content, err
	}
	if _, err := packet(); err != nil {
		return
	}
	_, _ = io.WriteString(conn, admitted)
	for {
		statement, err := packet()
		if err != nil {
			return
		}
		if strings.Contains(string(statement), "SET ") {
			_, _ = io.WriteString(conn, piece(1, okContent))
			continue
		}
		_, _ = io.WriteString(conn, answer)
		for sent := 0; more != "" && sent < 400<<20; sent += len(more) {
			if _, err := io.WriteString(conn, more); err != nil {
				return
			}
		}
	}
}

// A server that sends what no MySQL does costs little and ends nothing, and the error says what
// it sent: also where the driver panics.
func TestHostileServer(t *testing.T) {
	greeting, admitted := piece(0, greetsContent), piece(2, okContent)
	rows := piece(1, "\x01") + piece(2, aColumn)
	large := "\xff\xff\xff" // the length of a packet that another one goes on
	full := strings.Repeat("x", 1<<24-1)
	for name, c := range map[string]struct{ greeting, admitted, answer, more, why string }{
		"a large greeting":    {greeting: large + "\x00" + full, why: "announced a packet of 16777215 bytes"},
		"another protocol":    {greeting: "SSH-2.0-OpenSSH_9.2\r\n", why: "announced a packet of"},
		"a short greeting":    {greeting: piece(0, greetsContent[:30]), why: "none of MySQL's"},
		"a large admission":   {greeting: greeting, admitted: large + "\x02" + full, why: "announced a packet of 16777215 bytes"},
		"a short admission":   {greeting: greeting, admitted: piece(2, "\x00"), why: "none of MySQL's"},
		"packets without end": {greeting, admitted, large + "\x01" + full, large + "\x02" + full, "announced a packet of 16777215 bytes"},
		"columns":             {greeting, admitted, piece(1, "\xfe\x00\x94\x35\x77\x00\x00\x00\x00"), "", "announced 2000000000 columns"},
		"a short answer":      {greeting, admitted, piece(1, "\x00\x00"), "", "none of MySQL's"},
		"a short column":      {greeting, admitted, piece(1, "\x01") + piece(2, "\x03def\x00\x00\x00\x01a\x00"), "", "cannot be read"},
		"a short end":         {greeting, admitted, rows + piece(3, "\xfe"), "", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := hostileMySQL(t, c.greeting, c.admitted, c.answer, c.more)
			s := open(t, Options{Driver: MySQL, DSN: "user:word@tcp(" + bad + ")/db"})
			for range 3 { // the pool goes on
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := s.Check(t.Context())
				runtime.ReadMemStats(&after)
				if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 64+2*16 { // the server's own, of a string, are in it
					t.Errorf("it cost %d MB", mb)
				}
				var refused *framing.RefusedError
				if err == nil || !strings.Contains(err.Error(), c.why) || !errors.As(err, &refused) && !errors.Is(err, errUnreadable) {
					t.Fatal(err)
				}
				for _, word := range []string{"what listens at " + bad, "correct database.dsn"} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q is not in: %v", word, err)
					}
				}
			}
		})
	}
}

// Rows without end are refused, with what was read of them; what follows is read again.
func TestHostileRows(t *testing.T) {
	for name, row := range map[string]string{"small": "\x01x", "large": "\xfd\x00\x00\x0f" + strings.Repeat("x", 0xf0000)} {
		t.Run(name, func(t *testing.T) {
			number := byte(2)
			var some strings.Builder
			for some.Len() < 1<<20 || number != 2 { // so that the numbers go on when it is repeated
				number++
				some.WriteString(piece(number, row))
			}
			bad := hostileMySQL(t, piece(0, greetsContent), piece(2, okContent), piece(1, "\x01")+piece(2, aColumn), some.String())
			cfg, err := parseDSN("user:word@tcp(" + bad + ")/db")
			check.Must(t, err)
			db, err := openPool(cfg, nil)
			check.Must(t, err)
			defer func() { check.OK(t, db.Close()) }()
			rows, err := db.QueryContext(t.Context(), "SELECT a")
			check.Must(t, err)
			defer rows.Close()
			got := 0
			for rows.Next() {
				got++
			}
			var refused *framing.RefusedError
			if err := rows.Err(); !errors.As(err, &refused) || got == 0 || got > 1<<16 {
				t.Errorf("%d rows, %v", got, err)
			}
		})
	}
}

// Over TLS packets are followed where they are decrypted.
func TestHostileServerOverTLS(t *testing.T) {
	with := httptest.NewTLSServer(nil) // for its certificate
	defer with.Close()
	bad := testserver.Hostile(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, piece(0, strings.Replace(greetsContent, "\xff\xf7", "\xff\xff", 1)))
		_, _ = io.ReadFull(conn, make([]byte, 36)) // the wish for TLS
		answerStatements(tls.Server(conn, with.TLS), piece(3, okContent), piece(1, "\xfe\x00\x94\x35\x77\x00\x00\x00\x00"), "")
	})
	s := open(t, Options{Driver: MySQL, DSN: "user:word@tcp(" + bad + ")/db", TLS: with.Client().Transport.(*http.Transport).TLSClientConfig})
	err := s.Check(t.Context())
	var refused *framing.RefusedError
	if !errors.As(err, &refused) || refused.Addr != bad || !strings.Contains(err.Error(), "announced 2000000000 columns") {
		t.Error(err)
	}
}
