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
	for reply, want := range map[string]string{
		"abc 7 0 0":               "{abc [] 0 7}",
		"abc 0 12 0 1 2 5":        "{abc [1 2 5] 12 0}",
		"abc 0 12 3 7":            "{abc [7 8 9 10] 12 0}",
		"a 0 0 1 562949953421310": "{a [562949953421310 562949953421311] 0 0}",
		"":                        "", "a": "", "a 0 0": "", "a  0 0 0": "", "a 0 0 0  1": "", "a 0 0 0 0": "",
		"a 0 0 0 -1": "", "a 0 0 0 1e3": "", "a 0 0 0 562949953421312": "", "a 0 0 0 1 2 x": "", "a 0 0 1": "",
		"a 0 0 1 5 6": "", "a 0 0 1 0": "", "a 0 0 10000 5": "", "a 0 0 1 562949953421311": "",
	} {
		p, err := decodePopped(reply)
		got := fmt.Sprint(p)
		if want != "" && got != want || (err == nil) != (want != "") || err != nil && len(p.Indices) > 0 {
			t.Errorf("%q: got %s, %v, want %s", reply, got, err, want)
		}
	}
}

// TestChecks: servers that are not here, by what they say beside a good one, and what of it is not ok.
func TestChecks(t *testing.T) {
	const good = "redis_version=7.2.4 role=master maxmemory=0 clock=" + model.ClockRight + " "
	for says, want := range map[string]string{
		"":                       "",
		"redis_version=6.0.20":   "version unsafe",
		"redis_version=6.2.0":    "",
		"redis_version=unstable": "version unsafe",
		"role=active-replica":    "role unsafe", // KeyDB
		"mvcc_depth=0":           "role warn",   // KeyDB
		"maxmemory=1 maxmemory_policy=noeviction":   "",
		"maxmemory=1 maxmemory_policy=volatile-ttl": "maxmemory-policy warn",
		"maxmemory=1 maxmemory_policy=allkeys-lru":  "maxmemory-policy unsafe",
		"redis_version= maxmemory= clock=":          "version unknown, maxmemory-policy unknown, clock unknown",
		"clock=1h":                                  "clock warn",
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
		"10 - -\n-\n9007199254740991": "[{10 [-1 -1] false <nil>} {0 [] true <nil>} {9007199254740991 [] false <nil>}]",
		"":                            "", "10 1 6\n10 0": "", "10 1 6\n10 0\n10\n10": "", "10 1\n10 0\n10": "",
		"10 1 6 7\n10 0\n10": "", "10 11 6\n10 0\n10": "", "10 1 4\n10 0\n10": "", "10 1 x\n10 0\n10": "",
		"10 1 6\n10 0\n9007199254740992": "", "10 1 -6\n10 0\n10": "",
	} {
		answers := make([]model.SectionAnswer, 3)
		err := readLines(reply, len(asks), func(i int, f *fields) { answers[i] = readNumbers(asks[i].Asks, f) })
		if got := fmt.Sprint(answers); want != "" && got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %s, %v, want %s", reply, got, err, want)
		}
	}
}

// Every form that people paste says the same in options, and what is wrong with another one is said without its
// password.
func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"h":                               "single [h:6379]",
		"10.0.0.5:6380":                   "single [10.0.0.5:6380]",
		"redis://h":                       "single [h:6379]",
		"redis://[::1]:1/2":               "single [[::1]:1] 2",
		"redis://:p%2Fw@h:1/":             "single [h:1] :p/w",
		"redis://u:p@w@h:1":               "single [h:1] u:p@w",
		"rediss://u:pw@h:1/15":            "single [h:1] 15 u:pw TLS",
		"rediss://h?skip_verify=true":     "single [h:6379] TLS of anybody",
		"redis://h?db=3&pool_size=7":      "single [h:6379] 3 pool 7",
		"redis://h?read_timeout=3s":       "single [h:6379] 3s",
		"a:1,b:2":                         "cluster [a:1 b:2]",
		"redis://u:pw@a,b:2,[::1]:3":      "cluster [a:6379 b:2 [::1]:3] u:pw",
		"redis://a:1?addr=b:2&addr=c:3":   "cluster [a:1 b:2 c:3]",
		"rediss://a:1?cluster=true":       "cluster [a:1] TLS",
		"redis://s1,s2:2/4?master_name=m": "sentinel [s1:26379 s2:2] 4 of m",
		"redis://u:pw@s1:1?master_name=m&addr=s2:2&sentinel_username=su&sentinel_password=sp": "sentinel [s1:1 s2:2] " +
			"u:pw of m by su:sp",

		"":                                   errURL.Error(),
		"http://h:1":                         errURL.Error(),
		"unix:///run/redis.sock":             errURL.Error(),
		"redis://":                           errURL.Error(),
		"redis://:secret/x@h:1":              errURL.Error(),
		"redis://:secret#x@h:1":              errURL.Error(),
		"redis://h:secret":                   errURL.Error(),
		"redis://h:1,b:secret":               errURL.Error(),
		"redis://h:1,b:99999999":             errPort.Error(),
		"h:0":                                errPort.Error(),
		"redis://h:1?addr=secret@b:1":        errURL.Error(),
		"redis://h:1,,b:1":                   errURL.Error(),
		"redis://h/secret":                   errParameter.Error(),
		"redis://h/-1":                       errParameter.Error(),
		"redis://h?secret":                   errParameter.Error(),
		"redis://h?pool_size=secret":         errParameter.Error(),
		"redis://h?max_retries=3":            errParameter.Error(),
		"redis://h?read_timeout=0":           errParameter.Error(),
		"redis://h?skip_verify=true":         errParameter.Error(),
		"redis://h?cluster=secret":           errParameter.Error(),
		"redis://h/1?cluster=true":           errClusterDB.Error(),
		"redis://h?sentinel_password=secret": errNoSentinel.Error(),
	} {
		o, err := ParseURL(text)
		got := fmt.Sprintf("%s %v", o.Mode, o.Addrs)
		if o.DB != 0 {
			got += fmt.Sprint(" ", o.DB)
		}
		if o.Username+o.Password != "" {
			got += " " + o.Username + ":" + o.Password
		}
		if o.ReadTimeout != 0 {
			got += " " + o.ReadTimeout.String()
		}
		if o.PoolSize != 0 {
			got += fmt.Sprint(" pool ", o.PoolSize)
		}
		if o.TLS != nil {
			got += " TLS"
			if o.TLS.InsecureSkipVerify {
				got += " of anybody"
			}
			if o.TLS.ServerName != "" {
				t.Errorf("%s asks every server for the name %s", text, o.TLS.ServerName)
			}
		}
		if o.MasterName != "" {
			got += " of " + o.MasterName
		}
		if o.SentinelUsername != "" {
			got += " by " + o.SentinelUsername + ":" + o.SentinelPassword
		}
		if err != nil {
			got = err.Error()
		}
		if got != want || strings.Contains(got, "secret") && err == nil {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}
