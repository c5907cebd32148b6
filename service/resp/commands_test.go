package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/issuer"
)

// encodeAll writes commands as clients do; bars are between them, and spaces between their words.
func encodeAll(commands string) string {
	var text strings.Builder
	for command := range strings.SplitSeq(commands, "|") {
		text.WriteString(encode(strings.Fields(command)...))
	}
	return text.String()
}

// Each command is answered as Redis would, or with the code of the error table and what to do. In want a bar is the
// end of a line; what follows it in the answer may be more.
func TestCommands(t *testing.T) {
	const (
		bad    = "-SHARDID -6 "
		off    = "-SHARDID -9 set uid.enabled to true, and restart: mode is disabled|"
		counts = bad + "INCRBY of a sequence takes a whole number in 1…10000, not "
		other  = bad + "send INCR sequence:<space>:<key>, or INCRBY with how many numbers: a sequence takes nothing " +
			"else, and has no formats|"
		abort = "-EXECABORT Transaction discarded because of previous errors: nothing was issued|"
		a     = "sequence:chat:a"
		app   = "write queue:<appId>:<gatePass> or list:<appId>:<shard> with an appId of 0…255, not "
		keys  = "use queue:<appId>:<gatePass>, list:<appId>:<shard>, segment:<tag>, sharded:<tag>:<shard key>, " +
			"sequence:<space>:<key>, snowflake or uid, "
	)
	for _, c := range []struct{ sent, want string }{
		{"INCR queue:1:alice|incr segment:orders|INCR snowflake|INCRBY snowflake 1", ":16385|:2|:3|:4|"},
		{"INCRBY snowflake 2", "-SHARDID -6 send LPOP with a count for several IDs: INCRBY takes a key and 1|"},
		{"INCRBY snowflake|INCR|INCR snowflake 2|LPOP snowflake 1 2",
			bad + "send INCRBY with another number of arguments: it takes 2, not 1|" +
				bad + "send INCR with another number of arguments: it takes 1, not 0|" +
				bad + "send INCR with another number of arguments: it takes 1, not 2|" +
				bad + "send LPOP with another number of arguments: it takes 1…2, not 3|"},
		{"LPOP snowflake|RPOP queue:255:a:b", "$1|1|$5|35327|"},
		{"LPOP snowflake 1|RPOP segment:a 3", "*1|$1|1|*3|$1|2|$1|3|$1|4|"},
		{"LPOP snowflake 0", bad + `count must be a whole number in 1…10000, not "0"|`},
		{"LPOP snowflake 10001|LPOP snowflake +1", bad + `count must be a whole number in 1…10000, not "10001"|` +
			bad + `count must be a whole number in 1…10000, not "+1"|`},
		{"INCR queue:256:a", bad + app + `"queue:256:a"|`},
		{"INCR queue:1", bad + app + `"queue:1"|`},
		{"INCR queue:1:", bad}, {"INCR segment:", bad},
		{"INCR segment", bad + keys + `with a format such as base62: or base62:padded: before it, or none: there is ` +
			`no key "segment"|`},
		{"INCR list:1:26|LPOP list:1:0 2|INCR list:255:63", ":23041|*2|$5|32769|$5|49153|:81919|"},
		{"INCR list:1:64|INCR list:1:|INCR list:1:-1", bad + `shard must be a whole number in 0…63, not "64"|` +
			bad + `shard must be a whole number in 0…63, not ""|` +
			bad + `shard must be a whole number in 0…63, not "-1"|`},
		{"INCR sharded:sharded:18|LPOP sharded:sharded:alice 2|LPOP hex:sharded:sharded:17",
			":18|*2|$2|39|$2|55|$2|41|"},
		{"INCR sharded:sharded:007", bad + "send the digits of shardKey without a sign"},
		{"INCR sharded:sharded:", bad + "send the number or the text by which your tables are sharded"},
		{"INCR sharded:x", bad + `write sharded:<tag>:<shard key>, not "sharded:x"|`},
		{"INCR segment:sharded", bad + "send a shard key"}, {"INCR sharded:plain:1", bad + "leave the shard key out"},
		{"LPOP base62:queue:1:alice|LPOP hex:snowflake 2", "$3|4GH|*2|$1|2|$1|3|"},
		{"RPOP base62:padded:segment:padded:x|LPOP dec:padded:snowflake 1",
			"$11|00000000001|*1|$19|0000000000000000002|"},
		{"INCR dec:snowflake", bad + "send LPOP for an ID in the format dec: INCR answers an integer|"},
		{"LPOP base64:snowflake", bad + keys},
		{"LPOP hex:base62:snowflake", bad + keys},
		{"LPOP padded:snowflake", bad}, {"LPOP hex", bad}, {"LPOP hex:", bad},
		{"LPOP segment:numbers|RPOP segment:numbers 2", `$6|no "1"|*2|$6|no "2"|$6|no "3"|`},
		{"INCR segment:numbers|LPOP segment:a", "-SHARDID -6 the tag has a pattern|$1|1|"},
		{"INCR uid", off},
		{"SET snowflake", `-SHARDID -10 send INCR, LPOP or RPOP for IDs: there is no command "SET"|`},
		{"CLUSTER SLOTS", `-SHARDID -10 send INCR, LPOP or RPOP for IDs: there is no command "CLUSTER"|`},
		{"GET snowflake", "-SHARDID -6 send INCR, LPOP or RPOP for IDs: GET says how far a sequence has come, by " +
			"sequence:<space>:<key>|"},

		{"PING|PING hi|ECHO x|SELECT 0|AUTH any|AUTH default any", "+PONG|$2|hi|$1|x|+OK|+OK|+OK|"},
		{"SELECT 1", "-SHARDID -6 send SELECT 0: there is one database|"},
		{"CLIENT SETNAME me|CLIENT setinfo LIB-NAME x|CLIENT ID", "+OK|+OK|:1|"},
		{"CLIENT TRACKING ON OPTIN|CLIENT CACHING YES|CLIENT NO-EVICT ON", "+OK|+OK|+OK|"},
		{"CLIENT KILL x", "-SHARDID -10 use CLIENT SETNAME, "},
		{"COMMAND DOCS set|COMMAND|command count", "*0|*0|:20|"},
		{"HELLO 3 SETNAME n|COMMAND DOCS", "%7|$6|server|$7|shardid|$7|version|$5|1.2.3|$5|proto|:3|$2|id|:1|" +
			"$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|*0|"},
		{"HELLO 2", "*14|$6|server|"}, {"HELLO 4", "-NOPROTO unsupported protocol version|"},
		{"RESET|QUIT|INCR snowflake", "+RESET|+OK|"},

		{"GET " + a + "|INCR " + a + "|incrby " + a + " 10|INCR " + a + "|get " + a + "|INCR sequence:feed:a",
			"$1|0|:1|:11|:12|$2|12|:1|"},
		{"INCRBY " + a + " 10000", ":10000|"},
		{"INCRBY " + a + " 0|INCRBY " + a + " 10001|INCRBY " + a + " +1|GET " + a,
			counts + `"0"|` + counts + `"10001"|` + counts + `"+1"|$1|0|`},
		{"INCR sequence:chat:", bad + "key must have 1…256 bytes, not 0|"},
		{"INCR sequence:chat", bad + `write sequence:<space>:<key>, not "sequence:chat"|`},
		{"INCR sequence::a", bad + "`space` must have 1…64 letters, digits, dots, hyphens and underscores|"},
		{"INCR sequence:x:a|INCR " + a, `-SHARDID -2 space is not provisioned: "x"|:1|`},
		{"INCR sequence|LPOP " + a + "|INCR base62:" + a, other + other + other},

		{"MULTI|INCR snowflake|LPOP uid 2|LPOP queue:1:a 2|EXEC|INCR snowflake",
			"+OK|+QUEUED|+QUEUED|+QUEUED|*3|:1|" + off + "*2|$5|41217|$5|57601|:4|"},
		{"MULTI|INCR " + a + "|INCRBY " + a + " 3|PING|GET " + a + "|EXEC|INCR " + a,
			"+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|*4|:1|:4|+PONG|$1|4|:5|"},
		{"MULTI|EXEC|MULTI|INCR snowflake|DISCARD|INCR snowflake", "+OK|*0|+OK|+QUEUED|+OK|:1|"},
		{"EXEC|DISCARD|MULTI|MULTI|EXEC", "-ERR EXEC without MULTI|-ERR DISCARD without MULTI|+OK|" +
			"-ERR MULTI calls can not be nested|*0|"},
		{"MULTI|INCR snowflake|SET a|INCR snowflake|EXEC|INCR snowflake", "+OK|+QUEUED|" +
			`-SHARDID -10 send INCR, LPOP or RPOP for IDs: there is no command "SET"|+QUEUED|` + abort + ":1|"},
		{"MULTI|INCR|EXEC", "+OK|-SHARDID -6 send INCR with another number of arguments: it takes 1, not 0|" + abort},
		{"WATCH a b|MULTI|RESET|EXEC|UNWATCH|MULTI|QUIT|INCR snowflake",
			"+OK|+OK|+RESET|-ERR EXEC without MULTI|+OK|+OK|+OK|"},
	} {
		t.Run(c.sent, func(t *testing.T) {
			t.Parallel()
			_, addr := start(t, &fakes.Mode{}, nil)
			want := strings.ReplaceAll(c.want, "|", "\r\n")
			check.Equal(t, exchange(t, addr, encodeAll(c.sent), len(want)), want)
		})
	}
}

