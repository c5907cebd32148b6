package uid

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"shardid/model"
)

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
		for _, n := range []int{-1, 0, MaxBatch + 1} {
			mustFail(t, s, n, model.ErrInvalidArgument)
		}
	})
}
