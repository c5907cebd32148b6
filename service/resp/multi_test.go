package resp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"

	"github.com/redis/go-redis/v9"
)

func encodeAll(commands ...string) string {
	var text strings.Builder
	for _, command := range commands {
		text.WriteString(encode(strings.Fields(command)...))
	}
	return text.String()
}

// What is sent after MULTI is answered by EXEC, in its order, and issued then.
func TestMulti(t *testing.T) {
	for _, test := range []struct{ sent, want string }{
		{"MULTI|INCR snowflake|LPOP uid 2|LPOP queue:1:a 2|EXEC|INCR snowflake", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n" +
			"*3\r\n:1\r\n-SHARDID -9 mode is disabled: set uid.enabled to true and restart to use it (MULTI undoes nothing: " +
			"the other commands are carried out, and IDs that you do not read are left out)\r\n*2\r\n$1\r\n2\r\n$1\r\n3\r\n:4\r\n"},
		{"MULTI|INCRBY snowflake 1|INCRBY snowflake 1|INCR snowflake|PING|EXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:1\r\n:2\r\n:3\r\n+PONG\r\n"},
		{"MULTI|EXEC|MULTI|INCR snowflake|DISCARD|INCR snowflake", "+OK\r\n*0\r\n+OK\r\n+QUEUED\r\n+OK\r\n:1\r\n"},
		{"EXEC|DISCARD|MULTI|MULTI|EXEC", "-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n+OK\r\n-ERR MULTI calls can not be nested\r\n*0\r\n"},
		{"MULTI|INCR snowflake|SET a|INCR snowflake|EXEC|INCR snowflake", "+OK\r\n+QUEUED\r\n" +
			"-SHARDID -10 there is no command \"SET\": INCR, LPOP and RPOP issue IDs\r\n+QUEUED\r\n" +
			"-EXECABORT Transaction discarded because of previous errors: nothing was issued\r\n:1\r\n"},
		{"MULTI|INCR|EXEC", "+OK\r\n-SHARDID -6 wrong number of arguments, the command is: INCR key\r\n-EXECABORT "},
		{"WATCH a b|MULTI|RESET|EXEC|UNWATCH|MULTI|QUIT|INCR snowflake", "+OK\r\n+OK\r\n+RESET\r\n-ERR EXEC without MULTI\r\n+OK\r\n+OK\r\n+OK\r\n"},
	} {
		_, addr := start(t, &fake{}, nil)
		if got := exchange(t, addr, encodeAll(strings.Split(test.sent, "|")...), len(test.want)); got != test.want {
			t.Errorf("%s:\ngot  %q\nwant %q", test.sent, got, test.want)
		}
	}
}

// What one client may queue is bounded; the same command again needs no room, and large answers
// and many of them go out in pieces, as in a pipeline.
func TestMultiIsBounded(t *testing.T) {
	f := &fake{}
	_, addr := start(t, f, nil)
	ask := func(n int, command func(i int) string) string {
		all := []string{"MULTI"}
		for i := range n {
			all = append(all, command(i))
		}
		return exchange(t, addr, encodeAll(append(all, "EXEC", "QUIT")...), 1<<26)
	}
	same := func(int) string { return "INCR snowflake" }
	got := ask(maxQueued, same)
	if want := fmt.Sprintf("*%d\r\n:1\r\n:2\r\n", maxQueued); !strings.Contains(got, want) || !strings.HasSuffix(got, fmt.Sprintf(":%d\r\n+OK\r\n", maxQueued)) {
		t.Errorf("%d bytes: %q", len(got), got[max(0, len(got)-100):])
	}
	other := func(i int) string { return fmt.Sprintf("INCR queue:1:user-%d", i) }
	for name, got := range map[string]string{"commands": ask(maxQueued+1, same), "bytes": ask(1000, other)} {
		if strings.Count(got, "\r\n-SHARDID -6 after MULTI there may be") != 1 || !strings.HasSuffix(got, "nothing was issued\r\n+OK\r\n") {
			t.Errorf("too many %s: %q", name, got[max(0, len(got)-100):])
		}
	}
	check.Equal(t, f.last.Load(), maxQueued, "IDs were issued")
	large := ask(10, func(int) string { return "LPOP snowflake 10000" })
	if n := strings.Count(large, "\r\n$"); n != 10*model.MaxBatch || !strings.HasSuffix(large, fmt.Sprintf("%d\r\n+OK\r\n", maxQueued+10*model.MaxBatch)) {
		t.Errorf("%d IDs, %q", n, large[len(large)-20:])
	}
}

// A client that others wrote: what failed is told, and no ID comes twice.
func TestMultiOfGoRedis(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		f := &fake{}
		_, addr := start(t, f, nil)
		c := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol})
		var good, bad *redis.IntCmd
		_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			good, bad = p.Incr(t.Context(), "snowflake"), p.Incr(t.Context(), "segment:numbers")
			return nil
		})
		if good.Val() != 1 || err == nil || bad.Err() == nil || errors.Is(err, redis.TxFailedErr) {
			t.Errorf("%v, %v, %v", good, bad, err)
		}
		if err := c.Watch(t.Context(), func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Incr(t.Context(), "snowflake").Err() })
			return err
		}, "snowflake"); err != nil || f.last.Load() != 2 {
			t.Errorf("%v, %d IDs", err, f.last.Load())
		}
		_ = c.Close()
	}
}
