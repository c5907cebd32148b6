package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/issuer"
)

// startSequences is start with the fake sequences that it serves.
func startSequences(t *testing.T, change func(*Options)) (f *fakes.Sequence, addr string) {
	t.Helper()
	_, addr = start(t, &fakes.Mode{}, func(o *Options) {
		f = o.Issuer.Sequence.(*fakes.Sequence)
		if change != nil {
			change(o)
		}
	})
	return f, addr
}

// What has come together is asked for in one call, and answered in order, also where an error or
// another command is between, in a transaction, and with the beginning of a command behind it.
func TestSequencePipelines(t *testing.T) {
	a, b := encode("INCR", "sequence:chat:a"), encode("INCR", "sequence:chat:b")
	end := encode("QUIT")
	for _, test := range []struct {
		name, text, want string
		calls            []int
	}{
		{"one key", strings.Repeat(a, 16) + end, counted(1, 16), []int{16}},
		{"two keys", a + b + a + encodeAll("INCRBY sequence:chat:b 5|GET sequence:chat:b") + a + end,
			":1\r\n:1\r\n:2\r\n:6\r\n$1\r\n6\r\n:3\r\n", []int{6}},
		{"another command", a + a + encodeAll("PING") + a + encodeAll("INCR snowflake") + a + end,
			":1\r\n:2\r\n+PONG\r\n:3\r\n:4\r\n:4\r\n", []int{2, 1, 1}},
		{"an error that is not asked for", a + encodeAll("INCRBY sequence:chat:a 0") + a + end,
			":1\r\n-SHARDID -6 ", []int{2}},
		{"an error of the space", a + encodeAll("INCR sequence:chat:bad") + a + end,
			":1\r\n-SHARDID -4 try again: no number of the sequence can be had for now\r\n:2\r\n", []int{3}},
		{"nothing to ask for", encode("INCR", "sequence:chat") + end, "-SHARDID -6 ", nil},
		{"a protocol error behind", a + a + "*1\r\n:1\r\n", ":1\r\n:2\r\n-ERR Protocol error: ", []int{2}},
		{"a transaction", encode("MULTI") + a + a + a + encode("EXEC") + end,
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n" + counted(1, 3), []int{3}},
		{"more than are gathered", encode("MULTI") + strings.Repeat(a, maxGathered+1) + encode("EXEC") + end, "",
			[]int{maxGathered, 1}},
	} {
		f, addr := startSequences(t, nil)
		got := exchange(t, addr, test.text, 1<<20)
		if !strings.HasPrefix(got, test.want) || !slices.Equal(f.Sizes, test.calls) {
			t.Errorf("%s: %q after %v, want %q after %v", test.name, got, f.Sizes, test.want, test.calls)
		}
	}
}

// counted are the answers to INCR from first to last.
func counted(first, last int) string {
	var text strings.Builder
	for n := first; n <= last; n++ {
		fmt.Fprintf(&text, ":%d\r\n", n)
	}
	return text.String()
}

// A command that has only begun holds up none of those before it.
func TestSequenceBeforeTheRestOfACommand(t *testing.T) {
	f, addr := startSequences(t, nil)
	a := encode("INCR", "sequence:chat:a")
	c := dial(t, addr, a+a+a[:len(a)-3])
	for _, want := range []string{counted(1, 2), counted(3, 4)} {
		got := make([]byte, len(want))
		check.Must(t, check.Err(io.ReadFull(c, got)))
		check.Equal(t, string(got), want)
		_, _ = io.WriteString(c, a[len(a)-3:]+a)
	}
	check.Equal(t, f.Sizes[0], 2, "at first")
}

// A panic ends its connection, and what was gathered on it is nobody else's.
func TestSequencesOfAPanicAreForgotten(t *testing.T) {
	s, addr := start(t, &fakes.Mode{}, func(o *Options) { o.Issuer.Sequence = panics{o.Issuer.Sequence} })
	exchange(t, addr, strings.Repeat(encode("INCR", "sequence:chat:panic"), 3), 1<<20)
	work := s.scratch.Get().(*scratch)
	check.Equal(t, len(work.gathered.commands)+len(work.gathered.asks), 0, "left")
	check.Equal(t, exchange(t, addr, encode("INCR", "sequence:chat:a")+encode("QUIT"), 1<<20), ":1\r\n+OK\r\n")
}

type panics struct{ issuer.Sequence }

func (p panics) Ask(ctx context.Context, asks []*model.SequenceAsk) {
	if asks[0].Key == "panic" {
		panic("boom")
	}
	p.Sequence.Ask(ctx, asks)
}

// FuzzSequence: a stream of commands is answered the same however it is cut, and the numbers of
// each key are those that were asked for.
func FuzzSequence(f *testing.F) {
	f.Add([]byte(encodeAll("INCR sequence:chat:a|GET sequence:chat:a") +
		encode("INCRBY", "sequence:chat:\x00\r\n", "7")))
	f.Add([]byte(encodeAll("MULTI|INCR sequence:chat:a|PING|EXEC|INCR sequence::") + "*2\r\n$4\r\nINC"))
	f.Add([]byte(encodeAll("INCR sequence:chat:bad|INCRBY sequence:chat:a 10001|INCR snowflake")))
	f.Add([]byte(encode("MULTI") + strings.Repeat(encode("INCR", "sequence:chat:a"), 300) + encode("EXEC")))
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, counted := replay(stream, func(r io.Reader) io.Reader { return r })
		cut, again := replay(stream, iotest.OneByteReader)
		if whole != cut || !maps.Equal(counted, again) {
			t.Fatalf("%q: at once %q, %v\nby bytes %q, %v", stream, whole, counted, cut, again)
		}
	})
}

// replay gives the answers to a stream, and how far each key came.
func replay(stream []byte, cut func(io.Reader) io.Reader) (answers string, of map[[2]string]int64) {
	sequences := &fakes.Sequence{Mode: &fakes.Mode{}}
	modes := &issuer.Issuer{Snowflake: fakes.Generator{Mode: &fakes.Mode{}}, Sequence: sequences}
	s := New(Options{Issuer: modes, Version: "1"})
	peer := &taped{Conn: &endless{}, in: cut(bytes.NewReader(stream))}
	c := &conn{Conn: peer, server: s}
	c.in.from, c.in.beforeRead = c.Conn, c.beforeRead
	c.serve()
	s.cancel()
	return peer.out.String(), sequences.Last
}

// taped reads from in, and keeps what is written.
type taped struct {
	net.Conn
	in  io.Reader
	out strings.Builder
}

func (t *taped) Read(b []byte) (int, error)  { return t.in.Read(b) }
func (t *taped) Write(b []byte) (int, error) { return t.out.Write(b) }
