package resp

import (
	"bufio"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/fakes"

	"github.com/redis/go-redis/v9"
)

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
		in := bufio.NewReader(dial(t, addr, encodeAll(c.sent)))
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
