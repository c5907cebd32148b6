package segment_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

// IDs begin at 1 and are dense, one by one and many at once, whatever the segments are.
func TestIDsAreDense(t *testing.T) {
	for _, c := range []struct{ maxID, step int64 }{{1, 1}, {-50, 7}, {0, 100}, {1, 9_999}, {1, 10_000}, {1, 100_000}} {
		t.Run(fmt.Sprint(c), inBubble(func(t *testing.T) {
			db := newTable(100)
			db.put("orders", c.maxID, c.step)
			r := ready(t, db, func(o *segment.Options) { o.MaxStep = 50 })
			r.mustTake(t, "orders", 1, 500)
			next := int64(501)
			for _, n := range []int{1, 3, model.MaxBatch, 2, 100, model.MaxBatch} {
				for _, id := range r.batch(t, "orders", n) {
					if id != next {
						t.Fatalf("ID %d, want %d", id, next)
					}
					next++
				}
			}
			check.Equal(t, r.counted("issued"), next-1, "issued")
			check.Equal(t, r.counted("wasted")+r.counted("repeated")+r.counted("lifts"), 0, "gaps")
		}))
	}
}

func TestNotReadyUntilTheTableAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		db.fail(errAway)
		r := start(t, db)
		time.Sleep(time.Minute)
		_, byKey := r.one("orders")
		for _, err := range []error{r.Ready(), byKey, r.Reload(t.Context(), "orders")} {
			if !errors.Is(err, model.ErrNotReady) || !errors.Is(err, errAway) {
				t.Errorf("not ready: %v", err)
			}
		}
		db.fail(nil)
		time.Sleep(time.Second)
		r.mustTake(t, "orders", 1, 5)
	})
}

// A run is a segment of the row's step, whatever is held.
func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100, func(o *segment.Options) { o.MaxStep = 100 })
		run := func(wantFirst, wantLast int64) {
			t.Helper()
			got, err := r.Run(t.Context(), "orders", model.ShardKey{})
			check.Must(t, err)
			check.Equal(t, got, hold.Run{First: wantFirst, Count: wantLast - wantFirst + 1, Stride: 1})
		}
		run(1, 100)
		r.mustTake(t, "orders", 101, 5)
		run(201, 300)
		r.mustTake(t, "orders", 106, 95)
		gone, leave := context.WithCancel(t.Context())
		leave()
		check.OK(t, check.Err(r.Run(gone, "orders", model.ShardKey{})), "for a client that has gone")
		check.OK(t, r.reports.Of(segment.ConditionLoad), "the database answered")
		db.set(func(db *table) {
			db.change = func(s model.TagSegment) model.TagSegment { s.End = s.First + 30; return s }
		})
		synctest.Wait()
		first := db.maxID("orders")
		run(first, first+29) // of a table that gives less
	})
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100)
		refused := func(want error) {
			t.Helper()
			got, err := r.Run(context.Background(), "orders", model.ShardKey{})
			check.Is(t, err, want)
			check.Equal(t, got, hold.Run{})
		}
		db.fail(errAway)
		refused(model.ErrSegmentEmpty)
		db.put("orders", model.MaxTagID, 100)
		db.fail(nil)
		refused(model.ErrLimitReached)
		db.set(func(db *table) { db.delay = time.Hour })
		waited := make(chan error)
		go func() { waited <- check.Err(r.Run(context.Background(), "orders", model.ShardKey{})) }()
		synctest.Wait()
		stop(t, r.Service)
		check.Is(t, <-waited, model.ErrNotReady, "the waiter")
		refused(model.ErrNotReady)
	})
}

