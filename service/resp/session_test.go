package resp

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"shardid/scripts/check"

	"github.com/redis/go-redis/v9"
)

// An ID above 2^53 reaches each client as what it reads exactly, or not at all.
func TestNoClientRounds(t *testing.T) {
	const refusal = "-SHARDID -6 invalid argument: "
	for _, test := range []struct{ said, want string }{
		{"", ":9007199254740992"},
		{"HELLO 3", ":9007199254740992"},
		{"CLIENT SETINFO LIB-NAME lettuce|HELLO 3", ":9007199254740992"},
		{"CLIENT SETINFO lib-name node-redis", refusal + "node-redis rounds integers above 2^53, so this ID was left out: send LPOP, which answers a string, or speak RESP3 (RESP: 3 of node-redis, protocol: 3 of ioredis 6, the default of GLIDE);"},
		{"CLIENT SETINFO LIB-NAME node-redis(tag)", refusal + "node-redis(tag) rounds"},
		{"CLIENT SETINFO LIB-NAME ioredis", refusal + "ioredis rounds"},
		{"CLIENT SETINFO LIB-NAME GlideJS", refusal + "GlideJS rounds"},
		{"HELLO 3|CLIENT SETINFO LIB-NAME GlideJS(tag)", "(9007199254740992"},
		{"CLIENT SETINFO LIB-NAME ioredis(strings)", ":9007199254740992"},
		{"HELLO 3|CLIENT SETINFO LIB-NAME ioredis", "(9007199254740992"},
		{"HELLO 3|CLIENT SETINFO LIB-NAME node-redis|CLIENT SETINFO LIB-VER 5", "(9007199254740992"},
		{"CLIENT SETINFO LIB-NAME node-redis|HELLO 3|HELLO 2", refusal},
		{"HELLO 3|CLIENT SETINFO LIB-NAME node-redis|RESET", refusal},
	} {
		f := &fake{}
		f.last.Store(exact - 1)
		_, addr := start(t, f, nil)
		said := strings.Split(test.said, "|")
		if test.said == "" {
			said = nil
		}
		last := func(commands ...string) string {
			got := exchange(t, addr, encodeAll(append(append([]string{}, said...), commands...)...), 1<<20)
			lines := strings.Split(got, "\r\n")
			return lines[len(lines)-3]
		}
		check.Equal(t, last("INCR snowflake", "QUIT"), ":9007199254740991", test.said)
		if got := last("INCRBY snowflake 1", "QUIT"); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", test.said, got, test.want)
		}
		check.Equal(t, last("LPOP snowflake", "QUIT"), "9007199254740993", test.said, "LPOP answers")
	}
}

// What exporters, load balancers and libraries ask is answered, by what is true.
func TestWhatClientsAskOfAServer(t *testing.T) {
	_, addr := start(t, &fake{}, nil)
	c := redis.NewClient(&redis.Options{Addr: addr, ClientName: "me"})
	defer c.Close()
	ctx := t.Context()
	c.Incr(ctx, "snowflake")
	c.Get(ctx, "snowflake")
	info := c.Info(ctx).Val()
	for _, field := range []string{"server_name:shardid", "shardid_version:1.2.3", "redis_version:7.", "uptime_in_seconds:0", "connected_clients:1",
		"total_commands_processed:", "total_connections_received:1", "loading:0", "role:master", "cluster_enabled:0"} {
		check.Has(t, info, "\r\n"+field, field)
	}
	before, err1 := c.InfoMap(ctx).Result()
	c.Ping(ctx)
	c.Incr(ctx, "snowflake")
	after, err2 := c.InfoMap(ctx).Result()
	if err1 != nil || err2 != nil || number(t, after)-number(t, before) != 3 {
		t.Errorf("%v, %v: from %v to %v", err1, err2, before["Stats"], after["Stats"])
	}
	me, err := c.ClientInfo(ctx).Result()
	if err != nil || me.Name != "me" || me.LibName == "" || me.Addr == "" {
		t.Errorf("%+v, %v", me, err)
	}
	if list := c.ClientList(ctx).Val(); strings.Count(list, "\n") != 1 {
		t.Errorf("the list of clients: %q", list)
	}
	commands, err := c.Command(ctx).Result()
	if err != nil || len(commands) != len(newCommands()) || commands["incr"].FirstKeyPos != 1 || commands["incr"].Arity != 2 || commands["lpop"].Arity != -2 {
		t.Errorf("%v, %v", commands, err)
	}
	if now, err := c.Time(ctx).Result(); err != nil || now.Year() < 2025 {
		t.Errorf("%v, %v", now, err)
	}
	for _, words := range []string{"CLIENT TRACKING ON", "CLIENT CACHING YES", "CLIENT TRACKING ON OPTIN"} {
		check.Equal(t, exchange(t, addr, encodeAll(words, "QUIT"), 1<<20), "+OK\r\n+OK\r\n", words)
	}
	if got := exchange(t, addr, encode("CLIENT", "SETNAME", "a b")+encode("CLIENT", "SETNAME", strings.Repeat("x", 129))+encode("QUIT"), 1<<20); strings.Count(got, "-SHARDID -6 ") != 2 {
		t.Error(got)
	}
	for _, words := range []string{"CLUSTER SLOTS", "SENTINEL get-master-addr-by-name m"} {
		if got := exchange(t, addr, encodeAll(words, "QUIT"), 1<<20); !strings.HasPrefix(got, "-SHARDID -10 there is no "+strings.Fields(words)[0]) || !strings.Contains(got, "HAProxy") {
			t.Errorf("%s: %q", words, got)
		}
	}
}

