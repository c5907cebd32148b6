package uid

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// The ring begins with the clock's second and goes on with whole seconds when less
// than half is left, into the future.
func TestCachedFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := started(t, newTable(), nil)
		synctest.Wait()
		check.Must(t, s.Ready())
		for i := range 800 {
			want := tiny().Compose(second0+int64(i/8), 1, int64(i%8))
			check.Equal(t, mustNext(t, s, 1)[0], want, "ID", i)
			synctest.Wait()
			if fill := s.Status().RingFill; fill < 8 {
				t.Fatalf("ring holds %d after ID %d", fill, i)
			}
		}
		status, stats := s.Status(), s.Stats()
		if status.WorkerID != 1 || status.RingSize != 16 || status.AheadSeconds < 99 || stats.Issued != 800 || stats.Nodes != 1 {
			t.Errorf("%+v, %+v", status, stats)
		}
		if stats.Discarded == 0 || stats.Refused != 0 {
			t.Errorf("%+v: each fill ends with a put that finds no room", stats)
		}
	})
}

// The counter of seconds does not look at the clock, so a clock that goes back, and
// one that runs on, change nothing.
func TestCachedIgnoresTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		s := started(t, newTable(), func(o *Options) { o.Now = c.now })
		synctest.Wait()
		first := mustNext(t, s, 8)
		for _, d := range []time.Duration{-time.Hour, 3 * time.Hour} {
			c.add(d)
			synctest.Wait()
			second := mustNext(t, s, 8)
			if second[0] <= first[7] || second[0]-first[7] > 1<<25 {
				t.Errorf("%d comes after %d", second[0], first[7])
			}
			first = second
			synctest.Wait()
		}
	})
}

// With block the ring is topped up as soon as a second finds room, not at the mark.
func TestCachedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := started(t, newTable(), func(o *Options) { o.RejectPut, o.BoostPower = PutBlock, 2 })
		synctest.Wait()
		for _, c := range []struct{ take, left int64 }{{7, 25}, {1, 32}} {
			mustNext(t, s, int(c.take))
			synctest.Wait()
			check.Equal(t, s.Status().RingFill, c.left, "IDs in the ring")
		}
		check.Equal(t, s.Stats().Discarded, 0, "puts discarded")
	})
}

// By schedule the ring is refilled although more than the padding is left.
func TestCachedBySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := started(t, newTable(), func(o *Options) { o.ScheduleInterval, o.PaddingFactor = time.Minute, 10 })
		synctest.Wait()
		mustNext(t, s, 8)
		time.Sleep(59 * time.Second)
		check.Equal(t, s.Status().RingFill, 8, "IDs in the ring before the minute is over")
		time.Sleep(2 * time.Second)
		check.Equal(t, s.Status().RingFill, 16, "IDs in the ring")
	})
}

// Many takers on a ring of two seconds with eight IDs each: with refuse they retry,
// with wait they wait; nobody gets another's ID, batches beyond the ring included.
func TestCachedManyTakers(t *testing.T) {
	for _, policy := range []string{TakeRefuse, TakeWait} {
		t.Run(policy, func(t *testing.T) {
			s := started(t, newTable(), func(o *Options) { o.RejectTake, o.Timeout = policy, time.Minute })
			for s.Ready() != nil {
				time.Sleep(time.Millisecond)
			}
			var mu sync.Mutex
			seen := map[int64]bool{}
			var takers sync.WaitGroup
			for i := range 16 {
				takers.Go(func() {
					for got := 0; got < 1000; {
						ids, err := s.Next(t.Context(), 1+(i+got)%20, nil)
						if err != nil && policy == TakeWait {
							t.Errorf("a caller who waits got %v", err)
							return
						}
						got += len(ids)
						mu.Lock()
						for _, id := range ids {
							if id <= 0 || seen[id] {
								t.Errorf("%d was given twice, or is none", id)
							}
							seen[id] = true
						}
						mu.Unlock()
					}
				})
			}
			takers.Wait()
			check.Equal(t, s.Stats().Issued, int64(len(seen)), "issued")
		})
	}
}

