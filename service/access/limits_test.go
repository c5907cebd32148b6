package access

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// A token gets its rate and its quota and no more, however many connections ask at once, and by
// whatever protocol; what is refused costs it nothing.
func TestLimitsHoldUnderConcurrency(t *testing.T) {
	g := newGuard(t, Options{File: fileOf(t, one("x", "[uid]\n  rate: 500\n  ids_per_second: 25000\n")),
		Now: func() time.Time { return now }})
	var requests, ids atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 60 { // twice as many as there are
				ask := func() (*Token, error) { return g.Client(with("Bearer x")) }
				if i%2 == 0 {
					ask = func() (*Token, error) { return g.Use(NewCredential([]byte("x"))) }
				}
				token, err := ask()
				if err != nil {
					continue
				}
				requests.Add(1)
				if n := 1 + i*9; token.Take(n) == nil {
					ids.Add(int64(n))
				}
			}
		})
	}
	all.Wait()
	for token := (*g.file.Load())[NewCredential([]byte("x"))]; token.Take(1) == nil; { // what is left
		ids.Add(1)
	}
	check.Equal(t, requests.Load(), 500, "requests")
	check.Equal(t, ids.Load(), 25_000, "IDs")
}

// A quota is used up whole or not at all, and fills with the time.
func TestQuota(t *testing.T) {
	clock, file := now, fileOf(t, one("x", "[uid]\n  ids_per_second: 100\n"))
	g := newGuard(t, Options{File: file, Now: func() time.Time { return clock }})
	token := func() *Token {
		found, err := g.Client(with("Bearer x"))
		check.Must(t, err)
		return found
	}
	refused := func(n int, after time.Duration, says string) {
		t.Helper()
		var many *TooManyError
		err := token().Take(n)
		if !errors.As(err, &many) || !errors.Is(err, model.ErrTooMany) || many.After.Round(time.Millisecond) != after ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%d IDs: %v, %+v; want %v and %q", n, err, many, after, says)
		}
	}
	check.OK(t, token().Take(60))
	refused(41, 10*time.Millisecond, "ask for fewer, or again after 1s: too many requests: nothing was issued: the "+
		"quota ids_per_second: 100 of token x-service has 40 left, and 41 were asked for")
	check.OK(t, token().Take(40))
	refused(101, 1010*time.Millisecond, "ask for 100 at most")
	clock = now.Add(500 * time.Millisecond)
	refused(100, 500*time.Millisecond, "has 50 left")
	check.OK(t, token().Take(50))
	refused(1, 10*time.Millisecond, "has 0 left")
	token().Charge(250) // a run, whose length is known afterwards
	refused(1, 2510*time.Millisecond, "has 0 left")
	var none *Token
	check.OK(t, none.Take(10_000))
	none.Charge(1)
}