func number(t *testing.T, info map[string]map[string]string) (n int) {
	t.Helper()
	check.Must(t, check.Err(fmt.Sscan(info["Stats"]["total_commands_processed"], &n)))
	return n
}

// redis-cli --pipe ends with an empty line and an ECHO, and counts errors.
func TestPipeOfRedisCLI(t *testing.T) {
	_, addr := start(t, &fake{}, nil)
	want := ":1\r\n-SHARDID -10 there is no command \"SET\": INCR, LPOP and RPOP issue IDs\r\n+PONG\r\n$3\r\nabc\r\n"
	if got := exchange(t, addr, encodeAll("INCR snowflake", "SET a b")+"\r\nPING\r\n"+encodeAll("ECHO abc"), len(want)); got != want {
		t.Error(got)
	}
}

// Where tokens are required, one without learns nothing of the others.
func TestInfoWithoutAToken(t *testing.T) {
	_, addr := start(t, &fake{}, guarded(t, [2]string{"a-token-0123456789", "may: [uid]"}))
	for said, want := range map[string]bool{encodeAll("INFO", "QUIT"): false, encodeAll("AUTH a-token-0123456789", "INFO", "QUIT"): true} {
		if got := exchange(t, addr, said, 1<<20); strings.Contains(got, "connected_clients") != want || !strings.Contains(got, "role:master") {
			t.Error(got)
		}
	}
}

func TestTokens(t *testing.T) {
	_, addr := start(t, &fake{}, guarded(t,
		[2]string{"orders-token-0001", "may: ['queue:1', 'segment:orders']"},
		[2]string{"slow-token-000001", "may: [snowflake], rate: 2"},
		[2]string{"few-token-0000001", "may: ['segment:numbers', snowflake], ids_per_second: 10"}))
	for _, test := range []struct {
		commands [][]string
		want     []string // how each answer begins
	}{
		{[][]string{{"PING"}, {"INCR", "queue:1:a"}}, []string{"+PONG", "-NOAUTH -7 no valid token: send AUTH with a token first"}},
		{[][]string{{"AUTH", "wrong"}, {"INCR", "queue:1:a"}}, []string{"-WRONGPASS -7 no valid token", "-NOAUTH -7"}},
		{
			[][]string{{"AUTH", "orders-token-0001"}, {"INCR", "queue:1:a"}, {"INCR", "queue:2:a"}, {"INCR", "segment:orders"}, {"INCR", "segment:x"}, {"INCR", "snowflake"}},
			[]string{"+OK", ":1", "-SHARDID -7 not allowed: token orders may not have IDs of app 2", ":2", "-SHARDID -7 not allowed", "-SHARDID -7 not allowed"},
		},
		{
			[][]string{{"AUTH", "default", "slow-token-000001"}, {"INCR", "snowflake"}, {"INCR", "snowflake"}, {"INCR", "snowflake"}, {"RESET"}, {"INCR", "snowflake"}},
			[]string{"+OK", ":3", ":4", "-SHARDID -12 too many requests", "+RESET", "-NOAUTH -7"},
		},
		{
			[][]string{{"AUTH", "few-token-0000001"}, {"LPOP", "snowflake", "11"}, {"INCR", "snowflake"}, {"LPOP", "segment:numbers"},
				{"LPOP", "snowflake", "9"}, {"LPOP", "base62:snowflake"}},
			[]string{"+OK", "-SHARDID -12 too many requests: the quota ids_per_second: 10 of token few has 10 left, and 11 were asked for: nothing was issued, ask for 10 at most",
				":5", "$4", "-SHARDID -12 too many requests: the quota ids_per_second: 10 of token few has 8 left", "$1"},
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
