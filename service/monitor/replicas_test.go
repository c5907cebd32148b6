package monitor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// records is a store of records by the clock of the test.
type records struct {
	mu   sync.Mutex
	kept map[string]kept // by instance
	err  error
}

type kept struct {
	record string
	at     time.Time
}

func (r *records) Put(
	ctx context.Context, instance, record string, lasts time.Duration,
) (map[string]time.Duration, error) {
	others, err := r.All(ctx, lasts)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(others, r.kept[instance].record)
	if err == nil {
		r.kept[instance] = kept{record, time.Now()}
	}
	return others, err
}

func (r *records) Remove(_ context.Context, instance string, _ time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, instance)
	return r.err
}

func (r *records) All(_ context.Context, lasts time.Duration) (map[string]time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ages := map[string]time.Duration{}
	for _, k := range r.kept {
		if age := time.Since(k.at); age <= lasts {
			ages[k.record] = age
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return ages, nil
}

func (r *records) of(instance string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[instance].record
}

func (r *records) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func replica(store RecordStore, host string) *Replicas {
	return NewReplicas(store, func() Record { return Record{Host: host, StartedAt: time.Now()} })
}

// hosts are those of a view.
func hosts(t *testing.T, f *Replicas) (all string) {
	t.Helper()
	for _, r := range f.View(t.Context()).Replicas {
		all += r.Host
	}
	return all
}

// Each replica sees all that live, in order; one that stops is gone at once, one that
// dies after a while. What another version wrote is left out.
func TestReplicasSeeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &records{kept: map[string]kept{}}
		a, b, c := replica(store, "a"), replica(store, "b"), replica(store, "c")
		for _, f := range []*Replicas{c, a, b} {
			f.Start()
			defer func() { _ = f.Stop(t.Context()) }()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		_, _ = store.Put(t.Context(), "x", "no record of ours", recordLasts)
		for _, f := range []*Replicas{a, b, c} {
			check.Equal(t, hosts(t, f), "abc", "seen")
		}
		_ = c.Stop(t.Context())
		check.Equal(t, hosts(t, a), "ab", "after an orderly stop")
		_ = b.group.Stop(t.Context(), nil) // as if it were killed: its record stays
		check.Equal(t, hosts(t, a), "ab", "right after a kill")
		time.Sleep(recordLasts + time.Millisecond)
		if view := a.View(t.Context()); len(view.Replicas) != 1 || view.Self != view.Replicas[0].Instance ||
			!view.Shared || view.Message != "" {
			t.Errorf("after a kill: %+v", view)
		}
	})
}

// Of more replicas than Redis should carry the samples of, each one shows its own, and records only how it is.
func TestHistoryOfManyReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &records{kept: map[string]kept{}}
		r := NewReplicas(store, func() Record { return Record{Rates: map[string]float64{"queue.issued": 2}} })
		for n := range mostAdded {
			record := fmt.Sprintf(`{"instance":"%d","rates":{"queue.issued":1}}`, n)
			store.kept[strconv.Itoa(n)] = kept{record, time.Now()}
		}
		r.Start()
		defer func() { _ = r.Stop(t.Context()) }()
		synctest.Wait()
		time.Sleep(historyEvery)
		synctest.Wait()
		got := r.History()
		check.Equal(t, fmt.Sprint(got.Series["queue.issued"], got.Series["replicas"]), "[2 2] [33 33]")
		check.Equal(t, got.Message, model.Message(errMany))
		check.Lacks(t, store.of(r.instance), "rates")

		time.Sleep(recordLasts)
		synctest.Wait()
		got = r.History()
		check.Equal(t, got.Message, "", "the others have gone")
		time.Sleep(historyEvery)
		synctest.Wait()
		check.Has(t, store.of(r.instance), "rates")
	})
}

// What all replicas issued is added up, and of their latencies the longest counts. A replica that is gone counts no
// longer, and while the store is away this one counts alone. An app or a tag is there when it is asked for.
func TestHistoryOfAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &records{kept: map[string]kept{}}
		var rates atomic.Pointer[map[string]float64]
		rates.Store(&map[string]float64{"queue.issued": 1.5, "uid.p99Ms": 7, AppSeries(7): 1, TagSeries("orders"): 2})
		a := NewReplicas(store, func() Record { return Record{Rates: *rates.Load()} })
		b := NewReplicas(store, func() Record {
			return Record{Rates: map[string]float64{"queue.issued": 2, "uid.p99Ms": 9, TagSeries("orders"): 0.5}}
		})
		young := NewReplicas(store, func() Record { return Record{} })
		for _, r := range []*Replicas{b, young, a} {
			defer func() { _ = r.Stop(t.Context()) }()
			r.Start()
			synctest.Wait()
		}
		time.Sleep(historyEvery)
		synctest.Wait()
		_, _ = b.Stop(t.Context()), young.Stop(t.Context())
		rates.Store(&map[string]float64{"queue.issued": 3, "refused.caller": 4})
		time.Sleep(historyEvery)
		synctest.Wait()
		store.set(errors.New("away"))
		time.Sleep(historyEvery)
		synctest.Wait()

		got := a.History(AppSeries(7), TagSeries("orders"), TagSeries("idle"))
		check.Equal(t, got.Message, "away")
		check.Equal(t, len(got.Times), 4)
		for name, want := range map[string]string{
			"queue.issued": "[3.5,3.5,3,3]", "uid.p99Ms": "[9,9,null,null]", "refused.caller": "[null,null,4,4]",
			"replicas": "[3,3,1,1]", "uid.issued": "[null,null,null,null]", AppSeries(7): "[1,1,0,0]",
			TagSeries("orders"): "[2.5,2.5,0,0]", TagSeries("idle"): "[0,0,0,0]",
		} {
			check.Equal(t, encode(t, got.Series[name]), want, name)
		}
		if view := a.View(t.Context()); view.Replicas[0].Rates != nil {
			t.Errorf("the console gets the rates: %+v", view)
		}
	})
}

// A replica without a store, or whose store is unreachable, shows itself and says why.
func TestAReplicaAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := replica(nil, "a")
		alone.Start()
		if view := alone.View(t.Context()); len(view.Replicas) != 1 || view.Shared || view.Message != "" {
			t.Errorf("%+v", view)
		}
		_ = alone.Stop(t.Context())

		store := &records{kept: map[string]kept{}}
		a, b := replica(store, "a"), replica(store, "b")
		for _, f := range []*Replicas{a, b} {
			f.Start()
			defer func() { _ = f.Stop(t.Context()) }()
		}
		synctest.Wait()
		store.set(errors.New("away"))
		if view := a.View(t.Context()); len(view.Replicas) != 1 || view.Message != "away" || !view.Shared {
			t.Errorf("with the store away: %+v", view)
		}
		store.set(nil)
		time.Sleep(historyEvery)
		check.Equal(t, hosts(t, a), "ab", "with the store back")
	})
}
