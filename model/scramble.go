package model

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Scrambler turns the indices of one list into others, each into its own, so that IDs show
// neither their order nor how many there are. It is FF1 of NIST SP 800-38G with AES-128
// over texts of 49 binary digits; the tweak is the shard, one byte. In a region there are as many digits fewer, and a
// half still has four bytes of a block, where FF1 has three. The key is the first
// 16 bytes of HMAC-SHA-256(secret, "shardid scramble app <appId>").
//
// Index 0 is never issued: an index whose image is 0 is sent through FF1 once more, so
// the images of 1…Region.MaxIndex are the same numbers.
//
// It is not safe for concurrent use.
type Scrambler struct {
	block  cipher.Block
	prefix [aes.BlockSize]byte // FF1's P, encrypted
	q      [aes.BlockSize]byte // FF1's Q, then R
	// The halves of an index, in bits: FF1's u and v.
	leftBits, rightBits uint
}

// ff1Rounds is FF1's.
const ff1Rounds = 10

// NewScrambler makes that of a list. The secret is that of the deployment.
func NewScrambler(secret string, key ListKey, region Region) *Scrambler {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "shardid scramble app %d", key.App)
	block, err := aes.NewCipher(mac.Sum(nil)[:16])
	if err != nil { // 16 bytes are an AES key
		panic(err)
	}
	bits := region.indexBits()
	s := &Scrambler{block: block, leftBits: bits / 2, rightBits: bits - bits/2}
	p := [aes.BlockSize]byte{0: 1, 1: 2, 2: 1, 5: 2 /* radix */, 6: ff1Rounds, 7: byte(s.leftBits), 11: byte(bits),
		15: 1 /* byte of tweak */}
	block.Encrypt(s.prefix[:], p[:])
	s.prefix[0] ^= key.Shard // the tweak is the first byte of every Q
	return s
}

// Scramble gives the image of an index in 1…Region.MaxIndex.
func (s *Scrambler) Scramble(index int64) int64 {
	for index = s.encrypt(index); index == 0; {
		index = s.encrypt(index)
	}
	return index
}

// Unscramble gives the index of an image in 1…Region.MaxIndex.
func (s *Scrambler) Unscramble(image int64) int64 {
	for image = s.decrypt(image); image == 0; {
		image = s.decrypt(image)
	}
	return image
}

// encrypt and decrypt do two rounds at a time: the first changes the left half, the second
// the right one.
func (s *Scrambler) encrypt(x int64) int64 {
	left, right := uint64(x)>>s.rightBits, uint64(x)&(1<<s.rightBits-1)
	for i := byte(0); i < ff1Rounds; i += 2 {
		left = (left + s.round(i, right)) & (1<<s.leftBits - 1)
		right = (right + s.round(i+1, left)) & (1<<s.rightBits - 1)
	}
	return int64(left<<s.rightBits | right)
}

func (s *Scrambler) decrypt(x int64) int64 {
	left, right := uint64(x)>>s.rightBits, uint64(x)&(1<<s.rightBits-1)
	for i := byte(ff1Rounds); i > 0; i -= 2 {
		right = (right - s.round(i-1, left)) & (1<<s.rightBits - 1)
		left = (left - s.round(i-2, right)) & (1<<s.leftBits - 1)
	}
	return int64(left<<s.rightBits | right)
}

// round is FF1's y for a half: the first 8 bytes of AES(AES(P) xor Q).
func (s *Scrambler) round(i byte, half uint64) uint64 {
	s.q = s.prefix
	s.q[11] ^= i
	binary.BigEndian.PutUint32(s.q[12:], binary.BigEndian.Uint32(s.q[12:])^uint32(half))
	s.block.Encrypt(s.q[:], s.q[:])
	return binary.BigEndian.Uint64(s.q[:])
}
