package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/issuer"
	"shardid/service/metric"

	"github.com/redis/go-redis/v9"
)

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
		{[][]string{{"CLIENT", "SETNAME", "me"}, {"CLIENT", "getname"}, {"CLIENT", "SETINFO", "LIB-NAME", "x"}, {"COMMAND", "DOCS", "set"}, {"COMMAND", "COUNT"}}, "+OK\r\n$2\r\nme\r\n+OK\r\n*0\r\n:21\r\n"},
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
		{[][]string{{"INCR", "segment"}}, "-SHARDID -6 invalid argument: no key \"segment\": there are queue:<appId>:<gatePass>, segment:<tag>, sequence:<space>:<key>, snowflake and uid, with a format such as base62: or base62:padded: before it or none\r\n"},
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
		{[][]string{{"SET", "snowflake"}}, "-SHARDID -10 there is no command \"SET\": INCR, LPOP and RPOP issue IDs\r\n"},
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
		encode("INCR") + encode("SET", "snowflake") + encode("SELECT", "1") +
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
	for i, n := range s.answers {
		check.Equal(t, metric.Value(n), want[-i], "answers with code", -i)
	}
}