// A transaction is bounded by its bytes, and refused whole. Large answers of one, and of a pipeline, are whole.
func TestLargeTransactionsAndAnswers(t *testing.T) {
	f := &fakes.Mode{}
	_, addr := start(t, f, nil)
	const ten = "LPOP snowflake 10000|LPOP snowflake 10000"
	got := exchange(t, addr, encodeAll("MULTI|"+ten+"|EXEC|"+ten+"|QUIT"), 1<<26)
	ids := strings.Count(got, "\r\n$")
	check.Equal(t, ids, 4*model.MaxBatch, "IDs")
	check.Equal(t, strings.HasSuffix(got, fmt.Sprintf("\r\n%d\r\n+OK\r\n", 4*model.MaxBatch)), true)
	got = exchange(t, addr, encodeAll("MULTI|"+strings.Repeat("INCR queue:1:a|", 5000)+"EXEC|QUIT"), 1<<26)
	if strings.Count(got, "\r\n-SHARDID -6 send fewer commands, or none of them in") != 1 ||
		!strings.HasSuffix(got, "nothing was issued\r\n+OK\r\n") {
		t.Errorf("too much: %q", got[max(0, len(got)-100):])
	}
	check.Equal(t, f.Counts().Issued, 4*model.MaxBatch, "IDs were issued")
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	for want, err := range map[string]error{
		"-5 app reached its limit: app 1":                      fmt.Errorf("%w: app 1", model.ErrLimitReached),
		"-4 try again: queue is empty: line; break":            fmt.Errorf("%w: line\r\nbreak", model.ErrQueueEmpty),
		"-11 try again: internal error, which has been logged": errors.New("secret"),
		"-8 try again: the ring is empty: no worker ID is " +
			"held": fmt.Errorf("%w: %w", model.ErrRingEmpty, model.ErrNoLease),
	} {
		_, addr := start(t, &fakes.Mode{Fail: fakes.Broken(err)}, nil)
		check.Equal(t, exchange(t, addr, encodeAll("INCR snowflake|QUIT"), 1<<20), "-SHARDID "+want+"\r\n+OK\r\n", err)
	}
}

