package background_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/background"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Stop calls its function once, ends sleeps, waits for the work for as long as it is
// told to, and no work begins afterwards.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, firsts, runs := background.NewGroup("test"), 0, 0
		g.Start(func() { runs++; time.Sleep(time.Minute) })
		g.Start(func() { runs++ })
		slept := make(chan bool, 1)
		g.Go(func() { slept <- g.Sleep(time.Hour) })
		stop := func(patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return g.Stop(ctx, func() { firsts++ })
		}
		if err := stop(time.Second); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "stop test") {
			t.Errorf("while a minute's work is under way: %v", err)
		}
		if err := stop(time.Hour); err != nil || firsts != 1 || runs != 1 || <-slept {
			t.Errorf("%v; first was called %d times, Start ran %d", err, firsts, runs)
		}
		err := g.Do(t.Context(), func() error { runs++; return nil })
		if g.Go(func() { runs++ }) || !errors.Is(err, model.ErrNotReady) || runs != 1 {
			t.Errorf("work began after Stop: %v", err)
		}
	})
}

// Every runs its function at once and then each period, until Stop, which waits for it.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, runs := background.NewGroup("test"), 0
		g.Go(func() { g.Every(5*time.Second, func() { runs++; time.Sleep(time.Second) }) })
		time.Sleep(10*time.Second + time.Millisecond)
		began := time.Now()
		if err := g.Stop(t.Context(), nil); err != nil || runs != 3 || time.Since(began) != 999*time.Millisecond {
			t.Errorf("%d runs, stopped after %v, %v", runs, time.Since(began), err)
		}
	})
}

// Initialise tries again, ever less often, and NotReady tells the reason meanwhile.
func TestInitialise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, away, tries := background.NewGroup("test"), errors.New("away"), 0
		if err := g.NotReady(); !errors.Is(err, model.ErrNotReady) || errors.Is(err, away) {
			t.Errorf("before the first try: %v", err)
		}
		began := time.Now()
		ok := g.Initialise(func() error {
			if tries++; tries == 7 {
				return nil
			}
			return away
		})
		if err := g.NotReady(); !ok || time.Since(began) != 1750*time.Millisecond ||
			!errors.Is(err, away) { // 50+100+200+400+500+500
			t.Errorf("%t after %v, then %v", ok, time.Since(began), err)
		}
		go func() { time.Sleep(time.Minute); _ = g.Stop(t.Context(), nil) }()
		if g.Initialise(func() error { return away }) {
			t.Error("initialised by a stop")
		}
	})
}

// What waits is done once, up to Max together and AtOnce side by side, first things before others; what
// comes while it is being done is done again.
func TestBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, done := background.NewGroup("test"), make(chan []int, 9)
		b := background.Batcher[int]{Group: g, Max: 2, AtOnce: 2, Do: func(batch []int) {
			done <- slices.Clone(batch)
			time.Sleep(time.Second)
		}}
		b.Add(1, false)
		time.Sleep(100 * time.Millisecond)
		b.Add(2, false) // it ends after 1, so what follows is in order
		synctest.Wait()
		for _, one := range []int{3, 4, 5, 3, 1} {
			b.Add(one, false)
		}
		b.Add(6, true)
		b.Add(5, true)
		synctest.Wait()
		check.Equal(t, len(done), 2, "batches at once")
		time.Sleep(time.Minute)
		b.Add(7, false)
		check.OK(t, g.Stop(t.Context(), nil))
		b.Add(8, false)
		close(done)
		var batches [][]int
		for batch := range done {
			batches = append(batches, batch)
		}
		check.Equal(t, fmt.Sprint(batches), "[[1] [2] [6 5] [3 4] [1] [7]]", "batches")
	})
}

// A message is logged once a second, and the next line tells how many were left out.
func TestRateLimitedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		plain := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}
		l := background.RateLimitedLog{Logger: slog.New(slog.NewTextHandler(&out,
			&slog.HandlerOptions{ReplaceAttr: plain}))}
		for i := range 21 {
			l.Log(slog.LevelWarn, "gap", "list", i)
			time.Sleep(100 * time.Millisecond)
		}
		l.Log(slog.LevelWarn, "other", "list", 1)
		want := "msg=gap list=0\nmsg=gap list=10 more_since_the_last_line=9\nmsg=gap list=20 " +
			"more_since_the_last_line=9\nmsg=other list=1\n"
		check.Equal(t, out.String(), want, "the log")
	})
}

// Of many things that share a condition each counts by itself: it fails while one of
// them does, with one message, and works once none does.
func TestFailing(t *testing.T) {
	refused, late := errors.New("refused"), errors.New("timed out")
	var told []error
	f := background.NewFailing[int](func(err error) { told = append(told, err) })
	for _, step := range []struct {
		key  int
		err  error
		want string
		keys int
	}{
		{0, nil, "[<nil>]", 0},
		{1, nil, "[]", 0}, // it is known
		{1, refused, "[refused]", 1},
		{2, nil, "[refused]", 1},
		{2, late, "[refused]", 2},
		{1, nil, "[timed out]", 1},
		{1, refused, "[timed out]", 2},
		{2, nil, "[refused]", 1},
		{1, nil, "[<nil>]", 0},
		{1, nil, "[]", 0},
	} {
		told = nil
		f.Note(step.key, step.err)
		if got := fmt.Sprint(told); got != step.want || len(f.Errs()) != step.keys {
			t.Errorf("Note(%d, %v) told %s, failing are %v, want %s and %d", step.key, step.err, got, f.Errs(),
				step.want, step.keys)
		}
	}
}
