package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"
	"shardid/service/issuer"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// startSequences is start with the fake sequences that it serves.
func startSequences(t *testing.T, change func(*Options)) (f *fakeSequence, addr string) {
	t.Helper()
	_, addr = start(t, &fake{}, func(o *Options) {
		f = o.Issuer.Sequence.(*fakeSequence)
		if change != nil {
			change(o)
		}
	})
	return f, addr
}

func TestSequences(t *testing.T) {
	const (
		counts = "-SHARDID -6 invalid argument: INCRBY of a sequence takes a whole number in 1…10000, not "
		keys   = "-SHARDID -6 invalid argument: a key has 1…256 bytes, not "
		other  = "-SHARDID -6 invalid argument: a sequence takes INCR sequence:<space>:<key>, or INCRBY with how many numbers, and has no formats\r\n"
		only   = "-SHARDID -6 GET says how far a sequence has come, by sequence:<space>:<key>: INCR, LPOP and RPOP issue IDs\r\n"
	)
	a := "sequence:chat:a"
	for _, test := range []struct {
		commands [][]string
		want     string
	}{
		{[][]string{{"GET", a}, {"INCR", a}, {"incrby", a, "10"}, {"INCR", a}, {"get", a}, {"INCR", "sequence:feed:a"}}, "$1\r\n0\r\n:1\r\n:11\r\n:12\r\n$2\r\n12\r\n:1\r\n"},
		{[][]string{{"INCRBY", a, "1"}, {"INCRBY", a, "10000"}}, ":1\r\n:10001\r\n"},
		{[][]string{{"INCRBY", a, "0"}, {"INCRBY", a, "-1"}, {"INCRBY", a, "10001"}, {"INCRBY", a, ""}, {"INCRBY", a, "x"}, {"INCRBY", a, "+1"}, {"GET", a}},
			counts + "\"0\"\r\n" + counts + "\"-1\"\r\n" + counts + "\"10001\"\r\n" + counts + "\"\"\r\n" + counts + "\"x\"\r\n" + counts + "\"+1\"\r\n$1\r\n0\r\n"},
		{[][]string{{"INCR", "sequence:chat:"}, {"GET", "sequence:chat:" + strings.Repeat("k", 257)}, {"INCR", "sequence:chat:" + strings.Repeat("k", 256)}}, keys + "0\r\n" + keys + "257\r\n:1\r\n"},
		{[][]string{{"INCR", "sequence:chat"}, {"INCR", "sequence:"}}, "-SHARDID -6 invalid argument: \"sequence:chat\" is not sequence:<space>:<key>\r\n-SHARDID -6 "},
		{[][]string{{"INCR", "sequence"}}, other},
		{[][]string{{"INCR", "sequence::a"}, {"INCR", "sequence:a/b:a"}}, "-SHARDID -6 invalid argument: a space has 1…64 letters, digits, dots, hyphens and underscores\r\n-SHARDID -6 "},
		{[][]string{{"INCR", "sequence:x:a"}, {"INCR", a}}, "-SHARDID -2 space is not provisioned: \"x\"\r\n:1\r\n"},
		{[][]string{{"LPOP", a}, {"RPOP", a, "2"}, {"LPOP", "base62:" + a}, {"INCR", "base62:" + a}, {"INCRBY", "hex:padded:" + a, "1"}}, strings.Repeat(other, 5)},
		{[][]string{{"INCRBY", "base62:" + a, "2"}, {"INCRBY", a}, {"INCR", a, "2"}}, "-SHARDID -6 INCRBY takes a key and 1: for more IDs send LPOP with a count\r\n" +
			"-SHARDID -6 INCRBY takes a key and an increment: 1, and of a sequence how many numbers\r\n-SHARDID -6 invalid argument: INCR takes a key and nothing else\r\n"},
		{[][]string{{"GET", "snowflake"}, {"GET", "Sequence:chat:a"}, {"GET", "base62:" + a}, {"GET", a, "b"}}, only + only + only + "-SHARDID -6 wrong number of arguments, the command is: GET key\r\n"},
		{[][]string{{"COMMAND", "INFO", "get"}}, "*1\r\n*10\r\n$3\r\nget\r\n:2\r\n*1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"},
		{[][]string{{"MULTI"}, {"INCR", a}, {"INCR", a}, {"INCRBY", a, "3"}, {"PING"}, {"GET", a}, {"INCR", "sequence:x:a"}, {"EXEC"}, {"INCR", a}},
			"+OK\r\n" + strings.Repeat("+QUEUED\r\n", 6) + "*6\r\n:1\r\n:2\r\n:5\r\n+PONG\r\n$1\r\n5\r\n-SHARDID -2 space is not provisioned: \"x\" " +
				"(MULTI undoes nothing: the other commands are carried out, and IDs that you do not read are left out)\r\n:6\r\n"},
		{[][]string{{"MULTI"}, {"INCR", a}, {"DISCARD"}, {"INCR", a}, {"QUIT"}}, "+OK\r\n+QUEUED\r\n+OK\r\n:1\r\n+OK\r\n"},
	} {
		var text strings.Builder
		for _, command := range test.commands {
			text.WriteString(encode(command...))
		}
		_, addr := startSequences(t, nil)
		check.Equal(t, exchange(t, addr, text.String(), len(test.want)), test.want, test.commands)
	}
	_, addr := startSequences(t, func(o *Options) { o.Issuer.Sequence = nil })
	want := "-SHARDID -9 mode is disabled: set sequence.enabled to true and restart to use it\r\n"
	check.Equal(t, exchange(t, addr, encode("INCR", a)+encode("GET", a)+encode("QUIT"), 1<<20), want+want+"+OK\r\n")
}

