//go:build unix

package redisstore

import (
	"strings"
	"testing"

	"shardid/scripts/testserver"
)

// TestPreludeJudgesHistory: what other servers say of their replication, before the
// scripts' own first lines. redis is hidden by a table that answers for them.
func TestPreludeJudgesHistory(t *testing.T) {
	client := testserver.SharedRedis(t).Client()
	id := strings.Repeat("5f", 20)
	for name, c := range map[string]struct{ info, want string }{
		"Redis":       {"role:master\r\nmaster_replid:" + id + "\r\nmaster_replid2:0000\r\n", id},
		"Dragonfly":   {"role:master\r\nconnected_slaves:0\r\nmaster_replid:" + id + "\r\n", "HISTORYHIDDEN"},
		"zeros":       {"role:master\r\nmaster_replid:0000\r\nmaster_replid2:0000\r\n", "HISTORYHIDDEN"},
		"a replica":   {"role:slave\r\nmaster_replid:" + id + "\r\nmaster_replid2:0000\r\n", "READONLY"},
		"no ID":       {"role:master\r\nmaster_replid2:0000\r\n", "HISTORYHIDDEN"},
		"no answer":   {"", "HISTORYHIDDEN"},
		"opted out":   {"role:master\r\n", "opted"},
		"opted out 2": {"role:master\r\nmaster_replid:" + id + "\r\n", "opted"},
	} {
		const stub = "local redis = {pcall = function() return ARGV[2] end, error_reply = redis.error_reply, call = redis.call}\n"
		fallback := ""
		if strings.HasPrefix(name, "opted") {
			fallback = c.want
		}
		got, err := client.Eval(t.Context(), stub+newScript("prelude").text+"\nreturn history", nil, "d "+fallback, c.info).Text()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
