package model

import (
	"encoding/binary"
	"slices"
	"strconv"
)

// Decimals writes positive IDs in decimal digits. Those of a batch are close to each other:
// all digits but the last eight are mostly those of the ID before, and the eight are made at
// once. The zero value is ready; not safe for concurrent use.
type Decimals struct {
	high int64    // what the first digits show
	n    int      // how many those are
	head [16]byte // them
}

// tail is what the last eight digits count.
const tail = 100_000_000

// Append appends the digits of an ID.
func (d *Decimals) Append(b []byte, id int64) []byte {
	high, low := id/tail, id%tail
	if high <= 0 {
		return strconv.AppendInt(b, id, 10)
	}
	if high != d.high {
		d.high, d.n = high, len(strconv.AppendInt(d.head[:0], high, 10))
	}
	at, room := len(b), len(d.head)+8
	b = slices.Grow(b, room)[:at+room]
	*(*[16]byte)(b[at:]) = d.head // all of it is faster than so many
	binary.LittleEndian.PutUint64(b[at+d.n:], eightDigits(uint64(low)))
	return b[:at+d.n+8]
}

// eightDigits is a number below 10^8 as ASCII, its first digit in the lowest byte.
// Each step halves all parts of the number at once: 8 digits, 4 and 4, 2 and 2 and
// 2 and 2. The multiplications are divisions, exact below 10 000 and below 100.
func eightDigits(n uint64) uint64 {
	n = n/10_000 | n%10_000<<32
	q := n * 5243 >> 19 & 0x7f_0000_007f
	n = q | (n-q*100)<<16
	q = n * 103 >> 10 & 0x0f_000f_000f_000f
	n = q | (n-q*10)<<8
	return n | 0x3030_3030_3030_3030
}
