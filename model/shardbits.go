package model

import (
	"fmt"
	"strconv"
	"strings"

	"shardid/client/idtext"
)

// A tag with shard bits has IDs whose low bits are those of a shard key, which each caller gives: number<<bits | k.
// A number is issued once, whatever the key, so an ID is. Two widths would repeat IDs, so a tag gets its shard bits
// when it is made, and they never change. They are kept as a numbering is, in place of a pattern: a version that does
// not know them refuses the tag.

// shardField is the pattern of a tag with shard bits, with their number behind it.
const shardField = "{shard:"

// ShardNumbering is that of a tag with shard bits; the zero value for none. Errors: ErrInvalidArgument.
func ShardNumbering(bits int64) (Numbering, error) {
	switch {
	case bits == 0:
		return Numbering{}, nil
	case bits < 1 || bits > idtext.MaxShardBits:
		return Numbering{}, fmt.Errorf("%w: give 1 to %d shard bits, not %d", ErrInvalidArgument, idtext.MaxShardBits,
			bits)
	}
	return Numbering{shardField + strconv.FormatInt(bits, 10) + "}", ResetNone, "UTC", OverflowRefuse}, nil
}

// ShardBits is how many low bits of an ID are its shard key's, 1…16; 0 for a numbering that has none.
func (n Numbering) ShardBits() uint {
	text, found := strings.CutPrefix(n.Pattern, shardField)
	if !found {
		return 0
	}
	bits, _ := strconv.ParseInt(strings.TrimSuffix(text, "}"), 10, 64)
	if known, err := ShardNumbering(bits); err != nil || known != n {
		return 0
	}
	return uint(bits)
}

// String says what a numbering is, for people.
func (n Numbering) String() string {
	switch bits := n.ShardBits(); {
	case n == Numbering{}:
		return "plain IDs"
	case bits > 0:
		return fmt.Sprintf("%d shard bits", bits)
	}
	return fmt.Sprintf("the pattern %s with reset %s, zone %s and overflow %s", n.Pattern, n.Reset, n.Zone, n.Overflow)
}

// ShardKey is what a caller says of the shard of an ID. The zero value says nothing.
type ShardKey struct {
	Given bool
	Value uint64 // as idtext.ShardKey has it
	Later bool   // the caller adds the bits to the IDs that it gets
}

// ReadShardKey reads a shard key. Errors: ErrInvalidArgument.
func ReadShardKey(text string) (ShardKey, error) {
	value, err := idtext.ShardKey(text)
	return ShardKey{Given: err == nil, Value: value}, err
}

// Low gives the low bits of the IDs of a tag with so many shard bits. Errors: ErrInvalidArgument for a tag that needs
// a key and gets none, or has no shard bits and gets one.
func (k ShardKey) Low(tag string, bits uint) (int64, error) {
	switch {
	case (k.Given || k.Later) == (bits > 0):
		return int64(k.Value & (1<<bits - 1)), nil
	case k.Given || k.Later:
		return 0, fmt.Errorf("%w: leave the shard key out: tag %q has no shard bits, so its IDs do not follow a key",
			ErrInvalidArgument, tag)
	}
	return 0, fmt.Errorf("%w: send a shard key, such as shardKey=666 over HTTP or sharded:%s:666 over RESP: the last "+
		"%d bits of the IDs of tag %q are those of a key", ErrInvalidArgument, tag, bits, tag)
}

// MaxTagNumber is the highest number of a tag with so many shard bits.
func MaxTagNumber(bits uint) int64 { return (MaxTagID - 1) >> bits }
