package resp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"
	"shardid/service/issuer"
	"shardid/service/unsent"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake issues 1, 2, 3… for every mode, or fails.
type fake struct {
	last  atomic.Int64
	calls atomic.Int64 // that have begun
	err   atomic.Pointer[error]
	wait  chan struct{} // nil: do not wait
}

func (f *fake) take(ctx context.Context, count int, dst []int64) ([]int64, error) {
	f.calls.Add(1)
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
	if err := f.err.Load(); err != nil {
		return dst, *err
	}
	for last := f.last.Add(int64(count)); count > 0; count-- {
		dst = append(dst, last-int64(count)+1)
	}
	return dst, nil
}

type fakeQueue struct{ *fake }

func (f fakeQueue) Next(ctx context.Context, _ int, gatePass string, count int, dst []int64) ([]int64, error) {
	if err := model.CheckGatePass(gatePass); err != nil {
		return dst, err
	}
	return f.take(ctx, count, dst)
}

type fakeSegment struct{ *fake }

// Numbers issues the texts of a tag with a pattern.
func (f fakeSegment) Numbers(ctx context.Context, _ string, count int, dst []string) ([]string, error) {
	ids, err := f.take(ctx, count, nil)
	for _, id := range ids {
		dst = append(dst, fmt.Sprintf("no %d", id))
	}
	return dst, err
}

func (f fakeSegment) Next(ctx context.Context, tag string, count int, dst []int64) ([]int64, error) {
	if tag == "numbers" {
		return dst, model.ErrPattern
	}
	return f.take(ctx, count, dst)
}

// Run has no command.
func (f fakeSegment) Run(context.Context, string) (first, last int64, err error) {
	panic("a run was asked for")
}

type fakeGenerator struct{ *fake }

func (f fakeGenerator) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	return f.take(ctx, count, dst)
}

func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// start serves f until the test ends; change sets options.
func start(t *testing.T, f *fake, change func(*Options)) (s *Server, addr string) {
	t.Helper()
	opts := Options{
		Issuer: &issuer.Issuer{Queue: fakeQueue{f}, Segment: fakeSegment{f}, Snowflake: fakeGenerator{f}},
		Log:    slog.New(slog.DiscardHandler), Version: "1.2.3",
	}
	if change != nil {
		change(&opts)
	}
	s = New(opts)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, listener.Addr().String()
}

// dial opens a connection, which lasts as long as the test, and sends text. The server may
// close it before it has read all.
func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	check.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, text)
	return c
}

// exchange sends text over a new connection and reads what comes until the server closes
// it or so many bytes have come.
func exchange(t *testing.T, addr, text string, want int) string {
	t.Helper()
	c := dial(t, addr, text)
	defer c.Close()
	got, err := io.ReadAll(io.LimitReader(c, int64(want)))
	check.OK(t, err, "exchange:", string(got))
	return string(got)
}

// guarded requires the tokens of a file; each entry is a token, and what it may do. The name
// is what comes before the first hyphen.
func guarded(t *testing.T, entries ...[2]string) func(*Options) {
	t.Helper()
	var text strings.Builder
	for _, e := range entries {
		name, _, _ := strings.Cut(e[0], "-")
		fmt.Fprintf(&text, "- {name: %s, sha256: '%x', role: get, %s}\n", name, sha256.Sum256([]byte(e[0])), e[1])
	}
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	check.Must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	guard, err := access.NewGuard(access.Options{File: file})
	check.Must(t, err)
	return func(o *Options) { o.Access, o.RequireToken = guard, true }
}