// What is issued, refused, or ends in a fault, is counted by its mode and its code.
func TestCommandsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, addr := start(t, &fakes.Mode{}, func(o *Options) {
		o.Issuer.Sequence = panics{o.Issuer.Sequence}
		o.Issuer.Traffic = issuer.NewTraffic(registry, model.ModeSnowflake, model.ModeSequence)
	})
	const commands = "INCR snowflake|LPOP snowflake 10001|INCR sequence:chat:a|INCR sequence:chat:bad|QUIT"
	exchange(t, addr, encodeAll(commands), 1<<20)
	exchange(t, addr, encode("INCR", "sequence:chat:panic"), 1<<20)
	values := check.Metrics(t, registry)
	const requests = "shardid_request_duration_seconds_count"
	for name, want := range map[string]float64{
		requests + `{mode="snowflake"}`: 2, requests + `{mode="sequence"}`: 2, requests + `{outcome="ok"}`: 2,
		`shardid_refused_total{code="-6"}`: 1, `shardid_refused_total{code="-4"}`: 1, "shardid_faults_total": 1,
	} {
		check.Equal(t, values[name], want, name)
	}
}

// A client that others wrote, with transactions and pipelines, from many goroutines: no ID twice.
func TestGoRedis(t *testing.T) {
	_, addr := start(t, &fakes.Mode{}, nil)
	c := redis.NewClient(&redis.Options{Addr: addr, ClientName: "test"})
	var mu sync.Mutex
	seen := map[int64]bool{}
	issued := func(id int64) {
		mu.Lock()
		defer mu.Unlock()
		if seen[id] || id <= 0 {
			t.Errorf("%d was issued before", id)
		}
		seen[id] = true
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			send := []func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
				c.Pipelined, c.TxPipelined}[g%2]
			for range 20 {
				for _, text := range c.LPopCount(t.Context(), "segment:orders", 100).Val() {
					id, _ := strconv.ParseInt(text, 10, 64)
					issued(id)
				}
				cmds, err := send(t.Context(), func(p redis.Pipeliner) error {
					for range 16 {
						p.Incr(t.Context(), "snowflake")
					}
					return nil
				})
				check.OK(t, err)
				for _, cmd := range cmds {
					issued(cmd.(*redis.IntCmd).Val())
				}
			}
		})
	}
	wg.Wait()
	check.Equal(t, len(seen), 8*20*116, "IDs")
	info, err := c.InfoMap(t.Context()).Result()
	check.OK(t, err)
	check.Equal(t, info["Server"]["shardid_version"]+info["Replication"]["role"], "1.2.3master")
	check.OK(t, c.Close())
}

