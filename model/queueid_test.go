package model_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"shardid/model"
)

func ExampleListKey_Compose() {
	key := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
	fmt.Println(key.Compose(1))
	// Output: 16385
}

func ExampleDecodeQueueID() {
	id, err := model.DecodeQueueID(16385)
	fmt.Println(id.Index, id.Shard, id.App, err)
	// Output: 1 0 1 <nil>
}

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
		if got := c.key.Compose(c.index); got != c.want {
			t.Errorf("%v.Compose(%d) = %d, want %d", c.key, c.index, got, c.want)
		}
	}
}

func TestDecodeRefusesWhatIsNeverIssued(t *testing.T) {
	for _, id := range []int64{math.MinInt64, -1, 0, 1, 1<<14 - 1} {
		if got, err := model.DecodeQueueID(id); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("DecodeQueueID(%d) = %v, %v", id, got, err)
		}
	}
}

func TestNewListKeyRanges(t *testing.T) {
	for _, c := range [][2]int64{{-1, 0}, {256, 0}, {300, 0}, {0, -1}, {0, 64}, {math.MaxInt64, 0}} {
		if got, err := model.NewListKey(c[0], c[1]); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("NewListKey(%d, %d) = %v, %v", c[0], c[1], got, err)
		}
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
		if got := key.LastIndexWithin(c.limit); got != c.want {
			t.Errorf("LastIndexWithin(%d) = %d, want %d", c.limit, got, c.want)
		}
	}
}

// Whatever is composed decodes to the same parts, is positive, and
// LastIndexWithin of the ID is its index.
func FuzzComposeDecode(f *testing.F) {
	f.Add(int64(1), uint8(0), uint8(1))
	f.Add(model.MaxIndex, uint8(63), uint8(255))
	f.Fuzz(func(t *testing.T, index int64, shard, app uint8) {
		index = max(index&model.MaxIndex, 1)
		key := model.ListKey{App: app, Shard: shard % model.Shards}
		id := key.Compose(index)
		got, err := model.DecodeQueueID(id)
		if err != nil || got.Index != index || got.ListKey != key {
			t.Fatalf("DecodeQueueID(%d) = %+v, %v, want %d %v", id, got, err, index, key)
		}
		if last := key.LastIndexWithin(id); last != index {
			t.Fatalf("LastIndexWithin(%d) = %d, want %d", id, last, index)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add("queue", int64(16385))
	f.Add("snowflake", int64(-1))
	f.Add("uid", int64(math.MaxInt64))
	d := model.Decoder{SnowflakeEpochMs: 1288834974657, UID: model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13}}
	f.Fuzz(func(t *testing.T, kind string, id int64) {
		parts, err := d.Decode(kind, id)
		if (err == nil) != (len(parts) > 0) {
			t.Fatalf("Decode(%q, %d) = %v, %v", kind, id, parts, err)
		}
		if err != nil && !errors.Is(err, model.ErrInvalidArgument) {
			t.Fatalf("Decode(%q, %d): %v", kind, id, err)
		}
	})
}

func BenchmarkCompose(b *testing.B) {
	key := model.ListKey{App: 1, Shard: 2}
	var sum int64
	for i := int64(1); b.Loop(); i++ {
		sum += key.Compose(i)
	}
	_ = sum
}
