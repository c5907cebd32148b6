package idtext

import (
	"fmt"
	"unicode/utf8"
)

// Shards is how many shards an app has: 0…63.
const Shards = 64

// MaxGatePassBytes is the longest gatePass that is hashed, in bytes of UTF-8.
const MaxGatePassBytes = 1024

// CheckGatePass refuses, with ErrInvalidArgument, a gatePass that is empty,
// longer than MaxGatePassBytes, or not valid UTF-8.
func CheckGatePass(pass string) error {
	switch {
	case pass == "":
		return fmt.Errorf("%w: gatePass is missing or empty: pass the user name, phone number or e-mail address the "+
			"ID is for", ErrInvalidArgument)
	case len(pass) > MaxGatePassBytes:
		return fmt.Errorf("%w: gatePass has %d bytes, at most %d are allowed", ErrInvalidArgument, len(pass),
			MaxGatePassBytes)
	case !utf8.ValidString(pass):
		return fmt.Errorf("%w: gatePass is not valid UTF-8: percent-encode its UTF-8 bytes", ErrInvalidArgument)
	}
	return nil
}

// JavaHash is Java's String.hashCode: s[0]*31^(n-1) + … + s[n-1] in 32-bit
// arithmetic over the UTF-16 code units, so that a rune above U+FFFF counts as
// its two surrogates.
func JavaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r > 0xFFFF {
			r -= 0x10000
			h = 31*h + (0xD800 + r>>10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + r
	}
	return h
}

// ShardOf is the shard of a gatePass: |JavaHash| mod 64. The smallest int32 has
// no positive counterpart in 32 bits; its magnitude 2^31 falls on shard 0.
func ShardOf(gatePass string) uint8 { return shardOf(JavaHash(gatePass)) }

func shardOf(hash int32) uint8 {
	h := int64(hash)
	return uint8(max(h, -h) % Shards)
}

// CheckedShardOf is CheckGatePass and ShardOf, in one look at the text when that is ASCII.
func CheckedShardOf(gatePass string) (uint8, error) {
	if uint(len(gatePass)-1) < MaxGatePassBytes {
		var h int32
		var all byte
		rest := gatePass
		for ; len(rest) >= 4; rest = rest[4:] { // four at once, as each step waits for the one before
			a, b, c, d := rest[0], rest[1], rest[2], rest[3]
			h = 31*31*31*31*h + (31*31*31*int32(a) + 31*31*int32(b) + 31*int32(c) + int32(d))
			all |= a | b | c | d
		}
		for i := range len(rest) {
			h = 31*h + int32(rest[i])
			all |= rest[i]
		}
		if all < utf8.RuneSelf {
			return shardOf(h), nil
		}
	}
	return ShardOf(gatePass), CheckGatePass(gatePass)
}
