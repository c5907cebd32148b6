//go:build unix

package redisstore

import (
	"fmt"
	"strings"
	"testing"

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
	for _, reply := range []string{"", "a", "a 0", "a 0 0", "a  0 0 0", " 0 0 0", "a 0 0 0 ", "a 0 0 0  1",
		"a 0 0 0 0", "a 0 0 0 -1", "a 0 0 0 1e3",
		"a 0 0 0 1.5", "a 0 0 0 562949953421312", "a 0 0 0 99999999999999999999999", "a x 0 0 1", "a 0 0 0 01",
		"a 0 0 0 1 2 x", "a 0 0 0 1\n2",
		"a 0 0 1", "a 0 0 1 ", "a 0 0 1 5 6", "a 0 0 1 0", "a 0 0 -1 5", "a 0 0 x 5", "a 0 0 10000 5",
		"a 0 0 1 562949953421311"} {
		if got, err := decodePopped(reply); err == nil || got.Indices != nil {
			t.Errorf("%q: got %+v, %v, want an error", reply, got, err)
		}
	}
}

// TestChecks: servers that are not here, by what they say beside a good one, and what of it is not ok.
func TestChecks(t *testing.T) {
	const good = "scripts=run role=master redis_version=7.2.4 maxmemory=0 "
	for says, want := range map[string]string{
		"":                       "",
		"redis_version=6.0.20":   "version unsafe",
		"redis_version=6.2.0":    "",
		"redis_version=unstable": "version unsafe",
		"scripts=HISTORYHIDDEN":  "replication ID (master_replid) unsafe", // Dragonfly, a proxy
		"scripts=READONLY":       "role unsafe",
		"role=active-replica":    "active-active unsafe", // KeyDB
		"mvcc_depth=0":           "active-active warn",   // KeyDB
		"maxmemory=1 maxmemory_policy=noeviction":   "",
		"maxmemory=1 maxmemory_policy=volatile-ttl": "maxmemory-policy warn",
		"maxmemory=1 maxmemory_policy=allkeys-lru":  "maxmemory-policy unsafe",
		"redis_version= maxmemory=":                 "version unknown, maxmemory-policy unknown",
		"role=":                                     "role unknown, active-active unknown",
	} {
		f := facts{}
		for word := range strings.FieldsSeq(good + says) {
			name, value, _ := strings.Cut(word, "=")
			f[name] = value
		}
		var bad []string
		for _, c := range redisChecks() {
			if got := c.Finding(f); got.Level != model.LevelOK {
				bad = append(bad, got.Setting+" "+string(got.Level))
				check.Equal(t, got.Why != "", true, got, "why")
			}
		}
		check.Equal(t, strings.Join(bad, ", "), want, says)
	}
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
		const stub = "local redis = {pcall = function() return ARGV[2] end, call = redis.call, " +
			"error_reply = redis.error_reply}\n"
		got, err := client.Eval(t.Context(), stub+joinFiles([]luaFile{"prelude"})+"\nreturn replid", nil, "d", c.info).
			Text()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Numbers are read as they were given, and those that no section gives are refused.
func TestDecodeNext(t *testing.T) {
	asks := []model.SectionAsk{{Asks: []model.KeyAsk{{Key: "k", Count: 1}, {Key: "k", Count: 5}}},
		{Asks: []model.KeyAsk{{Key: "k"}}}, {}}
	for reply, want := range map[string]string{
		"10 1 6\n10 0\n10":            "[{10 [1 6] false <nil>} {10 [0] false <nil>} {10 [] false <nil>}]",
		"10 10 10\n10 10\n0":          "[{10 [10 10] false <nil>} {10 [10] false <nil>} {0 [] false <nil>}]",
		"-\n-\n-":                     "[{0 [] true <nil>} {0 [] true <nil>} {0 [] true <nil>}]",
		"10 4 -\n10 -\n10":            "[{10 [4 -1] false <nil>} {10 [-1] false <nil>} {10 [] false <nil>}]",
		"10 - -\n-\n9007199254740991": "[{10 [-1 -1] false <nil>} {0 [] true <nil>} {9007199254740991 [] false <nil>}]",
	} {
		answers := make([]model.SectionAnswer, 3)
		check.OK(t, decodeNext(reply, asks, answers), reply)
		check.Equal(t, fmt.Sprint(answers), want, reply)
	}
	for _, reply := range []string{"", "10 1 6\n10 0", "10 1 6\n10 0\n10\n10", "10 1\n10 0\n10", "10 1 6 7\n10 0\n10",
		"10 11 6\n10 0\n10", "10 1 4\n10 0\n10",
		"10 0 6\n10 0\n10", "10 1 x\n10 0\n10", "10 1 6\n10 0\n9007199254740992", "-1 1 6\n10 0\n10",
		"10 1  6\n10 0\n10", "10 1 6.0\n10 0\n10", "10 1e0 6\n10 0\n10", "10 1 -6\n10 0\n10"} {
		if err := decodeNext(reply, asks, make([]model.SectionAnswer, 3)); err == nil {
			t.Errorf("%q was read", reply)
		}
	}
}