// An ID above 2^53 reaches each client as what it reads exactly, or not at all.
func TestNoClientRounds(t *testing.T) {
	const refusal = "-SHARDID -6 send LPOP, which answers a string, or speak RESP3 (RESP: 3 of node-redis, protocol: " +
		"3 of ioredis 6, the default of GLIDE), or say clientInfoTag: \"strings\" in a program that reads integers " +
		"as strings: "
	for _, c := range []struct{ said, want string }{
		{"PING", ":9007199254740992"},
		{"HELLO 3", ":9007199254740992"},
		{"CLIENT SETINFO LIB-NAME lettuce|HELLO 3", ":9007199254740992"},
		{"CLIENT SETINFO lib-name node-redis", refusal + "node-redis rounds integers above 2^53, so this " +
			"ID was skipped"},
		{"CLIENT SETINFO LIB-NAME ioredis", refusal + "ioredis rounds"},
		{"CLIENT SETINFO LIB-NAME GlideJS", refusal + "GlideJS rounds"},
		{"HELLO 3|CLIENT SETINFO LIB-NAME GlideJS(tag)", "(9007199254740992"},
		{"CLIENT SETINFO LIB-NAME ioredis(strings)", ":9007199254740992"},
		{"CLIENT SETINFO LIB-NAME node-redis|HELLO 3|HELLO 2", refusal},
		{"HELLO 3|CLIENT SETINFO LIB-NAME node-redis|RESET", refusal},
	} {
		_, addr := start(t, nil, func(o *Options) {
			o.Issuer.Snowflake = fakes.Generator{Mode: &fakes.Mode{}, First: exact}
		})
		last := func(command string) string {
			lines := strings.Split(exchange(t, addr, encodeAll(c.said+"|"+command+"|QUIT"), 1<<20), "\r\n")
			return lines[len(lines)-3]
		}
		check.Equal(t, last("INCR snowflake"), ":9007199254740991", c.said)
		if got := last("INCRBY snowflake 1"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.said, got, c.want)
		}
		check.Equal(t, last("LPOP snowflake"), "9007199254740993", c.said, "LPOP answers")
	}
}

// A token has the scope and the rate over RESP that it has over HTTP.
func TestTokens(t *testing.T) {
	_, addr := start(t, &fakes.Mode{}, guarded(
		"orders", "may: ['queue:1', 'segment:orders', 'sequence:chat']", "slow", "may: [snowflake], rate: 2"))
	const denied = "-SHARDID -7 use a token that may "
	for _, c := range []struct {
		sent string
		want []string // how each answer begins
	}{
		{"PING|INCR queue:1:a|GET sequence:chat:a", []string{"+PONG",
			"-NOAUTH -7 send AUTH with a token first: no valid token", "-NOAUTH -7"}},
		{"AUTH wrong|INCR queue:1:a", []string{"-WRONGPASS -7 send another token: no valid token", "-NOAUTH -7"}},
		{"AUTH sesame-orders|INCR queue:1:a|INCR queue:2:a|INCR segment:orders|INCR segment:x|INCR snowflake",
			[]string{"+OK", ":24833", denied + "have IDs of app 2: not allowed: token orders-token may not",
				":2", denied,
				denied}},
		{"AUTH sesame-orders|INCRBY sequence:chat:a 9|INCR sequence:feed:a|GET sequence:chat:a", []string{"+OK",
			":9", denied + `have numbers of the space "feed": not allowed: token orders-token may not`, "$1", "9"}},
		{"AUTH default sesame-slow|INCR snowflake|INCR snowflake|INCR snowflake|RESET|INCR snowflake",
			[]string{"+OK", ":", ":", "-SHARDID -12 slow down: too many requests", "+RESET", "-NOAUTH -7"}},
	} {
		in := bufio.NewReader(check.Dial(t, addr, encodeAll(c.sent)))
		for _, want := range c.want {
			line, err := in.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, want) {
				t.Errorf("%s: %q, %v; want %q", c.sent, line, err, want)
			}
		}
	}
	for _, protocol := range []int{2, 3} { // which say the token with HELLO
		c := redis.NewClient(&redis.Options{Addr: addr, Password: "sesame-orders", Protocol: protocol})
		check.OK(t, check.Err(c.Incr(t.Context(), "queue:1:a").Result()))
		_ = c.Close()
	}
}

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
	c := check.Dial(t, addr, a+a+a[:len(a)-3])
	for i, want := range []string{counted(1, 2), counted(3, 4)} {
		got := make([]byte, len(want))
		check.Must(t, check.Err(io.ReadFull(c, got)))
		check.Equal(t, string(got), want)
		if i == 0 {
			_, _ = io.WriteString(c, a[len(a)-3:]+a)
		}
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
