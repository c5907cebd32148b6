package idtext

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
		return 0, fmt.Errorf("%w: shardKey is empty: send the number or the text by which your tables are sharded, "+
			"such as the ID of the user", ErrInvalidArgument)
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

// Shard is the shard of a queue ID, 0…63.
func Shard(id int64) int { return int(id >> 8 & (Shards - 1)) }
