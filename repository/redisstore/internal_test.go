//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestDecodePopped(t *testing.T) {
	good := map[string]model.Popped{
		"abc 0 0 0":               {Life: "abc"},
		"abc 7 0 0":               {Life: "abc", Purged: 7},
		"abc 0 12 0 1 2 5":        {Life: "abc", Len: 12, Indices: []int64{1, 2, 5}},
		"a 0 0 0 562949953421311": {Life: "a", Indices: []int64{model.MaxIndex}},
		"abc 0 12 3 7":            {Life: "abc", Len: 12, Indices: []int64{7, 8, 9, 10}},
		"a 0 0 1 562949953421310": {Life: "a", Indices: []int64{model.MaxIndex - 1, model.MaxIndex}},
	}
	for reply, want := range good {
		got, err := decodePopped(reply)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %+v, %v, want %+v", reply, got, err, want)
		}
	}
	for _, reply := range []string{"", "a", "a 0", "a 0 0", "a  0 0 0", " 0 0 0", "a 0 0 0 ", "a 0 0 0  1", "a 0 0 0 0", "a 0 0 0 -1", "a 0 0 0 1e3",
		"a 0 0 0 1.5", "a 0 0 0 562949953421312", "a 0 0 0 99999999999999999999999", "a x 0 0 1", "a 0 0 0 01", "a 0 0 0 1 2 x", "a 0 0 0 1\n2",
		"a 0 0 1", "a 0 0 1 ", "a 0 0 1 5 6", "a 0 0 1 0", "a 0 0 -1 5", "a 0 0 x 5", "a 0 0 10000 5", "a 0 0 1 562949953421311"} {
		if got, err := decodePopped(reply); err == nil || got.Indices != nil {
			t.Errorf("%q: got %+v, %v, want an error", reply, got, err)
		}
	}
}

func TestDecodeStates(t *testing.T) {
	states := make([]model.ListState, 3)
	check.Must(t, decodeStates("abc 1 2 3\n!WRONGTYPE no list\nd 0 0 0", states))
	if states[0] != (model.ListState{Life: "abc", Len: 1, HighWater: 2, Purged: 3}) || states[1].Err == nil ||
		states[2] != (model.ListState{Life: "d"}) {
		t.Errorf("%+v", states)
	}
	for _, reply := range []string{"", "a", "a 1 2 3", "a 1 2 3\na 1 2 3\na 1 2", "a 1 2 3\na 1 2 3\na 1 2 3 4", "a 1 2 3\na 1 2 3\na x 2 3", "a 1 2 3\na 1 2 3\n1 2 3"} {
		states := make([]model.ListState, 3)
		if err := decodeStates(reply, states); err == nil && states[2].Err == nil {
			t.Errorf("%q: no error: %+v", reply, states)
		}
	}
	if err := decodeStates("a 0 0 0\na 0 0 0", make([]model.ListState, 1)); err == nil {
		t.Error("more lines than lists")
	}
}

// FuzzDecodePopped compares the parser by hand with a slow one.
func FuzzDecodePopped(f *testing.F) {
	for _, seed := range []string{"abc 0 12 0 1 2 5", "a 0 0 0", "a 0 0 0 ", "", "a 1 2 0 562949953421311", "a 0 0 0 007", "a 0 0 0 1 18446744073709551617",
		"a 0 3 2 7", "a 0 0 10000 1", "a 0 0 1 5 6"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		got, err := decodePopped(reply)
		want, ok := slowly(reply)
		if (err == nil) != ok {
			t.Fatalf("%q: %+v, %v, slowly %v %v", reply, got, err, want, ok)
		}
		if ok && (!slices.Equal(got.Indices, want[3:]) || got.Purged != want[0] || got.Len != want[1]) {
			t.Fatalf("%q: %+v, slowly %v", reply, got, want)
		}
	})
}