func TestCommands(t *testing.T) {
	for _, test := range []struct {
		commands [][]string
		want     string
	}{
		{[][]string{{"INCR", "queue:1:alice"}, {"incr", "segment:orders"}, {"INCR", "snowflake"}}, ":1\r\n:2\r\n:3\r\n"},
		{[][]string{{"INCRBY", "snowflake", "1"}, {"INCRBY", "snowflake", "2"}, {"INCRBY", "snowflake"}}, ":1\r\n-SHARDID -6 INCRBY takes a key and 1: for more IDs send LPOP with a count\r\n-SHARDID -6 "},
		{[][]string{{"LPOP", "snowflake"}, {"RPOP", "queue:255:a:b"}}, "$1\r\n1\r\n$1\r\n2\r\n"},
		{[][]string{{"LPOP", "snowflake", "1"}, {"RPOP", "segment:a", "3"}}, "*1\r\n$1\r\n1\r\n*3\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n"},
		{[][]string{{"PING"}, {"PING", "hi"}, {"ECHO", "x"}, {"SELECT", "0"}, {"AUTH", "any"}, {"AUTH", "default", "any"}}, "+PONG\r\n$2\r\nhi\r\n$1\r\nx\r\n+OK\r\n+OK\r\n+OK\r\n"},
		{[][]string{{"CLIENT", "SETNAME", "me"}, {"CLIENT", "getname"}, {"CLIENT", "SETINFO", "LIB-NAME", "x"}, {"COMMAND", "DOCS", "get"}, {"COMMAND", "COUNT"}}, "+OK\r\n$2\r\nme\r\n+OK\r\n*0\r\n:20\r\n"},
		{[][]string{{"RESET"}, {"QUIT"}, {"INCR", "snowflake"}}, "+RESET\r\n+OK\r\n"},
		{[][]string{{"INCR"}}, "-SHARDID -6 invalid argument: INCR takes a key and nothing else\r\n"},
		{[][]string{{"INCR", "snowflake", "2"}}, "-SHARDID -6 invalid argument: INCR takes a key and nothing else\r\n"},
		{[][]string{{"LPOP", "snowflake", "1", "2"}}, "-SHARDID -6 invalid argument: LPOP takes a key and an optional count\r\n"},
		{[][]string{{"LPOP", "snowflake", "0"}}, "-SHARDID -6 invalid argument: count must be a whole number in 1…10000, not \"0\"\r\n"},
		{[][]string{{"LPOP", "snowflake", "10001"}}, "-SHARDID -6 invalid argument: count must be a whole number in 1…10000, not \"10001\"\r\n"},
		{[][]string{{"LPOP", "snowflake", "+1"}}, "-SHARDID -6 invalid argument: count must be a whole number in 1…10000, not \"+1\"\r\n"},
		{[][]string{{"INCR", "queue:256:a"}}, "-SHARDID -6 invalid argument: \"queue:256:a\" is not queue:<appId>:<gatePass> with an appId of 0…255\r\n"},
		{[][]string{{"INCR", "queue:1"}}, "-SHARDID -6 invalid argument: \"queue:1\" is not queue:<appId>:<gatePass> with an appId of 0…255\r\n"},
		{[][]string{{"INCR", "queue:1:"}}, "-SHARDID -6 "},
		{[][]string{{"INCR", "segment:"}}, "-SHARDID -6 "},
		{[][]string{{"INCR", "segment"}}, "-SHARDID -6 invalid argument: no key \"segment\": there are queue:<appId>:<gatePass>, segment:<tag>, snowflake and uid, with a format such as base62: or base62:padded: before it or none\r\n"},
		{[][]string{{"LPOP", "base62:queue:1:alice"}, {"LPOP", "hex:snowflake", "10"}}, "$1\r\n1\r\n*10\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{[][]string{{"RPOP", "base62:padded:segment:padded:x"}, {"LPOP", "dec:padded:snowflake", "1"}}, "$11\r\n00000000001\r\n*1\r\n$19\r\n0000000000000000002\r\n"},
		{[][]string{{"INCR", "dec:snowflake"}}, "-SHARDID -6 invalid argument: INCR answers an integer: send LPOP for an ID in the format dec\r\n"},
		{[][]string{{"INCRBY", "hex:padded:snowflake", "1"}}, "-SHARDID -6 invalid argument: INCR answers an integer: send LPOP for an ID in the format hex\r\n"},
		{[][]string{{"LPOP", "base64:snowflake"}}, "-SHARDID -6 invalid argument: no key \"base64:snowflake\""},
		{[][]string{{"LPOP", "hex:base62:snowflake"}}, "-SHARDID -6 invalid argument: no key \"base62:snowflake\""},
		{[][]string{{"LPOP", "padded:snowflake"}, {"LPOP", "hex"}, {"LPOP", "hex:"}}, "-SHARDID -6 "},
		{[][]string{{"LPOP", "segment:numbers"}, {"RPOP", "segment:numbers", "2"}}, "$4\r\nno 1\r\n*2\r\n$4\r\nno 2\r\n$4\r\nno 3\r\n"},
		{[][]string{{"INCR", "segment:numbers"}, {"LPOP", "segment:a"}}, "-SHARDID -6 invalid argument: the tag has a pattern\r\n$1\r\n1\r\n"},
		{[][]string{{"INCR", "uid"}}, "-SHARDID -9 mode is disabled: set uid.enabled to true and restart to use it\r\n"},
		{[][]string{{"GET", "snowflake"}}, "-SHARDID -10 there is no command \"GET\": INCR, LPOP and RPOP issue IDs\r\n"},
		{[][]string{{"SELECT", "1"}}, "-SHARDID -6 there is one database: SELECT 0\r\n"},
		{[][]string{{"HELLO", "4"}}, "-NOPROTO unsupported protocol version\r\n"},
		{[][]string{{"HELLO", "2", "SETNAME", "n"}, {"CLIENT", "GETNAME"}}, "*14\r\n$6\r\nserver\r\n$7\r\nshardid\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n$1\r\nn\r\n"},
		{[][]string{{"HELLO", "3"}}, "%7\r\n$6\r\nserver\r\n"},
	} {
		var text strings.Builder
		for _, command := range test.commands {
			text.WriteString(encode(command...))
		}
		_, addr := start(t, &fake{}, nil)
		check.Equal(t, exchange(t, addr, text.String(), len(test.want)), test.want, test.commands)
	}
}

// The log shows of a key what is known, and nothing that a client may have sent by mistake: a
// token, or the number of a telephone.
func TestShownKey(t *testing.T) {
	var shown []string
	f := &fake{}
	_, addr := start(t, f, func(o *Options) {
		o.KnownTag = func(tag string) bool { return tag == "orders" }
		o.Observe = func(c issuer.Command) { shown = append(shown, string(c.Key)) }
	})
	err := fmt.Errorf("%w: no such tag", model.ErrUnknownTag)
	f.err.Store(&err)
	for key, want := range map[string]string{
		"queue:1:13800000000": "queue:1", "base62:queue:1:alice": "base62:queue:1", "hex:padded:queue:255:a:b": "hex:padded:queue:255", "queue:7:": "queue:7",
		"segment:orders": "segment:orders", "base62:padded:segment:orders": "base62:padded:segment:orders", "uid": "uid", "hex:uid": "hex:uid",
		"segment:13800000000": "segment:(hidden)", "base62:segment:queue:1:x": "base62:segment:(hidden)", "segment:": "segment:(hidden)",
		"shardid_0123456789abcdef": "(hidden)", "Queue:1:13800000000": "(hidden)", "queue:13800000000": "(hidden)", "queue:": "(hidden)", "base64:uid": "(hidden)",
	} {
		shown = nil
		exchange(t, addr, encode("LPOP", key)+encode("AUTH", "a-token-0123456789")+encode("QUIT"), 1<<20)
		if len(shown) != 1 || shown[0] != want {
			t.Errorf("%s is shown as %q, want %s", key, shown, want)
		}
	}
	shown = nil
	exchange(t, addr, encode("LPOP", "AUTH", "a-token-0123456789")+encode("LPOP", "a-token-0123456789", "1", "2")+encode("QUIT"), 1<<20)
	if !slices.Equal(shown, []string{"(hidden)", "(hidden)"}) {
		t.Errorf("shown: %q", shown)
	}
}

// What is no command closes the connection with a reason, and issues nothing.
func TestWhatIsNoCommand(t *testing.T) {
	f := &fake{}
	_, addr := start(t, f, nil)
	for _, text := range []string{
		"GET /get?appId=1&gatePass=alice HTTP/1.1\r\nHost: x\r\n\r\n",
		"INCR snowflake\r\n",
		"*2\r\n$4\r\nINCR\r\n$629145600\r\n" + strings.Repeat("x", 1<<20),
		"*1000000\r\n",
	} {
		c := dial(t, addr, text)
		line, _ := bufio.NewReader(c).ReadString('\n')
		// A reset may overtake the reason when something was still on its way.
		if line != "" && !strings.HasPrefix(line, "-ERR Protocol error: ") || line == "" && len(text) < 1000 {
			t.Errorf("%.40q: %q", text, line)
		}
		_ = c.Close()
	}
	check.Equal(t, f.last.Load(), 0, "IDs were issued")
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("%w: app 1", model.ErrLimitReached):             "SHARDID -5 app reached its limit: app 1",
		fmt.Errorf("%w: line\r\nbreak", model.ErrQueueEmpty):       "SHARDID -4 queue is empty: line  break",
		errors.New("secret"):                                       "SHARDID -11 internal error: it has been logged, try again",
		fmt.Errorf("%w: %w", model.ErrRingEmpty, model.ErrNoLease): "SHARDID -8 the ring is empty: no worker ID is held",
	} {
		f := &fake{}
		f.err.Store(&err)
		_, addr := start(t, f, nil)
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		if _, got := c.Incr(t.Context(), "snowflake").Result(); got == nil || got.Error() != want {
			t.Errorf("%v: %v, want %s", err, got, want)
		}
		check.OK(t, c.Close())
	}
}