// The first buffer of a view has the segment in use, the second the next one. What was loaded after an outage, when
// no caller waits any more, is in the first.
func TestTheViewIsLeafs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders", "a")
		r := ready(t, db, func(o *segment.Options) { o.Timeout = 200 * time.Millisecond })
		want := func(when string, held int64, buffers ...int64) {
			t.Helper()
			synctest.Wait()
			v := r.view("orders")
			got := []int64{v.Value0, v.Step0, v.Max0, v.Value1, v.Step1, v.Max1}
			if v.Name != "orders" || v.InitOK != (buffers[2] > 0) || v.Pos != 0 || v.NextReady != (buffers[5] > 0) ||
				v.Held != held || v.LastLoad.IsZero() == v.InitOK || !slices.Equal(got, buffers) {
				t.Errorf("%s: %+v", when, v)
			}
		}
		want("before", 0, 0, 0, 0, 0, 0, 0)
		r.mustTake(t, "orders", 1, 9)
		want("first", 91, 10, 100, 101, 0, 0, 0)
		r.mustTake(t, "orders", 10, 2)
		want("a tenth used", 189, 12, 100, 101, 101, 100, 201)
		r.mustTake(t, "orders", 12, 90)
		want("switched", 99, 102, 100, 201, 0, 0, 0)
		check.Equal(t, r.view("orders").Runway, (365 * 24 * time.Hour).Seconds(), "runway without a rate")
		time.Sleep(1500 * time.Millisecond)
		if v := r.view("orders"); math.Abs(v.Rate-101) > 1 || math.Abs(v.Runway*v.Rate-float64(v.Held)) > 0.01 {
			t.Errorf("%+v", v)
		}
		values := check.Metrics(t, r.registry)
		check.Equal(t, values["shardid_segment_runway_seconds"], r.view("orders").Runway, "the shortest runway")
		for most, want := range []map[string]float64{{}, {"orders": r.view("orders").Rate}} {
			if got := r.Busiest(most); !maps.Equal(got, want) {
				t.Errorf("the %d busiest: %v, want %v", most, got, want)
			}
		}
		if used := r.Status(); len(used.Tags) != 1 || used.Tags[0].Name != "orders" || used.Issued != 101 {
			t.Errorf("%+v", used)
		}

		db.set(func(t *table) {
			t.delay = 300 * time.Millisecond // the caller does not wait for so long
			t.change = func(s model.TagSegment) model.TagSegment {
				s.First, s.End, s.Jumped = s.First+5000, s.End+5000, 5000
				return s
			}
		})
		loads := len(db.asked())
		_, err := r.Next(t.Context(), "orders", model.ShardKey{}, 100, nil)
		check.Is(t, err, model.ErrSegmentEmpty, "during the outage")
		r.mustTake(t, "orders", 102, 99)
		time.Sleep(time.Second)
		want("after an outage", 200, 5201, 200, 5401, 0, 0, 0)
		check.Equal(t, r.counted("jumped_ids"), 5000, "IDs skipped")
		check.Equal(t, len(db.asked()), loads+1, "loads")
	})
}

// Stop ends those who wait, and nothing is issued after it. What is held is counted. It does not wait for a database
// that hangs, and may come before Start.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := segment.New(segment.Options{Table: newTable(1), Timeout: time.Second})
		stop(t, never)
		never.Start()
		db := newTable(100, "orders", "slow")
		r := ready(t, db)
		r.mustTake(t, "orders", 1, 5)
		_, _ = r.Numbers(t.Context(), "slow", 1, nil) // it is in use, and holds nothing
		db.set(func(db *table) { db.delay = time.Hour })
		waits := make(chan error)
		for _, tag := range []string{"orders", "slow"} {
			go func() { waits <- check.Err(r.Next(context.Background(), tag, model.ShardKey{}, 200, nil)) }()
		}
		synctest.Wait()
		began := time.Now()
		for range 2 {
			stop(t, r.Service)
		}
		check.Equal(t, time.Since(began), 0, "Stop took")
		for range 2 {
			check.Is(t, <-waits, model.ErrNotReady, "a waiter")
		}
		for _, n := range []int{1, 2} {
			ids, err := r.Next(t.Context(), "orders", model.ShardKey{}, n, nil)
			check.Is(t, err, model.ErrNotReady, "after Stop")
			check.Equal(t, len(ids), 0, "IDs after Stop")
		}
		check.Equal(t, r.counted("issued"), 5, "issued")
		check.Equal(t, r.counted("wasted"), 95, "given up")
	})
}

// An ID of a tag with shard bits ends in those of its key, whatever the region, and is issued once, whatever the keys.
// One without a key, and a key for a tag without shard bits, get nothing. A run counts in steps of all bits.
func TestShardBits(t *testing.T) {
	const bits = 10
	for _, region := range []model.Region{{}, {ID: 2, Bits: 2}} {
		t.Run(region.String(), inBubble(func(t *testing.T) {
			db := newTable(100, "orders", "plain")
			sharded, err := model.ShardNumbering(bits)
			check.Must(t, err)
			db.set(func(db *table) {
				row := db.rows["orders"]
				row.Numbering = sharded
				db.rows["orders"] = row
			})
			r := ready(t, db, func(o *segment.Options) { o.Region = region })
			numbers := map[int64]bool{}
			for n := range uint64(2000) {
				key := model.ShardKey{Given: true, Value: n * 7919}
				ids, err := r.Next(t.Context(), "orders", key, 1+int(n%3), nil)
				check.Must(t, err)
				for _, id := range ids {
					number := id >> bits
					if id&(1<<bits-1) != int64(key.Value&(1<<bits-1)) || numbers[number] ||
						number&(region.Stride()-1) != int64(region.ID) {
						t.Fatalf("ID %d of key %d", id, key.Value)
					}
					numbers[number] = true
				}
			}
			key := model.ShardKey{Given: true, Value: 1<<64 - 1}
			run, err := r.Run(t.Context(), "orders", key)
			check.Must(t, err)
			check.Equal(t, run.Stride, region.Stride()<<bits)
			check.Equal(t, run.First&(1<<bits-1), 1<<bits-1, "the key of a run")
			check.Equal(t, numbers[run.First>>bits], false, "issued before")
			synctest.Wait() // for the segments that are on their way
			for _, c := range []struct {
				tag string
				key model.ShardKey
			}{{"orders", model.ShardKey{}}, {"plain", key}, {"plain", model.ShardKey{Later: true}}} {
				before := db.maxID(c.tag)
				check.Is(t, check.Err(r.Next(t.Context(), c.tag, c.key, 1, nil)), model.ErrInvalidArgument, c)
				check.Is(t, check.Err(r.Run(t.Context(), c.tag, c.key)), model.ErrInvalidArgument, c)
				check.Equal(t, db.maxID(c.tag), before, "nothing was taken")
			}
			bare, err := r.Next(t.Context(), "orders", model.ShardKey{Later: true}, 2, nil)
			check.Must(t, err)
			check.Equal(t, (bare[0]|bare[1])&(1<<bits-1), 0, "bits that the caller adds")
		}))
	}
}

