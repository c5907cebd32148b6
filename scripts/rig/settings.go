// Package rig drives shardid from outside, for the tests of scripts/stories, scripts/faults and
// scripts/bench: processes, their settings, callers, and a ledger of all IDs that came.
package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
)

// Settings are SHARDID_ variables, named without that prefix; those that begin with GO or OTEL are
// the Go runtime's and OpenTelemetry's, and have none.
type Settings map[string]string

// With returns a copy with further settings; more wins.
func (s Settings) With(more Settings) Settings {
	out := Settings{}
	for _, m := range []Settings{s, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// Environ is a whole environment with home in dir: nothing of the caller's is in it but the path.
func (s Settings) Environ(dir string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	for k, v := range s {
		if !strings.HasPrefix(k, "GO") && !strings.HasPrefix(k, "OTEL") {
			k = "SHARDID_" + k
		}
		env = append(env, k+"="+v)
	}
	return env
}

// Command is a program that runs in dir with these settings and is not started yet.
func (s Settings) Command(dir, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, s.Environ(dir)
	return cmd
}

// Eventually asks every 20 ms until check is true, and returns how long that took; the test
// ends when it takes longer than limit.
func Eventually(t testing.TB, limit time.Duration, what string, check func() bool) time.Duration {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if check() {
			return time.Since(begun)
		}
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// Until is Eventually for a check that says what is wrong, asked as Within does.
func Until(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := Within(limit, check); err != nil {
		t.Fatalf("not within %v: %s: %v", limit, what, err)
	}
}

// Within asks every 5 ms until check returns nil, for limit at most; it returns the last error.
func Within(limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		err := check()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

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
