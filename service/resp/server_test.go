package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/unsent"
)

// Stop answers what has come, also a command that waits, and cuts one that waits too long
// without an ID.
func TestStopDrains(t *testing.T) {
	for _, patient := range []bool{true, false} {
		f := &fake{wait: make(chan struct{})}
		s, addr := start(t, f, nil)
		c := dial(t, addr, encode("INCR", "snowflake")+encode("INCR", "snowflake")+"*2\r\n$4\r\nINC")
		idle := dial(t, addr, "")
		for s.connections() < 2 || f.calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		budget := 5 * time.Second
		if patient {
			time.AfterFunc(100*time.Millisecond, func() { close(f.wait) })
		} else {
			budget = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		began := time.Now()
		check.OK(t, s.Stop(ctx))
		cancel()
		if time.Since(began) > 4*time.Second {
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

// A pipeline of a hundred thousand is answered in order.
func TestLongPipeline(t *testing.T) {
	_, addr := start(t, &fake{}, nil)
	c := dial(t, addr, "")
	const n = 100_000
	go func() { _, _ = io.WriteString(c, strings.Repeat(encode("INCR", "snowflake"), n)) }()
	in := bufio.NewReader(c)
	for i := range n {
		line, err := in.ReadString('\n')
		if err != nil || line != fmt.Sprintf(":%d\r\n", i+1) {
			t.Fatalf("answer %d: %q, %v", i+1, line, err)
		}
	}
}

// A client whose certificate is not trusted any more gets an error for its next command, and
// nothing that it sent with it is answered.
func TestClientIsNotTrustedAnyMore(t *testing.T) {
	asked := 0
	f := &fake{}
	_, addr := start(t, f, func(o *Options) {
		o.CheckClient = func(net.Conn) func() error {
			return func() error {
				if asked++; asked > 2 {
					return errors.New("the certificate is not trusted any more")
				}
				return nil
			}
		}
	})
	got := exchange(t, addr, strings.Repeat(encode("INCR", "snowflake"), 4), 1<<20)
	if want := ":1\r\n:2\r\n-SHARDID -7 the certificate is not trusted any more\r\n"; got != want || f.calls.Load() != 2 {
		t.Errorf("%q after %d calls, want %q", got, f.calls.Load(), want)
	}
}

// A command that has begun must come to its end in time, wherever it stops: also one byte
// before the end of what is read at once. A client that sends none may wait.
func TestTheRestOfACommandIsAwaitedForAWhile(t *testing.T) {
	_, addr := start(t, &fake{}, func(o *Options) { o.CommandTimeout = 200 * time.Millisecond })
	whole := encode("ECHO", strings.Repeat("x", maxCommand-len(encode("ECHO", strings.Repeat("x", 4000)))+4000))
	if len(whole) != maxCommand {
		t.Fatal(len(whole))
	}
	idle := readable(dial(t, addr, ""))
	for _, n := range []int{1, 20, maxCommand - 1} {
		began := time.Now()
		said, err := io.ReadAll(dial(t, addr, encode("PING")+whole[:n]))
		if want := "+PONG\r\n-ERR the rest of a command did not come in time\r\n"; err != nil || string(said) != want || time.Since(began) > 5*time.Second {
			t.Errorf("%d bytes: %q, %v after %v", n, said, err, time.Since(began))
		}
	}
	select {
	case <-idle:
		t.Error("a client without a command was ended")
	default:
	}
	// Each command has the whole time, also when its beginning comes with the end of another.
	c := dial(t, addr, "")
	const commands, part = 5, 10
	for text := strings.Repeat(encode("PING"), commands); text != ""; text = text[part:] {
		_, _ = io.WriteString(c, text[:part])
		time.Sleep(70 * time.Millisecond)
	}
	in := bufio.NewReader(c)
	for range commands {
		if line, err := in.ReadString('\n'); line != "+PONG\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

// readable tells that something, or the end, can be read.
func readable(in io.Reader) chan struct{} {
	c := make(chan struct{})
	go func() {
		_, _ = in.Read(make([]byte, 1))
		close(c)
	}()
	return c
}

// Where tokens are required, a connection without one ends, whatever it sends.
func TestStrangersEnd(t *testing.T) {
	const limit = 300 * time.Millisecond
	require := guarded(t, [2]string{"a-token-0123456789", "modes: [uid]"})
	s, addr := start(t, &fake{}, func(o *Options) { require(o); o.TokenTimeout = limit })
	c := dial(t, addr, encode("AUTH", "a-token-0123456789"))
	if line, _ := bufio.NewReader(io.LimitReader(c, 5)).ReadString('\n'); line != "+OK\r\n" {
		t.Fatal(line)
	}
	known := readable(c)
	for _, text := range []string{"", "*", encode("PING"), encode("AUTH", "wrong"), encode("INCR", "uid")} {
		began := time.Now()
		said, err := io.ReadAll(dial(t, addr, text))
		took := time.Since(began)
		if err != nil || !strings.HasSuffix(string(said), "-NOAUTH -7 no valid token came in time: send AUTH with a token first\r\n") || took < limit || took > 20*limit {
			t.Errorf("%q: %q, %v after %v", text, said, err, took)
		}
	}
	check.Equal(t, s.Strangers(), 5, "strangers")
	select {
	case <-known:
		t.Error("a client with a token was ended")
	default:
	}
}

// A large answer goes out in pieces, is whole, and holds little.
func TestPieces(t *testing.T) {
	_, addr := start(t, &fake{}, nil)
	want := bytes.NewBuffer(appendArray(nil, model.MaxBatch))
	ids := make([]int64, model.MaxBatch)
	for i := range ids {
		ids[i] = int64(i + 2)
	}
	want.Write(appendIDs(nil, ids, model.Dec))
	text := encode("INCR", "snowflake") + encode("LPOP", "snowflake", "10000") + encode("QUIT")
	if got := exchange(t, addr, text, 1<<20); got != ":1\r\n"+want.String()+"+OK\r\n" {
		t.Errorf("%d bytes: %.60q… %.60q, want %d", len(got), got, got[max(0, len(got)-60):], want.Len()+9)
	}
}

// Of clients that do not read, those that wait longest are ended for others, which are served.
func TestClientsThatDoNotReadGiveWay(t *testing.T) {
	const most = 1 << 20
	budget := unsent.New(most)
	s, addr := start(t, &fake{}, func(o *Options) { o.Unsent = budget })
	var all sync.WaitGroup
	for i := range 40 {
		c := dial(t, addr, "")
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		all.Go(func() {
			text := strings.Repeat(encode("LPOP", "snowflake", "10000"), 60)
			if i%2 == 0 {
				text = encode("MULTI") + text + encode("EXEC")
			}
			_, _ = io.WriteString(c, text)
		})
	}
	all.Wait()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		held, cut := budget.Held()
		if held > most {
			t.Fatalf("%d bytes held", held)
		}
		if cut > 20 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes held, %d cut, %d connections", held, cut, s.connections())
		}
	}
	if got := exchange(t, addr, encode("LPOP", "snowflake", "10000")+encode("QUIT"), 1<<20); !strings.HasSuffix(got, "+OK\r\n") {
		t.Errorf("%d bytes", len(got))
	}
}
