//go:build unix

package zkstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/repository/framing"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/go-zookeeper/zk"
)

// words is a packet of ZooKeeper of 32-bit numbers and what follows them.
func words(rest string, values ...uint32) []byte {
	b := make([]byte, 4)
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, rest...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// A server that sends what no ZooKeeper does costs little, ends nothing, and the error says what
// it sent. The library allocates what is announced, and panics, in a goroutine of its own.
func TestHostileServer(t *testing.T) {
	session := words(strings.Repeat("p", 16), 0, 10_000, 0, 7, 16)
	const request = 1 // the first
	for name, c := range map[string]struct {
		opening, answer []byte
		why             string
	}{
		"all ones":           {opening: []byte("\xff\xff\xff\xff"), why: "announced 4294967295 bytes; no answer to shardid has more than 128"},
		"no timeout":         {opening: words("", 0, 0, 0, 7, 0), why: "no answer of ZooKeeper"},
		"a long password":    {opening: words("", 0, 10_000, 0, 7, 1<<31-1), why: "no answer of ZooKeeper"},
		"another protocol":   {opening: []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), why: "bytes; no answer"},
		"a long packet":      {opening: session, answer: []byte("\x7f\xff\xff\xff"), why: "announced 2147483647 bytes; no answer to shardid has more than 1048576"},
		"a short packet":     {opening: session, answer: words("", 1), why: "an answer has 16 at least"},
		"long data":          {opening: session, answer: words("", request, 0, 9, 0, 1<<31-1), why: "no answer of ZooKeeper"},
		"a short answer":     {opening: session, answer: words("", request, 0, 9, 0), why: "no answer of ZooKeeper"},
		"a greeting of none": {opening: words(""), why: "a packet of 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := testserver.Hostile(t, func(conn net.Conn) {
				opened := make([]byte, 48)
				if _, err := io.ReadFull(conn, opened[:4]); err != nil {
					return
				}
				_, _ = io.ReadFull(conn, opened[:binary.BigEndian.Uint32(opened)])
				_, _ = conn.Write(c.opening)
				if c.answer != nil {
					if _, err := io.ReadFull(conn, opened[:12]); err != nil {
						return
					}
					answer := slices.Clone(c.answer) // connections share it
					copy(answer[4:], opened[4:8])    // of the request that came
					_, _ = conn.Write(answer)
				}
				_, _ = io.Copy(io.Discard, conn)
			})
			s, err := zkstore.New(zkstore.Options{Mode: zkstore.ModeForever, Addrs: []string{bad}, Name: "hostile"})
			check.Must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = s.Check(ctx)
			runtime.ReadMemStats(&after)
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 64 {
				t.Errorf("it cost %d MB", mb)
			}
			var refused *framing.RefusedError
			if !errors.As(err, &refused) || refused.Addr != bad || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v", err)
			} else {
				wantAdvice(t, err, "what listens at "+bad, "correct zookeeper.addrs")
			}
			check.OK(t, s.Close())
		})
	}
}

// TestWhyAConnectionBroke: a caller whose connection broke hears why, even if another one is open by
// the time that the library tells him.
func TestWhyAConnectionBroke(t *testing.T) {
	why := errors.New("a packet of 2 GB")
	for name, c := range map[string]struct {
		err      error
		troubles []error
		told     bool
	}{
		"no connection yet":            {zk.ErrConnectionClosed, nil, false},
		"still broken":                 {zk.ErrConnectionClosed, []error{nil, why}, true},
		"another one is open":          {zk.ErrConnectionClosed, []error{nil, why, nil}, true},
		"no server answers":            {zk.ErrNoServer, []error{nil, why}, true},
		"it has nothing to do with it": {context.DeadlineExceeded, []error{nil, why, nil}, false},
		"nor has a refusal":            {zk.ErrNoAuth, []error{nil, why}, false},
	} {
		err := zkstore.Because(c.err, c.troubles...)
		if !errors.Is(err, c.err) || errors.Is(err, why) != c.told {
			t.Errorf("%s: %v", name, err)
		}
	}
}
