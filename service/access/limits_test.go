package access

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// A token gets its rate and no more, however many connections ask at once, and by whatever
// protocol; those that are refused cost it nothing.
func TestRateHoldsUnderConcurrency(t *testing.T) {
	for _, connections := range []int{1, 4, 16, 64} {
		const rate, lasts = 2000, time.Second
		g := newGuard(t, Options{File: fileOf(t, one("x", "  modes: [uid]\n  rate: 2000\n"))})
		var err error
		for err == nil { // what it has at once
			_, err = g.Client(with("Bearer x"))
		}
		var got atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for i := range connections {
			all.Go(func() {
				for time.Since(began) < lasts {
					var err error
					if i%2 == 0 {
						_, err = g.Client(with("Bearer x"))
					} else {
						_, err = g.Use(NewCredential([]byte("x")))
					}
					if err == nil {
						got.Add(1)
					} else if !errors.Is(err, model.ErrTooMany) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		want := rate * time.Since(began).Seconds()
		if n := float64(got.Load()); n > 1.05*want || n < 0.7*want { // a busy machine may let a full bucket wait
			t.Errorf("%d connections got %.0f, want %.0f", connections, n, want)
		}
	}
}

// A connection that asks without a pause leaves one that pauses its share.
func TestRateIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, Options{File: fileOf(t, one("x", "  modes: [uid]\n  rate: 200\n"))})
		var got [2]atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for i, pause := range []time.Duration{11 * time.Microsecond, 1009 * time.Microsecond} {
			all.Go(func() {
				for time.Since(began) < 6*time.Second {
					if _, err := g.Client(with("Bearer x")); err == nil && time.Since(began) > time.Second { // what it has at once is gone
						got[i].Add(1)
					}
					time.Sleep(pause)
				}
			})
		}
		all.Wait()
		if greedy, polite := got[0].Load(), got[1].Load(); polite < (greedy+polite)/5 {
			t.Errorf("the one that pauses got %d, the other one %d", polite, greedy)
		}
	})
}

// quotaOf is a token with a quota, at a time that the function sets.
func quotaOf(t *testing.T, rest string) (token func() *Token, at func(time.Duration), rewrite func(rest string)) {
	t.Helper()
	clock, file := now, fileOf(t, one("x", "  modes: [uid]\n"+rest))
	g := newGuard(t, Options{File: file, Now: func() time.Time { return clock }})
	token = func() *Token {
		found, err := g.Client(with("Bearer x"))
		check.Must(t, err)
		return found
	}
	return token, func(since time.Duration) { clock = now.Add(since) }, func(rest string) {
		write(t, file, one("x", "  modes: [uid]\n"+rest))
		check.Must(t, g.reload())
	}
}

// refused says that n IDs are refused whole, for so long and with that in the message.
func refused(t *testing.T, token *Token, n int, after time.Duration, says string) {
	t.Helper()
	var many *TooManyError
	err := token.Take(n)
	if !errors.As(err, &many) || !errors.Is(err, model.ErrTooMany) || many.After != after || !strings.Contains(err.Error(), says) {
		t.Errorf("%d IDs: %v, %+v; want %v and %q", n, err, many, after, says)
	}
}

func allowed(t *testing.T, token *Token, n int) {
	t.Helper()
	check.OK(t, token.Take(n), n, "IDs")
}

func TestQuotaOfASecond(t *testing.T) {
	token, at, rewrite := quotaOf(t, "  ids_per_second: 100\n")
	allowed(t, token(), 60)
	refused(t, token(), 41, 10*time.Millisecond, "ids_per_second: 100 of token x-service has 40 left, and 41 were asked for: nothing was issued")
	allowed(t, token(), 40)
	refused(t, token(), 1, 10*time.Millisecond, "has 0 left")
	refused(t, token(), 101, 1010*time.Millisecond, "ask for 100 at most")
	at(500 * time.Millisecond)
	refused(t, token(), 100, 500*time.Millisecond, "has 50 left")
	allowed(t, token(), 50)
	at(0) // the clock of a caller who was held up
	refused(t, token(), 1, 10*time.Millisecond, "has 0 left")
	at(500 * time.Millisecond)
	refused(t, token(), 1, 10*time.Millisecond, "has 0 left")
	token().Charge(100) // a run, whose length is known afterwards
	refused(t, token(), 1, 1010*time.Millisecond, "has 0 left")
	rewrite("  ids_per_second: 100\n  expires: 2027-01-01\n")
	refused(t, token(), 1, 1010*time.Millisecond, "has 0 left")
	rewrite("  ids_per_second: 200\n")
	allowed(t, token(), 200)
	var none *Token
	allowed(t, none, 10_000)
	none.Charge(1)
}

// Batches of all sizes together get the quota and no more.
func TestQuotaHoldsUnderConcurrency(t *testing.T) {
	g := newGuard(t, Options{File: fileOf(t, one("x", "  modes: [uid]\n  ids_per_second: 25000\n")), Now: func() time.Time { return now }})
	var issued atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			token, err := g.Client(with("Bearer x"))
			check.OK(t, err)
			n := 1 + i*7
			for range 60 { // twice as many as there are
				if token.Take(n) == nil {
					issued.Add(int64(n))
				}
			}
		})
	}
	all.Wait()
	if n := issued.Load(); n > 25_000 || n < 25_000-150 {
		t.Errorf("%d IDs were issued of 25000", n)
	}
}
