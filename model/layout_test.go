package model_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"shardid/client/idgen"
	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
)

func TestComposeAtTheEdges(t *testing.T) {
	for _, c := range []struct {
		key   model.ListKey
		index int64
		want  int64
	}{
		{model.ListKey{App: 0, Shard: 0}, 1, 1 << 14},
		{model.ListKey{App: 255, Shard: 63}, 1, 1<<14 | 63<<8 | 255},
		{model.ListKey{App: 255, Shard: 63}, model.MaxIndex, math.MaxInt64},
		{model.ListKey{App: 0, Shard: 0}, model.MaxIndex, math.MaxInt64 - (1<<14 - 1)},
		{model.ListKey{App: 7, Shard: 41}, 12345, 12345<<14 | 41<<8 | 7},
	} {
		check.Equal(t, c.key.Compose(c.index), c.want, c.key, c.index)
		key, index, err := model.DecodeQueueID(c.want)
		check.OK(t, err)
		check.Equal(t, key, c.key)
		check.Equal(t, index, c.index)
	}
}

// What is never issued, and what is no list, is refused.
func TestArgumentsThatAreNoIDs(t *testing.T) {
	d := model.Decoder{
		Snowflake: model.SnowflakeLayout(1288834974657, 10, 12), UID: baidu(),
	}
	for _, id := range []int64{math.MinInt64, -1, 0} {
		for _, kind := range []string{model.KindQueue, model.KindSnowflake, model.KindUID, "number"} {
			check.Is(t, check.Err(d.Decode(kind, id, 0)), model.ErrInvalidArgument, kind, id)
		}
	}
	for _, id := range []int64{1, 1<<14 - 1} {
		check.Is(t, check.Err(d.Decode(model.KindQueue, id, 0)), model.ErrInvalidArgument, id)
	}
	for _, c := range [][2]int64{{-1, 0}, {256, 0}, {0, -1}, {0, 64}, {math.MaxInt64, 0}} {
		check.Is(t, check.Err(model.NewListKey(c[0], c[1])), model.ErrInvalidArgument, "NewListKey", c[0], c[1])
	}
	if got, err := model.NewListKey(255, 63); err != nil || got.String() != "255_63" {
		t.Errorf("NewListKey(255, 63) = %v, %v", got, err)
	}
}

func TestLastIndexWithin(t *testing.T) {
	key := model.ListKey{App: 1, Shard: 2}
	for _, c := range []struct{ limit, want int64 }{
		{0, model.MaxIndex},
		{1, 0},
		{key.Compose(1) - 1, 0},
		{key.Compose(1), 1},
		{key.Compose(4) - 1, 3},
		{key.Compose(4), 4},
		{math.MaxInt64, model.MaxIndex},
	} {
		check.Equal(t, key.LastIndexWithin(c.limit), c.want, "LastIndexWithin", c.limit)
	}
}

// baidu is the layout of the published example: its epoch is a day in Shanghai.
func baidu() idgen.Layout {
	day := time.Date(2016, time.May, 20, 0, 0, 0, 0, time.FixedZone("Asia/Shanghai", 8*3600))
	return model.UIDLayout(28, 22, 13, day)
}

// What is recorded in the database may not change.
func TestLayoutTexts(t *testing.T) {
	const epoch = 1288834974657
	check.Equal(t, model.UIDText(baidu()), "time_bits=28 worker_bits=22 seq_bits=13 epoch=2016-05-19T16:00:00Z")
	check.Equal(t, model.SnowflakeText(model.SnowflakeLayout(epoch, 10, 12)), "epoch_ms=1288834974657")
	check.Equal(t, model.SnowflakeText(model.SnowflakeLayout(epoch, 5, 7)),
		"worker_bits=5 seq_bits=7 epoch_ms=1288834974657")
	name := model.Name{Layout: model.NameLayout(epoch, 10, 12, 6)}
	check.Equal(t, name.LayoutText(), "epoch_ms=1288834974657 worker_bits=10 seq_bits=12 shard_bits=6")
}

// The first and the last ID that a layout allows are positive, and are taken apart into what they are of.
func TestUIDBounds(t *testing.T) {
	for _, widths := range [][3]uint{{28, 22, 13}, {61, 1, 1}, {1, 1, 61}, {1, 61, 1}, {32, 18, 13}} {
		l := model.UIDLayout(widths[0], widths[1], widths[2], time.Unix(baidu().Epoch, 0))
		check.OK(t, l.Check(), widths)
		first := l.Compose(l.Epoch+1, 0, 0)
		last := l.Compose(l.MaxTime(), l.Workers()-1, l.Sequences()-1)
		if first <= 0 || last != math.MaxInt64 {
			t.Errorf("%v: IDs from %d to %d", widths, first, last)
		}
		parts, err := model.Decoder{UID: l}.Decode(model.KindUID, last, 0)
		check.OK(t, err, widths)
		check.Equal(t, fmt.Sprint(parts[0], parts[2:]),
			fmt.Sprintf("{timestamp %d} [{workerId %d} {sequence %d}]", l.MaxTime(), l.Workers()-1, l.Sequences()-1))
	}
}

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
