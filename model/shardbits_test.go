package model_test

import (
	"fmt"
	"math"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// Shard bits are kept as a numbering, which nothing else is taken for.
func TestShardNumbering(t *testing.T) {
	for bits := range int64(17) {
		n, err := model.ShardNumbering(bits)
		check.Must(t, err)
		check.Equal(t, n.ShardBits(), uint(bits))
		numbers, err := n.Numbers()
		check.OK(t, err)
		check.Equal(t, numbers, nil, "how texts are shown")
	}
	for _, bits := range []int64{-1, 17, math.MaxInt64} {
		check.Is(t, check.Err(model.ShardNumbering(bits)), model.ErrInvalidArgument, bits)
	}
	ten, _ := model.ShardNumbering(10)
	for _, change := range []func(*model.Numbering){
		func(n *model.Numbering) { n.Pattern = "{shard:17}" }, func(n *model.Numbering) { n.Pattern = "{shard:010}" },
		func(n *model.Numbering) { n.Pattern = "{shard:10" }, func(n *model.Numbering) { n.Reset = model.ResetDay },
		func(n *model.Numbering) { n.Zone = "+08:00" }, func(n *model.Numbering) { n.Overflow = model.OverflowWiden },
	} {
		other := ten
		change(&other)
		check.Is(t, check.Err(other.Numbers()), model.ErrInvalidArgument, other)
		check.Equal(t, other.ShardBits(), 0, other)
	}
	check.Equal(t, fmt.Sprint(ten, model.Numbering{}), "10 shard bits plain IDs")
}

// A key is given where there are shard bits, and nowhere else.
func TestLowBits(t *testing.T) {
	given, later := model.ShardKey{Given: true, Value: math.MaxUint64 - 1}, model.ShardKey{Later: true}
	for _, c := range []struct {
		key  model.ShardKey
		bits uint
		want int64
	}{{given, 1, 0}, {given, 10, 1022}, {given, 16, 65534}, {later, 16, 0}, {model.ShardKey{}, 0, 0}} {
		low, err := c.key.Low("orders", c.bits)
		check.OK(t, err)
		check.Equal(t, low, c.want, c)
	}
	for remedy, key := range map[string]model.ShardKey{"leave the shard key out": given, "leave the": later} {
		_, err := key.Low("orders", 0)
		check.Is(t, err, model.ErrInvalidArgument)
		check.Has(t, err.Error(), remedy)
	}
	_, err := model.ShardKey{}.Low("orders", 10)
	check.Is(t, err, model.ErrInvalidArgument)
	check.Has(t, err.Error(), "send a shard key")
}

// The parts of an ID of a tag are its number and what its key says, with the region where there is one.
func TestDecodeSegment(t *testing.T) {
	r := model.Region{ID: 1, Bits: 2}
	for want, d := range map[string]model.Decoder{
		"[{number 5} {shard 666}]":            {},
		"[{region 1} {number 1} {shard 666}]": {Region: r},
	} {
		parts, err := d.Decode(model.KindSegment, 5<<10|666, 10)
		check.OK(t, err)
		check.Equal(t, fmt.Sprint(parts), want)
	}
	for _, c := range []struct {
		kind string
		id   int64
		bits int
	}{{model.KindSegment, 0, 1}, {model.KindSegment, 1, 17}, {model.KindSegment, 1, -1}, {model.KindUID, 1, 1}} {
		check.Is(t, check.Err(model.Decoder{}.Decode(c.kind, c.id, c.bits)), model.ErrInvalidArgument, c)
	}
}