// A client that others wrote, in both protocols, with and without a pipeline, from many
// goroutines: no ID twice.
func TestGoRedis(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		_, addr := start(t, &fake{}, nil)
		c := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, ClientName: "test"})
		var mu sync.Mutex
		seen := map[int64]bool{}
		issued := func(ids ...int64) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				if seen[id] || id <= 0 {
					t.Errorf("%d was issued before", id)
				}
				seen[id] = true
			}
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				ctx := t.Context()
				for range 50 {
					issued(c.Incr(ctx, fmt.Sprintf("queue:1:user-%d", g)).Val())
					texts := c.LPopCount(ctx, "segment:orders", 100).Val()
					for _, text := range texts {
						id, _ := strconv.ParseInt(text, 10, 64)
						issued(id)
					}
					cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
						for range 16 {
							p.Incr(ctx, "snowflake")
						}
						return nil
					})
					if err != nil || len(texts) != 100 {
						t.Errorf("%d IDs, %v", len(texts), err)
					}
					for _, cmd := range cmds {
						issued(cmd.(*redis.IntCmd).Val())
					}
				}
			})
		}
		wg.Wait()
		if want := 8 * 50 * 117; len(seen) != want {
			t.Errorf("RESP%d: %d IDs, want %d", protocol, len(seen), want)
		}
		check.OK(t, c.Close())
	}
}

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

