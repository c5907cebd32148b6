package model_test

import (
	"fmt"
	"strings"
	"testing"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
)

// The values are Java's: "…".hashCode() and Math.abs of it mod 64.
func TestJavaHashVectors(t *testing.T) {
	for _, c := range []struct {
		pass  string
		hash  int32
		shard uint8
	}{
		{"a", 97, 33},
		{"hello", 99162322, 18},
		{"张三", 774889, 41},
		{"alice", 92903040, 0},
		{"polygenelubricants", -2147483648, 0},
		{"😀", 1772899, 35},
		{"", 0, 0},
	} {
		if h, s := idtext.JavaHash(c.pass), idtext.ShardOf(c.pass); h != c.hash || s != c.shard {
			t.Errorf("%q: hash %d, shard %d, want %d and %d", c.pass, h, s, c.hash, c.shard)
		}
	}
}

func TestCheckGatePass(t *testing.T) {
	for _, pass := range []string{"", strings.Repeat("x", 1025), "\xff", "a\xc3"} {
		check.Is(t, idtext.CheckGatePass(pass), model.ErrInvalidArgument, pass)
		check.Is(t, check.Err(idtext.CheckedShardOf(pass)), model.ErrInvalidArgument, pass)
	}
	for _, pass := range []string{"a", "张三", "😀", strings.Repeat("x", 1024), " "} {
		check.OK(t, idtext.CheckGatePass(pass), pass)
		shard, err := idtext.CheckedShardOf(pass)
		check.OK(t, err, pass)
		check.Equal(t, shard, idtext.ShardOf(pass), pass)
	}
}

// The snowflake decodes as Leaf's own monitor page shows it, the UID is the published example of Baidu's README.
func TestDecode(t *testing.T) {
	d := model.Decoder{
		Snowflake: model.SnowflakeLayout{EpochMs: 1288834974657, WorkerBits: 10, SeqBits: 12},
		UID:       baidu(),
	}
	for _, c := range []struct {
		kind string
		id   int64
		want string
	}{
		{"queue", 16385, "[{index 1} {shardId 0} {appId 1}]"},
		{"snowflake", 1169786042799259000, "[{timestamp 1567733700834} {time 2019-09-06T01:35:00.834Z} {workerId 39} " +
			"{sequenceId 3448}]"},
		{"uid", 3200169789968523265, "[{timestamp 1556810799} {time 2019-05-02T15:26:39Z} {workerId 21} {sequence 1}]"},
	} {
		parts, err := d.Decode(c.kind, c.id)
		if got := fmt.Sprint(parts); err != nil || got != c.want {
			t.Errorf("Decode(%s, %d) = %s, %v, want %s", c.kind, c.id, got, err, c.want)
		}
	}
}