// Any bytes are a key, and each counts on its own.
func TestSequenceKeys(t *testing.T) {
	f, addr := startSequences(t, nil)
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	keys := []string{"room42", "\x00", "a\nb", "a\r\n$1\r\nb", ":", "a:b:c", "%2F", "\xff\xfe", "群聊", " "}
	for round := range int64(3) {
		for _, key := range keys {
			check.Equal(t, c.Incr(t.Context(), "sequence:chat:"+key).Val(), round+1, key)
			check.Equal(t, c.Get(t.Context(), "sequence:chat:"+key).Val(), fmt.Sprint(round+1), key)
		}
	}
	check.Equal(t, len(f.of), len(keys), "keys")
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
		{"two keys", a + b + a + encode("INCRBY", "sequence:chat:b", "5") + encode("GET", "sequence:chat:b") + a + end, ":1\r\n:1\r\n:2\r\n:6\r\n$1\r\n6\r\n:3\r\n", []int{6}},
		{"another command", a + a + encode("PING") + a + encode("INCR", "snowflake") + a + end, ":1\r\n:2\r\n+PONG\r\n:3\r\n:4\r\n:4\r\n", []int{2, 1, 1}},
		{"an error that is not asked for", a + encode("INCRBY", "sequence:chat:a", "0") + a + end, ":1\r\n-SHARDID -6 ", []int{2}},
		{"an error of the space", a + encode("INCR", "sequence:chat:bad") + a + end, ":1\r\n-SHARDID -4 no number of the sequence can be had for now\r\n:2\r\n", []int{3}},
		{"nothing to ask for", encode("INCR", "sequence:chat") + end, "-SHARDID -6 ", nil},
		{"a protocol error behind", a + a + "*1\r\n:1\r\n", ":1\r\n:2\r\n-ERR Protocol error: ", []int{2}},
		{"a transaction", encode("MULTI") + a + a + a + encode("EXEC") + end, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n" + counted(1, 3), []int{3}},
		{"more than are gathered", encode("MULTI") + strings.Repeat(a, maxGathered+1) + encode("EXEC") + end, "", []int{maxGathered, 1}},
	} {
		f, addr := startSequences(t, nil)
		got := exchange(t, addr, test.text, 1<<20)
		if !strings.HasPrefix(got, test.want) || !slices.Equal(f.calls, test.calls) {
			t.Errorf("%s: %q after %v, want %q after %v", test.name, got, f.calls, test.want, test.calls)
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
	check.Equal(t, f.calls[0], 2, "at first")
}

// A pipeline after answers that are many bytes loses nothing, and neither does one whose answers are.
func TestSequencesBesideLargeAnswers(t *testing.T) {
	_, addr := startSequences(t, nil)
	echo := strings.Repeat("e", 3000)
	part := encode("INCR", "sequence:chat:a") + encode("ECHO", echo) + encode("GET", "sequence:chat:a") + encode("INCR", "sequence:chat:"+strings.Repeat("k", 257))
	var want strings.Builder
	for n := range 50 {
		fmt.Fprintf(&want, ":%d\r\n$3000\r\n%s\r\n$%d\r\n%d\r\n-SHARDID -6 invalid argument: a key has 1…256 bytes, not 257\r\n", n+1, echo, len(fmt.Sprint(n+1)), n+1)
	}
	got := exchange(t, addr, strings.Repeat(part, 50)+encode("QUIT"), 1<<20)
	if got != want.String()+"+OK\r\n" {
		t.Errorf("%d bytes, want %d: %.80q", len(got), want.Len()+5, got)
	}
	bad := strings.Repeat(encode("INCR", "sequence:chat:bad"), 4000)
	got = exchange(t, addr, encode("MULTI")+bad+encode("EXEC")+encode("INCR", "sequence:chat:b")+encode("QUIT"), 1<<22)
	if strings.Count(got, "\r\n-SHARDID -4 ") != 4000 || !strings.HasSuffix(got, "\r\n:1\r\n+OK\r\n") {
		t.Errorf("%d bytes, %d errors", len(got), strings.Count(got, "-SHARDID -4 "))
	}
}

// A panic ends its connection, and what was gathered on it is nobody else's.
func TestSequencesOfAPanicAreForgotten(t *testing.T) {
	s, addr := start(t, &fake{}, func(o *Options) { o.Issuer.Sequence = panics{o.Issuer.Sequence} })
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

// Each command is told of and has its span and its code, and its key is shown without what may name
// a person, and with a space only where that is known.
func TestSequencesAreObserved(t *testing.T) {
	var told []issuer.Command
	var ends []int
	traced, registry := 0, prometheus.NewRegistry()
	_, addr := startSequences(t, func(o *Options) {
		o.Issuer.Traffic = issuer.NewTraffic(registry, access.Sequence)
		o.KnownSpace = func(space string) bool { return space == "chat" }
		o.Observe = func(c issuer.Command) { c.Took, c.Key = 0, bytes.Clone(c.Key); told = append(told, c) }
		o.Trace = func(ctx context.Context, _, mode string) (context.Context, string, func(int)) {
			check.Equal(t, mode, "sequence")
			traced++
			return ctx, fmt.Sprint("trace ", traced), func(code int) { ends = append(ends, code) }
		}
	})
	exchange(t, addr, encode("INCR", "sequence:chat:alice")+encode("INCRBY", "sequence:feed:13800000000", "7")+encode("GET", "sequence:chat:a:b")+
		encode("INCR", "sequence:chat:bad")+encode("INCR", "sequence:x:bob")+encode("INCR", "sequence:13800000000")+encode("LPOP", "sequence:chat:carol")+encode("QUIT"), 1<<20)
	want := []issuer.Command{
		{Name: "INCR", Key: []byte("sequence:chat"), Count: 1, TraceID: "trace 1"},
		{Name: "INCRBY", Key: []byte("sequence:feed"), Count: 7, TraceID: "trace 2"},
		{Name: "GET", Key: []byte("sequence:chat"), TraceID: "trace 3"},
		{Name: "INCR", Key: []byte("sequence:chat"), Count: 1, Code: -4, TraceID: "trace 4"},
		{Name: "INCR", Key: []byte("sequence:(hidden)"), Count: 1, Code: -2, TraceID: "trace 5"},
		{Name: "INCR", Key: []byte("sequence:(hidden)"), Count: 1, Code: -6, TraceID: "trace 6"},
		{Name: "LPOP", Key: []byte("sequence:(hidden)"), Count: 1, Code: -6, TraceID: "trace 7"},
	}
	if !reflect.DeepEqual(told, want) {
		t.Errorf("told %+v", told)
	}
	check.Equal(t, fmt.Sprint(ends), "[0 0 0 -4 -2 -6 -6]", "spans")
	values, err := metric.Values(registry)
	check.Must(t, err)
	for outcome, want := range map[string]float64{"ok": 3, "failed": 1, "refused": 3} {
		check.Equal(t, values[`shardid_request_duration_seconds_count{outcome="`+outcome+`"}`], want, outcome)
	}
}

func TestSequencesOfTokens(t *testing.T) {
	_, addr := startSequences(t, guarded(t, [2]string{"chats-token-000001", "may: ['sequence:chat'], ids_per_second: 10"}, [2]string{"times-token-000001", "may: [snowflake]"},
		[2]string{"slow-token-0000001", "may: ['sequence:*'], rate: 2"}))
	for token, want := range map[string][]string{
		"":                   {"-NOAUTH -7 no valid token: send AUTH with a token first", "-NOAUTH -7 ", "-NOAUTH -7 ", "-NOAUTH -7 "},
		"chats-token-000001": {":9", "-SHARDID -7 not allowed: token chats may not have numbers of the space \"feed\"", "-SHARDID -12 too many requests: the quota ids_per_second: 10 of token chats has 1 left", "$1", "9"},
		"times-token-000001": {"-SHARDID -7 not allowed: token times may not have IDs of the mode sequence", "-SHARDID -7 ", "-SHARDID -7 ", "-SHARDID -7 "},
		"slow-token-0000001": {":9", ":1", "-SHARDID -12 too many requests: the rate", "-SHARDID -12 "},
	} {
		key := "sequence:chat:" + token
		text := encode("INCRBY", key, "9") + encode("INCR", "sequence:feed:"+token) + encode("INCRBY", key, "2") + encode("GET", key) + encode("QUIT")
		if token != "" {
			text = encode("AUTH", token) + text
		}
		got := strings.Split(strings.TrimPrefix(exchange(t, addr, text, 1<<20), "+OK\r\n"), "\r\n")
		if !slices.EqualFunc(got[:min(len(got), len(want))], want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", token, got, want)
		}
	}
}

// FuzzSequence: a stream of commands is answered the same however it is cut, and the numbers of
// each key are those that were asked for.
func FuzzSequence(f *testing.F) {
	f.Add([]byte(encode("INCR", "sequence:chat:a") + encode("INCRBY", "sequence:chat:\x00\r\n", "7") + encode("GET", "sequence:chat:a")))
	f.Add([]byte(encode("MULTI") + encode("INCR", "sequence:chat:a") + encode("PING") + encode("EXEC") + encode("INCR", "sequence::") + "*2\r\n$4\r\nINC"))
	f.Add([]byte(encode("INCR", "sequence:chat:bad") + encode("INCRBY", "sequence:chat:a", "10001") + encode("INCR", "snowflake") + "PING\r\n"))
	f.Add([]byte(encode("MULTI") + strings.Repeat(encode("INCR", "sequence:chat:a"), 300) + encode("EXEC")))
	f.Fuzz(func(t *testing.T, stream []byte) {
		if bytes.Contains(bytes.ToUpper(stream), []byte("TIME")) || bytes.Contains(bytes.ToUpper(stream), []byte("COMMAND")) || bytes.Contains(bytes.ToUpper(stream), []byte("AGE")) {
			return // whose answers differ each time
		}
		whole, counted := replay(stream, func(r io.Reader) io.Reader { return r })
		cut, again := replay(stream, iotest.OneByteReader)
		if whole != cut || !maps.Equal(counted, again) {
			t.Fatalf("%q: at once %q, %v\nby bytes %q, %v", stream, whole, counted, cut, again)
		}
	})
}

// replay gives the answers to a stream, and how far each key came.
func replay(stream []byte, cut func(io.Reader) io.Reader) (answers string, of map[[2]string]int64) {
	sequences := newFakeSequence(&fake{})
	s := New(Options{Issuer: &issuer.Issuer{Snowflake: fakeGenerator{&fake{}}, Sequence: sequences}, Version: "1"})
	peer := &taped{Conn: &endless{}, in: cut(bytes.NewReader(stream))}
	c := &conn{Conn: peer, server: s}
	c.in.from, c.in.beforeRead = c.Conn, c.beforeRead
	c.serve()
	s.cancel()
	return peer.out.String(), sequences.of
}

// taped reads from in, and keeps what is written.
type taped struct {
	net.Conn
	in  io.Reader
	out strings.Builder
}

func (t *taped) Read(b []byte) (int, error)  { return t.in.Read(b) }
func (t *taped) Write(b []byte) (int, error) { return t.out.Write(b) }