// Past the time bits nothing is issued any more; before, it was warned of, twice.
func TestCachedToTheLastSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &check.Log{}
		s := started(t, newTable(), func(o *Options) {
			o.Layout = model.UIDLayout{TimeBits: 8, WorkerBits: 52, SeqBits: 3, Epoch: time.Now().Add(-10 * time.Second)}
			o.Log = slog.New(slog.NewTextHandler(log, nil))
		})
		var last int64
		for i := range (255 - 9) * 8 { // seconds 10…255
			synctest.Wait()
			id := mustNext(t, s, 1)[0]
			if id <= last {
				t.Fatalf("ID %d is %d after %d", i, id, last)
			}
			if last = id; i%200 == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(10 * time.Second)
		for range 20 {
			mustFail(t, s, 1, model.ErrTimeExhausted)
		}
		if err := s.Ready(); !errors.Is(err, model.ErrTimeExhausted) || s.Status().RemainingSeconds != 0 {
			t.Errorf("Ready = %v, %+v", err, s.Status())
		}
		check.Equal(t, log.Count("time bits of UIDs run out"), 2, "warnings")
	})
}

// A panic or an error while filling is one failed fill: the next goes on, with the
// second after.
func TestCachedFillSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		s := started(t, newTable(), func(o *Options) { o.Now = c.now })
		synctest.Wait()
		seen := map[int64]bool{}
		for range 5 {
			c.mu.Lock()
			c.crash = true
			c.mu.Unlock()
			for range 8 {
				for _, id := range mustNext(t, s, 2) {
					if seen[id] {
						t.Fatalf("%d was given twice", id)
					}
					seen[id] = true
				}
				time.Sleep(2 * fillRetry)
			}
		}
		check.OK(t, s.opts.Reporter.(*check.Reports).Of(ConditionFill))
	})
}

// The counter of cached mode may not pass the mark either, however fast it goes, and
// the mark follows its speed.
func TestCachedStopsAtTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		s := started(t, db, nil)
		time.Sleep(2 * time.Minute)
		db.set(func(db *table) { db.away = errAway })
		var highest int64
		for {
			ids, err := s.Next(t.Context(), 8, nil)
			if err != nil {
				break
			}
			highest = ids[7]
			synctest.Wait()
		}
		mustFail(t, s, 1, model.ErrNoLease)
		mark := db.rows[1].used
		if want := tiny().Compose(mark, 1, 7); highest != want || mark < second0+3600 {
			t.Fatalf("the last ID is %d, the mark %d allows %d", highest, mark, want)
		}
		db.set(func(db *table) { db.away = nil })
		time.Sleep(time.Second)
		mustNext(t, s, 8)
		if status := s.Status(); int64(status.MarkedUntil) < mark+7200 || status.RunwaySeconds < markRate {
			t.Errorf("%+v", status)
		}
	})
}

// The ring that the options ask for is Baidu's by default: 65 536 IDs.
func TestRingSize(t *testing.T) {
	opts := options(newTable())
	opts.Layout = model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13, Epoch: epoch()}
	opts.BoostPower = 3
	s, err := New(opts)
	check.Must(t, err)
	check.Equal(t, s.Status().RingSize, 65536, "ring size")
}

// In default mode a caller waits for the next second when this one is used up.
func TestDefaultWaitsForTheNextSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		check.Is(t, check.Err(s.Next(ctx, 100, nil)), context.Canceled, "Next of an ended context")
		if stats := s.Stats(); stats.Issued != 20 || stats.Dropped == 0 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestDefaultRefusesAClockThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		check.Is(t, s.Ready(), model.ErrTimeExhausted, "Ready")
	})
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
		"no record":         func(o *Options) { o.RecordLayout = nil },
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
	synctest.Test(t, func(t *testing.T) {
		s := started(t, newTable(), nil)
		synctest.Wait()
		for _, n := range []int{-1, 0, model.MaxBatch + 1} {
			mustFail(t, s, n, model.ErrInvalidArgument)
		}
	})
}
