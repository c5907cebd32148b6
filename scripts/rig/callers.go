package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"unicode/utf16"
)

// Callers are goroutines that ask until they are told to stop. Its zero value is ready.
type Callers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Start begins n callers, each of which asks until ctx ends; Stop ends it, at the latest with
// the test.
func (c *Callers) Start(t testing.TB, n int, ask func(ctx context.Context, caller int)) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	for i := range n {
		c.wg.Go(func() { ask(ctx, i) })
	}
	t.Cleanup(c.Stop)
}

// Stop returns when all have ended; it may be called again.
func (c *Callers) Stop() {
	c.cancel()
	c.wg.Wait()
}

// ShardOf is the contract's: Java's String.hashCode over UTF-16, its magnitude modulo 64.
func ShardOf(pass string) int64 {
	var h uint32
	for _, unit := range utf16.Encode([]rune(pass)) {
		h = 31*h + uint32(unit)
	}
	n := int64(int32(h))
	return max(n, -n) % 64
}

// PassOf is a gatePass of a shard.
func PassOf(shard int64) string {
	for n := 0; ; n++ {
		if pass := fmt.Sprintf("user%d", n); ShardOf(pass) == shard {
			return pass
		}
	}
}

// RandomPass is what people send: names, numbers, addresses, in any script.
func RandomPass(rnd *rand.Rand) string {
	n := rnd.IntN(2000)
	switch rnd.IntN(7) {
	case 0:
		return fmt.Sprintf("user%d", n)
	case 1:
		return fmt.Sprintf("138%08d", n*7919)
	case 2:
		return fmt.Sprintf("first.last+%d@example.com", n)
	case 3:
		return []string{"张三", "李四", "王小明", "欧阳娜娜"}[n%4] + strconv.Itoa(n/4)
	case 4:
		return fmt.Sprintf("🦊%d👩‍👩‍👧", n)
	case 5:
		return fmt.Sprintf("O'Neil & Söhne = 50%% #%d", n)
	default:
		return fmt.Sprintf("+49 (0)30 %d", 1000000+n)
	}
}