//nolint:gochecknoglobals // a constant
var daily = model.Numbering{Pattern: "O{yyyyMMdd}-{seq:6}", Reset: model.ResetDay, Zone: "UTC",
	Overflow: model.OverflowWiden}

// numbered is a table with a tag of business numbers and a replica that serves it. The
// bubble's clock begins at midnight.
func numbered(t *testing.T, step int64, n model.Numbering) (*table, replica) {
	t.Helper()
	db := newTable(step, "plain")
	db.rows["orders"] = model.Tag{Name: "orders", MaxID: 1, Step: step, Numbering: n}
	return db, ready(t, db)
}

func (r replica) text(t *testing.T, want ...string) {
	t.Helper()
	got, err := r.Numbers(t.Context(), "orders", len(want), nil)
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("%q, %v, want %q", got, err, want)
	}
}

func TestNumbersBeginAgainAtMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := numbered(t, 100, daily)
		r.text(t, "O20000101-000001", "O20000101-000002")
		time.Sleep(24*time.Hour - time.Second)
		r.text(t, "O20000101-000003")
		held := r.view("orders").Held
		time.Sleep(time.Second)
		r.text(t, "O20000102-000001")
		if wasted := r.counted("wasted"); wasted < held {
			t.Errorf("%d of %d IDs were given up at midnight", wasted, held)
		}
		for _, s := range db.segments() {
			if numbers, _ := daily.Numbers(); numbers.PeriodOf(s.First) != numbers.PeriodOf(s.End-1) {
				t.Errorf("the segment %+v is of two days", s)
			}
		}
	})
}

func TestNumbersAreNoIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := numbered(t, 100, daily)
		for range 2 {
			check.Is(t, check.Err(r.one("orders")), model.ErrPattern)
			check.Is(t, check.Err(r.Run(t.Context(), "orders", model.ShardKey{})), model.ErrPattern, "a run")
		}
		if err := check.Err(r.Numbers(t.Context(), "plain", 1, nil)); !errors.Is(err, model.ErrInvalidArgument) ||
			errors.Is(err, model.ErrPattern) {
			t.Error(err)
		}
		check.Is(t, check.Err(r.Numbers(t.Context(), "none", 1, nil)), model.ErrUnknownTag)
		r.text(t, "O20000101-000001")
		db.set(func(db *table) { // by SQL; shardid refuses it
			row := db.rows["orders"]
			row.Pattern = "{yyyyMMdd}{seq:1}"
			db.rows["orders"] = row
		})
		check.OK(t, r.Reload(t.Context(), "orders"))
		check.Is(t, check.Err(r.Numbers(t.Context(), "orders", 1, nil)), model.ErrSegmentEmpty)
	})
}

// Those that are left are issued; then callers are refused until the next period.
func TestNumbersThatRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(23 * time.Hour)
		_, r := numbered(t, 4, model.Numbering{Pattern: "{yyyyMMdd}{seq:1}", Reset: model.ResetDay,
			Overflow: model.OverflowRefuse})
		for n := range 9 {
			r.text(t, fmt.Sprint("20000101", n+1))
		}
		check.Is(t, check.Err(r.Numbers(t.Context(), "orders", 1, nil)), model.ErrLimitReached)
		time.Sleep(time.Hour)
		r.text(t, "200001021")
	})
}

// What issuing costs, beside a bare atomic add: one goroutine, and all of them on
// one tag.
func BenchmarkIssue(b *testing.B) {
	db := newTable(1_000_000, "orders")
	r := ready(b, db)
	var counter atomic.Int64
	for _, c := range []struct {
		name string
		call func(dst []int64) error
	}{
		{"atomic add", func([]int64) error { counter.Add(1); return nil }},
		{"key", func(dst []int64) error {
			_, err := r.Next(b.Context(), "orders", model.ShardKey{}, 1, dst)
			return err
		}},
	} {
		b.Run(c.name+"/one goroutine", func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]int64, 0, 1)
			for b.Loop() {
				if err := c.call(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				dst := make([]int64, 0, 1)
				for p.Next() {
					if err := c.call(dst); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
