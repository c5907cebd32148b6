package uid

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
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
		if _, err := s.Next(ctx, 100, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Next of an ended context = %v", err)
		}
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
		if err := s.Ready(); !errors.Is(err, model.ErrTimeExhausted) {
			t.Errorf("Ready = %v", err)
		}
	})
}
