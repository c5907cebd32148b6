package resp

import (
	"fmt"
	"strings"

	"shardid/model"
)

// integers says how INCR writes an ID above what JavaScript's numbers hold.
type integers int

const (
	plain   integers = iota // as every other
	big                     // as a big number of RESP3, which the client is known to read exactly
	refused                 // not at all: the client is known to round it
)

// exact is the largest integer that JavaScript tells from the next one.
const exact = 1<<53 - 1

// setIntegers goes by the library that the client names. Those that round tell a big number from an
// integer; others, such as Lettuce and older Jedis, fail on one. A program whose library reads integers as
// strings says so by the library's tag, as in "ioredis(strings)".
func (c *conn) setIntegers() {
	library, tag, _ := strings.Cut(c.library, "(")
	switch rounds := library == "node-redis" || library == "ioredis" || library == "GlideJS"; {
	case rounds && c.resp3:
		c.integers = big
	case rounds && tag != "strings)":
		c.integers = refused
	default:
		c.integers = plain
	}
}

// rounds is the error for a library that would round an ID, which is left out.
func (c *conn) rounds() error {
	return fmt.Errorf("%w: %s rounds integers above 2^53, so this ID was left out: send LPOP, which answers a string, "+
		"or speak RESP3 (RESP: 3 of node-redis, protocol: 3 of ioredis 6, the default of GLIDE); "+
		"a program that reads integers as strings says so by clientInfoTag: \"strings\"",
		model.ErrInvalidArgument, c.library)
}