func TestTokens(t *testing.T) {
	_, addr := start(t, &fake{}, guarded(t,
		[2]string{"orders-token-0001", "apps: [1], tags: [orders]"},
		[2]string{"slow-token-000001", "modes: [snowflake], rate: 0.001, burst: 2"},
		[2]string{"few-token-0000001", "tags: [numbers], modes: [snowflake, segment], ids_per_day: 10"}))
	for _, test := range []struct {
		commands [][]string
		want     []string // how each answer begins
	}{
		{[][]string{{"PING"}, {"INCR", "queue:1:a"}}, []string{"+PONG", "-SHARDID -7 no valid token: send AUTH with a token first"}},
		{[][]string{{"AUTH", "wrong"}, {"INCR", "queue:1:a"}}, []string{"-SHARDID -7 no valid token", "-SHARDID -7"}},
		{
			[][]string{{"AUTH", "orders-token-0001"}, {"INCR", "queue:1:a"}, {"INCR", "queue:2:a"}, {"INCR", "segment:orders"}, {"INCR", "segment:x"}, {"INCR", "snowflake"}},
			[]string{"+OK", ":1", "-SHARDID -7 not allowed: token orders may not have IDs of app 2", ":2", "-SHARDID -7 not allowed", "-SHARDID -7 not allowed"},
		},
		{
			[][]string{{"AUTH", "default", "slow-token-000001"}, {"INCR", "snowflake"}, {"INCR", "snowflake"}, {"INCR", "snowflake"}, {"RESET"}, {"INCR", "snowflake"}},
			[]string{"+OK", ":3", ":4", "-SHARDID -12 too many requests", "+RESET", "-SHARDID -7"},
		},
		{
			[][]string{{"AUTH", "few-token-0000001"}, {"LPOP", "snowflake", "11"}, {"INCR", "snowflake"}, {"LPOP", "segment:numbers"},
				{"LPOP", "snowflake", "9"}, {"LPOP", "base62:snowflake"}},
			[]string{"+OK", "-SHARDID -12 too many requests: the quota ids_per_day: 10 of token few has 10 left, and 11 were asked for: nothing was issued, ask for 10 at most",
				":5", "$4", "-SHARDID -12 too many requests: the quota ids_per_day: 10 of token few has 8 left", "$1"},
		},
	} {
		c := dial(t, addr, "")
		in := bufio.NewReader(c)
		for i, command := range test.commands {
			_, _ = io.WriteString(c, encode(command...))
			line, err := in.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, test.want[i]) {
				t.Errorf("%q: %q, %v; want %q", command, line, err, test.want[i])
			}
			if line[0] == '$' {
				_, _ = in.ReadString('\n')
			}
		}
	}
	for _, protocol := range []int{2, 3} { // which say the token with HELLO
		c := redis.NewClient(&redis.Options{Addr: addr, Password: "orders-token-0001", Protocol: protocol})
		check.OK(t, check.Err(c.Incr(t.Context(), "queue:1:a").Result()))
		_ = c.Close()
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
		if err != nil || !strings.HasSuffix(string(said), "-SHARDID -7 no valid token came in time: send AUTH with a token first\r\n") || took < limit || took > 20*limit {
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

// Every answer is counted by its code, and each command for IDs has a span and is told of,
// without the gatePass, whatever became of it.
func TestObserved(t *testing.T) {
	type span struct {
		name string
		code int
	}
	var spans []span
	var told []issuer.Command
	s, addr := start(t, &fake{}, func(o *Options) {
		o.Observe = func(c issuer.Command) { c.Took, c.Key = 0, bytes.Clone(c.Key); told = append(told, c) }
		o.Trace = func(ctx context.Context, command, mode string) (context.Context, string, func(int)) {
			return ctx, "trace", func(code int) { spans = append(spans, span{command + " " + mode, code}) }
		}
	})
	text := encode("INCR", "queue:1:alice") + encode("LPOP", "segment:orders", "3") + encode("LPOP", "uid") +
		encode("INCR", "nothing") + encode("LPOP", "snowflake", "0") +
		encode("INCR") + encode("GET", "snowflake") + encode("SELECT", "1") +
		encode("PING") + encode("QUIT")
	exchange(t, addr, text, 1<<20)
	wantSpans := []span{{"INCR queue", 0}, {"LPOP segment", 0}, {"LPOP uid", -9}, {"INCR ", -6}, {"LPOP snowflake", -6}, {"INCR ", -6}}
	wantTold := []issuer.Command{
		{Name: "INCR", Key: []byte("queue:1"), Count: 1, TraceID: "trace"},
		{Name: "LPOP", Key: []byte("segment:orders"), Count: 3, TraceID: "trace"},
		{Name: "LPOP", Key: []byte("uid"), Count: 1, Code: -9, TraceID: "trace"},
		{Name: "INCR", Key: []byte("(hidden)"), Count: 1, Code: -6, TraceID: "trace"},
		{Name: "LPOP", Key: []byte("snowflake"), Count: 1, Code: -6, TraceID: "trace"},
		{Name: "INCR", Count: 1, Code: -6, TraceID: "trace"},
	}
	if !slices.Equal(spans, wantSpans) || !reflect.DeepEqual(told, wantTold) {
		t.Errorf("spans %v\n told %+v", spans, told)
	}
	want := map[int]int64{0: 2, -6: 4, -9: 1, issuer.CodeNoRoute: 1}
	for code, n := range s.Answers() {
		check.Equal(t, n, want[code], "answers with code", code)
	}
}