func slowly(reply string) (numbers []int64, ok bool) {
	words := strings.Split(reply, " ")
	if len(words) < 4 || words[0] == "" {
		return nil, false
	}
	for i, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 || n > model.MaxIndex || strconv.FormatInt(n, 10) != word || i >= 3 && n == 0 {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	more := numbers[2]
	if more > 0 && (len(words) != 5 || more >= MaxPop || numbers[3]+more > model.MaxIndex) {
		return nil, false
	}
	for i := range more {
		numbers = append(numbers, numbers[3]+i+1)
	}
	return numbers, true
}

func BenchmarkDecodePopped(b *testing.B) {
	const head = "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb 0 0 "
	for name, reply := range map[string]string{
		"1": head + "0" + strings.Repeat(" 1000000000", 1), "100": head + "0" + strings.Repeat(" 1000000000", 100),
		"10000": head + "0" + strings.Repeat(" 1000000000", 10_000), "a run of 10000": head + "9999 1000000000",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodePopped(reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestJudge: servers that are not here, by what they say.
func TestJudge(t *testing.T) {
	const redis7 = "redis_version:7.0.15\r\nrole:master\r\n"
	yes := map[string]string{"replica-read-only": "yes"}
	for name, c := range map[string]struct {
		info    string
		config  map[string]string
		setting string
		value   string
		want    model.Level
	}{
		"old":             {"redis_version:6.0.20\r\n", yes, "version", "Redis 6.0.20", model.LevelUnsafe},
		"least":           {"redis_version:6.2.0\r\n", yes, "version", "Redis 6.2.0", model.LevelOK},
		"valkey":          {"redis_version:7.2.4\r\nserver_name:valkey\r\n", yes, "version", "Valkey 7.2.4", model.LevelOK},
		"valkey 9":        {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n", yes, "version", "Valkey 9.1.2", model.LevelOK},
		"dragonfly":       {"redis_version:7.4.0\r\ndragonfly_version:df-v1.2\r\n", yes, "product", "Dragonfly", model.LevelUnsafe},
		"keydb":           {"redis_version:6.3.4\r\nmvcc_depth:0\r\n", yes, "product", "KeyDB", model.LevelUnknown},
		"elasticache":     {redis7 + "os:Amazon ElastiCache\r\n", nil, "product", "ElastiCache", model.LevelUnknown},
		"redis itself":    {redis7, nil, "product", "Redis", model.LevelOK},
		"redis":           {redis7, nil, "active-active", "no", model.LevelOK},
		"keydb active":    {"redis_version:6.3.4\r\nrole:active-replica\r\n", nil, "active-active", "yes", model.LevelUnsafe},
		"keydb single":    {redis7, map[string]string{"active-replica": "yes"}, "active-active", "yes", model.LevelUnsafe},
		"keydb multi":     {redis7, map[string]string{"multi-master": "yes"}, "active-active", "yes", model.LevelUnsafe},
		"keydb managed":   {redis7 + "mvcc_depth:0\r\n", nil, "active-active", "", model.LevelUnknown},
		"managed, full":   {redis7 + "maxmemory:100\r\nmaxmemory_policy:volatile-lru\r\n", nil, "maxmemory-policy", "volatile-lru", model.LevelWarn},
		"managed, evicts": {redis7 + "maxmemory:100\r\nmaxmemory_policy:allkeys-lfu\r\n", nil, "maxmemory-policy", "allkeys-lfu", model.LevelUnsafe},
		"managed, save":   {redis7 + "aof_enabled:0\r\n", nil, "persistence", "AOF off, RDB not told", model.LevelOK},
		"says nothing":    {"", nil, "version", "", model.LevelUnknown},
	} {
		f := facts{info: parseInfo(c.info), config: c.config}
		for _, got := range f.findings() {
			if got.Setting == c.setting && (got.Level != c.want || got.Value != c.value) {
				t.Errorf("%s: %+v, want %q, %s", name, got, c.value, c.want)
			}
		}
	}
}

// TestJudgeWritableReplica: it matters more where scripts cannot see the role.
func TestJudgeWritableReplica(t *testing.T) {
	f := facts{config: map[string]string{"replica-read-only": "no"}}
	if _, level, why := f.readOnly(); level != model.LevelWarn {
		t.Error(level, why)
	}
	f.refusal = errors.New("HISTORYHIDDEN")
	if _, level, why := f.readOnly(); level != model.LevelUnsafe {
		t.Error(level, why)
	}
}

// Pushes take turns. Nothing is sent before one's turn, which ends with the round
// trip, whatever became of it.
func TestPushesTakeTurns(t *testing.T) {
	s, err := New(Options{Mode: ModeSingle, Addrs: []string{"127.0.0.1:1"}})
	check.Must(t, err)
	defer s.Close()
	push := func(ctx context.Context) error {
		return s.Push(ctx, []model.PushRequest{{Life: "h", Segment: model.Segment{First: 1, Last: 9000}, Cap: 1}})[0]
	}
	for range cap(s.pushing) { // somebody else's
		s.pushing <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	check.Is(t, push(ctx), context.DeadlineExceeded, "without a turn")
	for len(s.pushing) > 0 {
		<-s.pushing
	}
	for range cap(s.pushing) + 1 {
		var store *model.StoreError
		if err := push(t.Context()); !errors.As(err, &store) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no server: %v", err)
		}
	}
	check.Equal(t, len(s.pushing), 0, "turns were not given back")
}

// TestPreludeJudgesHistory: what other servers say of their replication, before the
// scripts' own first lines. redis is hidden by a table that answers for them.
func TestPreludeJudgesHistory(t *testing.T) {
	client := testserver.SharedRedis(t).Client()
	id := strings.Repeat("5f", 20)
	for name, c := range map[string]struct{ info, want string }{
		"Redis":     {"role:master\r\nmaster_replid:" + id + "\r\nmaster_replid2:0000\r\n", id},
		"Dragonfly": {"role:master\r\nconnected_slaves:0\r\nmaster_replid:" + id + "\r\n", "HISTORYHIDDEN"},
		"zeros":     {"role:master\r\nmaster_replid:0000\r\nmaster_replid2:0000\r\n", "HISTORYHIDDEN"},
		"a replica": {"role:slave\r\nmaster_replid:" + id + "\r\nmaster_replid2:0000\r\n", "READONLY"},
		"no ID":     {"role:master\r\nmaster_replid2:0000\r\n", "HISTORYHIDDEN"},
		"no answer": {"", "HISTORYHIDDEN"},
	} {
		const stub = "local redis = {pcall = function() return ARGV[2] end, error_reply = redis.error_reply, call = redis.call}\n"
		got, err := client.Eval(t.Context(), stub+newScript(nil, "prelude").text+"\nreturn replid", nil, "d", c.info).Text()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
