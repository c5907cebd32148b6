package uid

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// In default mode a caller waits for the next second when this one is used up.
func TestDefaultWaitsForTheNextSecond(t *testing.T) {
	story(t, func(t *testing.T) {
		s := started(t, newTable(), func(o *Options) { o.Mode = ModeDefault })
		synctest.Wait()
		began := time.Now()
		ids := mustNext(t, s, 20)
		if took := time.Since(began); took != 2*time.Second || ids[19] != tiny().Compose(second0+2, 1, 3) {
			t.Errorf("20 IDs took %v and end with %d", took, ids[19])
		}
		mustFail(t, s, 100, model.ErrRingEmpty) // 13 s; the timeout is 2 s
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Is(t, check.Err(s.Next(ctx, 100, nil)), context.Canceled, "Next of an ended context =")
		if stats := s.Stats(); stats.Issued != 20 || stats.Dropped == 0 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestDefaultRefusesAClockThatWentBack(t *testing.T) {
	story(t, func(t *testing.T) {
		c := newClock()
		s := started(t, newTable(), func(o *Options) { o.Mode, o.Now = ModeDefault, c.now })
		synctest.Wait()
		mustNext(t, s, 1)
		c.add(-time.Second)
		mustFail(t, s, 1, model.ErrClockBack)
		c.add(time.Second)
		mustNext(t, s, 1)
		c.add(-100 * 365 * 24 * time.Hour)
		mustFail(t, s, 1, model.ErrTimeExhausted)
		check.Is(t, s.Ready(), model.ErrTimeExhausted, "Ready =")
	})
}

// story runs f in a bubble, where time passes as soon as everything waits.
func story(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// mustNext asks for n IDs and wants them positive and rising.
func mustNext(t *testing.T, s *Service, n int) []int64 {
	t.Helper()
	ids, err := s.Next(t.Context(), n, nil)
	if err != nil || len(ids) != n {
		t.Fatalf("Next(%d) = %d IDs, %v", n, len(ids), err)
	}
	for i, id := range ids {
		if id <= 0 || i > 0 && id <= ids[i-1] {
			t.Fatalf("ID %d is %d", i, id)
		}
	}
	return ids
}

// mustFail asks for n IDs and wants that error and none of them.
func mustFail(t *testing.T, s *Service, n int, want error) {
	t.Helper()
	kept := []int64{7}
	if ids, err := s.Next(t.Context(), n, kept); !errors.Is(err, want) || !slices.Equal(ids, kept) {
		t.Fatalf("Next(%d) = %v, %v, want %v", n, ids, err, want)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"layout":            func(o *Options) { o.Layout.SeqBits++ },
		"mode":              func(o *Options) { o.Mode = "fast" },
		"timeout":           func(o *Options) { o.Timeout = 0 },
		"type":              func(o *Options) { o.Place.Type = 3 },
		"boost 0":           func(o *Options) { o.BoostPower = 0 },
		"boost 17":          func(o *Options) { o.BoostPower = 17 },
		"huge ring":         func(o *Options) { o.Layout.TimeBits, o.Layout.SeqBits, o.BoostPower = 21, 20, 11 },
		"padding 0":         func(o *Options) { o.PaddingFactor = 0 },
		"padding 100":       func(o *Options) { o.PaddingFactor = 100 },
		"negative schedule": func(o *Options) { o.ScheduleInterval = -1 },
		"reject put":        func(o *Options) { o.RejectPut = "" },
		"reject take":       func(o *Options) { o.RejectTake = "maybe" },
	} {
		opts := options(newTable())
		change(&opts)
		if s, err := New(opts); s != nil || !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("%s: New = %v", name, err)
		}
	}
}

func TestNextChecksItsCount(t *testing.T) {
	story(t, func(t *testing.T) {
		s := started(t, newTable(), nil)
		synctest.Wait()
		for _, n := range []int{-1, 0, model.MaxBatch + 1} {
			mustFail(t, s, n, model.ErrInvalidArgument)
		}
	})
}
