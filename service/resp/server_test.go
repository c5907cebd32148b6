package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/guard"
)

// Stop answers what has come, also a command that waits, and cuts one that waits too long
// without an ID.
func TestStopDrains(t *testing.T) {
	for _, patient := range []bool{true, false} {
		released := make(chan struct{})
		f := &fakes.Mode{Fail: func(ctx context.Context) error {
			select {
			case <-released:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		s, addr := start(t, f, nil)
		c := check.Dial(t, addr, encode("INCR", "snowflake")+encode("INCR", "snowflake")+"*2\r\n$4\r\nINC")
		idle := check.Dial(t, addr, "")
		for s.connections() < 2 || f.Counts().Calls == 0 {
			time.Sleep(time.Millisecond)
		}
		budget := 30 * time.Second
		if patient {
			time.AfterFunc(100*time.Millisecond, func() { close(released) })
		} else {
			budget = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		began := time.Now()
		check.OK(t, s.Stop(ctx))
		cancel()
		if time.Since(began) > 25*time.Second {
			t.Errorf("Stop took %v", time.Since(began))
		}
		got, _ := io.ReadAll(c)
		if patient && string(got) != ":1\r\n:2\r\n" || !patient && strings.Contains("\n"+string(got), "\n:") {
			t.Errorf("patient %v: %q", patient, got)
		}
		if n, err := idle.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("an idle connection is open: %d, %v", n, err)
		}
	}
}

// A connection without a required token, one that sends no command or half of one, and one whose client
// does not read, end; a large batch keeps its turn until then. Others continue.
func TestWhatIsSlowEnds(t *testing.T) {
	const limit = 500 * time.Millisecond
	require := guarded("a", "may: [snowflake]")
	fresh := guard.Limits{Most: 9, New: limit, Idle: time.Hour, Active: time.Hour}
	active := guard.Limits{Most: 9, New: time.Hour, Idle: time.Hour, Active: limit}
	large := strings.Repeat(encode("LPOP", "snowflake", "10000"), 60)
	for name, c := range map[string]struct {
		limits guard.Limits
		tokens bool
		sends  string
	}{
		"no token":               {fresh, true, encode("PING")},
		"half a command":         {fresh, false, encode("PING") + "*2\r\n$4\r\nECH"},
		"reads nothing of MULTI": {active, false, encode("MULTI") + large + encode("EXEC")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			g := guard.New(c.limits, slog.New(slog.DiscardHandler), registry)
			s, addr := startOn(t, g.Listen, &fakes.Mode{}, func(o *Options) {
				o.ConnState = g.SetState
				if c.tokens {
					require(o)
				}
			})
			began := time.Now()
			conn := check.Dial(t, addr, "")
			_ = conn.(*net.TCPConn).SetReadBuffer(4096)
			_, _ = io.WriteString(conn, c.sends)
			for s.nextID.Load() == 0 && time.Since(began) < 10*time.Second {
				time.Sleep(time.Millisecond)
			}
			for s.connections() > 0 && time.Since(began) < 10*time.Second {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(began); took < limit || took > 9*time.Second {
				t.Errorf("ended after %v", took)
			}
			values := check.Metrics(t, registry)
			check.Equal(t, values["shardid_connections_cut_total"], 1, "cut")
		})
	}
}

// A client that needs long to read a long pipeline is not taken for one that does not read, and one that is idle keeps
// its connection: libraries do not expect to lose it.
func TestWhoReadsStays(t *testing.T) {
	t.Parallel()
	const limit = 6 * time.Second
	limits := guard.Limits{Most: 9, New: limit, Idle: time.Millisecond, Active: limit}
	g := guard.New(limits, slog.New(slog.DiscardHandler), nil)
	_, addr := startOn(t, g.Listen, &fakes.Mode{}, func(o *Options) { o.ConnState = g.SetState })
	idle, c := check.Dial(t, addr, encode("PING")), check.Dial(t, addr, "")
	go func() { _, _ = io.WriteString(c, strings.Repeat(encode("LPOP", "snowflake", "10000"), 60)) }()
	for range 6 { // of some 7 MB
		if _, err := io.CopyN(io.Discard, c, 1<<20); err != nil {
			t.Fatal(err)
		}
		time.Sleep(limit / 4)
	}
	_, _ = io.WriteString(idle, encode("PING"))
	answers := make([]byte, 14)
	_, err := io.ReadFull(idle, answers)
	check.Must(t, err)
	check.Equal(t, string(answers), "+PONG\r\n+PONG\r\n")
}

// readAll gives the commands of a stream, as it is cut into readings by cut.
func readAll(stream []byte, cut func(io.Reader) io.Reader) (commands [][]string, err error) {
	r := reader{from: cut(bytes.NewReader(stream)), beforeRead: func() error { return nil }}
	for {
		args, err := r.next()
		if err != nil {
			return commands, err
		}
		var command []string
		for _, arg := range args {
			command = append(command, string(arg))
		}
		commands = append(commands, command)
	}
}

func whole(r io.Reader) io.Reader { return r }

// encode writes a command as clients do.
func encode(args ...string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return out.String()
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, test := range []struct {
		stream string
		want   [][]string
		err    string
	}{
		{"", nil, "EOF"},
		{encode("PING"), [][]string{{"PING"}}, "EOF"},
		{encodeAll("INCR uid|LPOP segment:a 7"), [][]string{{"INCR", "uid"}, {"LPOP", "segment:a", "7"}}, "EOF"},
		{encode("ECHO", "a\r\nb") + encode(""), [][]string{{"ECHO", "a\r\nb"}, {""}}, "EOF"},
		{encode("ECHO", long) + encode("ECHO", long), [][]string{{"ECHO", long}, {"ECHO", long}}, "EOF"},
		{"*1\r\n$4\r\nPIN", nil, "EOF"},
		{encode("PING") + "GET / HTTP/1.1\r\n", [][]string{{"PING"}}, "HTTP requests to server.addr"},
		{"INCR snowflake\r\n", nil, "as arrays"},
		{"*1\r\n:4\r\n", nil, "as arrays"},
		{"*0\r\n" + encode("PING") + "*00\r\n", [][]string{{"PING"}}, "EOF"},
		{"*65\r\n", nil, "a command may have"},
		{"*2000000000\r\n$1\r\n", nil, "a command may have"},
		{"*-1\r\n", nil, "not a number"},
		{"*\r\n", nil, "not a number"},
		{"*1\n", nil, "not a number"},
		{"*1\rx", nil, "not a number"},
		{"*1\r\n$-1\r\n", nil, "not a number"},
		{"*1\r\n$9223372036854775800\r\nab\r\n\r\n", nil, "a command may have"},
		{"*1\r\n$629145600\r\n", nil, "a command may have"},
		{"*1\r\n$4094\r\n", nil, "a command may have"},
		{"*1\r\n$2\r\nabc\r\n", nil, "does not end where"},
		{encode("ECHO", strings.Repeat("x", maxCommand)), nil, "a command may have"},
	} {
		for name, cut := range map[string]func(io.Reader) io.Reader{
			"whole": whole, "by bytes": iotest.OneByteReader, "by halves": iotest.HalfReader,
		} {
			got, err := readAll([]byte(test.stream), cut)
			if !slices.EqualFunc(got, test.want, slices.Equal) || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%.60q %s: %.100q, %v; want %.100q, %s", test.stream, name, got, err, test.want, test.err)
			}
		}
	}
}

// What clients have queued after MULTI is bounded over all of them, and counts until it is answered or given up.
func TestQueuedByAll(t *testing.T) {
	s, addr := start(t, &fakes.Mode{}, nil)
	queued := func(want int64) {
		t.Helper()
		check.Eventually(t, "what is queued", func() error {
			if n := s.queued.Load(); n != want {
				return fmt.Errorf("%d bytes, want %d", n, want)
			}
			return nil
		})
	}
	const queues = "MULTI|INCR snowflake|"
	exchange(t, addr, encodeAll(queues+"DISCARD|"+queues+"EXEC|"+queues+"RESET|"+queues+"QUIT"), 1<<20)
	queued(0)
	s.queued.Store(allQueued)
	check.Has(t, exchange(t, addr, encodeAll(queues+"EXEC|QUIT"), 1<<20), "of all clients")
	queued(allQueued)
}
