package idtext

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
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
		return fmt.Errorf("%w: pass the user name, phone number or e-mail address that the ID is for as gatePass: it "+
			"is missing or empty", ErrInvalidArgument)
	case len(pass) > MaxGatePassBytes:
		return fmt.Errorf("%w: shorten gatePass: it has %d bytes, at most %d are allowed", ErrInvalidArgument,
			len(pass), MaxGatePassBytes)
	case !utf8.ValidString(pass):
		return fmt.Errorf("%w: percent-encode the UTF-8 bytes of gatePass: it is not valid UTF-8", ErrInvalidArgument)
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

// MaxShardKeyBytes is the longest shard key, in bytes of UTF-8.
const MaxShardKeyBytes = 1024

// MaxShardBits is the most shard bits of a tag: 2^16 tables.
const MaxShardBits = 16

// ShardKey is what the low bits of an ID are taken from, so that its remainder by 2^n is that of the key: a text of
// decimal digits is that number, 0…2^64-1, and any other text is the CRC-32 (IEEE) of its UTF-8, which MySQL, PHP,
// Python and Java compute, too. Errors, with ErrInvalidArgument: an empty text, one with a blank at an end, digits
// behind a sign or a zero, a number above 2^64-1, more than MaxShardKeyBytes, and what is not UTF-8. What two callers
// could take for different keys is none.
func ShardKey(text string) (uint64, error) {
	digits := strings.TrimLeft(text, "+-")
	number := digits != "" && strings.Trim(digits, "0123456789") == ""
	switch {
	case text == "":
		return 0, fmt.Errorf("%w: send the number or the text by which your tables are sharded as shardKey, such as "+
			"the ID of the user: it is empty", ErrInvalidArgument)
	case len(text) > MaxShardKeyBytes:
		return 0, fmt.Errorf("%w: shorten shardKey: it has %d bytes, at most %d are allowed", ErrInvalidArgument,
			len(text), MaxShardKeyBytes)
	case !utf8.ValidString(text):
		return 0, fmt.Errorf("%w: percent-encode the UTF-8 bytes of shardKey: it is not valid UTF-8",
			ErrInvalidArgument)
	case strings.TrimSpace(text) != text:
		return 0, fmt.Errorf("%w: send shardKey without blanks at its ends, and + as %%2B: it is %.64q",
			ErrInvalidArgument, text)
	case !number:
		return uint64(crc32.ChecksumIEEE([]byte(text))), nil
	case len(digits) < len(text) || digits[0] == '0' && len(digits) > 1:
		return 0, fmt.Errorf("%w: send the digits of shardKey without a sign and without zeros before them: it is "+
			"%.64q, a number to one program and a text to another", ErrInvalidArgument, text)
	}
	key, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: send a shardKey of at most 2^64-1, or one with a letter: it is %.64q",
			ErrInvalidArgument, text)
	}
	return key, nil
}
