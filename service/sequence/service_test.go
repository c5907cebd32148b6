package sequence_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/sequence"
)

func smallStep(_ *sequence.Options, t *table) {
	t.spaces["s"] = model.Space{Name: "s", Sections: 4, Step: 10}
}

// Numbers of a key rise and leave none out, whatever was taken for its section, and keys share
// nothing.
func TestNumbersRise(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		for i := range int64(95) {
			r.want("a", i+1)
			r.want("b", i+1)
		}
		got, err := r.ask("a", 0)
		check.OK(t, err)
		check.Equal(t, got, 95, "how far it has come")
		got, err = r.ask("a", 500) // many steps
		check.OK(t, err)
		check.Equal(t, got, 595, "the last of many")
		r.want("a", 596)
		synctest.Wait() // it is counted after the answer
		check.Equal(t, r.counted("issued"), 2*95+501, "numbers that were counted")
	}, smallStep)
}

// Asks of one call are answered in order, also where numbers run out among them.
func TestAsksInOrder(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		var asks []*model.SequenceAsk
		for i := range 5000 { // more than one call has
			asks = append(asks, &model.SequenceAsk{Space: "s", Key: keyNo(i % 3), Count: int64(i%2 + 1)})
		}
		asks[0].Count = 60 // which the section has not
		r.Ask(t.Context(), asks)
		last := map[string]int64{}
		for i, a := range asks {
			check.OK(t, a.Err, i)
			if last[a.Key] += a.Count; a.Last != last[a.Key] {
				t.Fatalf("ask %d of %s: %d, want %d", i, a.Key, a.Last, last[a.Key])
			}
		}
	}, smallStep)
}

// What comes while a call of Redis is under way goes with the next: a thousand callers are a few calls.
func TestCallersShareCalls(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.redis.change(func() { r.redis.took = 10 * time.Millisecond })
		var callers sync.WaitGroup
		var mu sync.Mutex
		var all []int64
		for range 1000 {
			callers.Go(func() {
				got, err := r.ask("a", 1)
				check.OK(t, err)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, got)
			})
		}
		callers.Wait()
		slices.Sort(all)
		for i, n := range all {
			if n != int64(i+1) {
				t.Fatalf("number %d is %d", i, n)
			}
		}
		if r.redis.calls > 50 {
			t.Errorf("%d calls", r.redis.calls)
		}
	})
}

// Calls follow each other closely: each waits for four asks. A lone caller waits for nobody.
func TestCallsWaitForMore(t *testing.T) {
	const took = 100 * time.Microsecond
	within(t, func(t *testing.T, r *rig) {
		r.want("a", 1)
		r.redis.change(func() { r.redis.took, r.redis.calls = took, 0 })
		begun := time.Now()
		for range 100 {
			check.Equal(t, check.Err(r.ask("a", 1)), nil)
		}
		check.Equal(t, time.Since(begun), 100*took, "what a lone caller waited")
		r.redis.change(func() { r.redis.calls = 0 })
		var callers sync.WaitGroup
		for n := range 408 {
			callers.Go(func() { check.OK(t, check.Err(r.ask("a", 1))) })
			if n >= 8 { // the first come together
				time.Sleep(took)
			}
		}
		callers.Wait()
		if r.redis.calls > 110 {
			t.Errorf("%d calls for 408 asks, one each %v", r.redis.calls, took)
		}
	})
}

// A space that is not known is looked for, and others of the call are answered.
func TestUnknownSpace(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		look := func() (none, good *model.SequenceAsk) {
			none, good = &model.SequenceAsk{Space: "new", Key: "a", Count: 1}, &model.SequenceAsk{Space: "s", Key: "a",
				Count: 1}
			r.Ask(t.Context(), []*model.SequenceAsk{none, good})
			check.OK(t, good.Err)
			return none, good
		}
		none, _ := look()
		check.Is(t, none.Err, model.ErrUnknownSpace)
		r.table.change(func() { r.table.err = errAway })
		time.Sleep(1100 * time.Millisecond)
		none, _ = look()
		check.Is(t, none.Err, model.ErrNoNumber, "it may be there")
		check.Is(t, none.Err, errAway)
		r.table.change(func() { r.table.err = nil })
		time.Sleep(1100 * time.Millisecond)
		none, _ = look()
		check.Is(t, none.Err, model.ErrUnknownSpace)
		r.table.change(func() { r.table.spaces["new"] = model.Space{Name: "new", Sections: 1, Step: 10} })
		time.Sleep(1100 * time.Millisecond) // sooner than leases are renewed
		none, _ = look()
		check.OK(t, none.Err)
		check.Equal(t, none.Last, 1, "of a space that was added")
	})
}

// The spaces that a renewal found do not replace those that a later one found, which was faster.
func TestALateRenewal(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		ask := func(space string) error {
			a := &model.SequenceAsk{Space: space, Key: "a", Count: 1}
			r.Ask(t.Context(), []*model.SequenceAsk{a})
			return a.Err
		}
		r.table.change(func() { r.table.late = 2 * time.Second })
		time.Sleep(3100 * time.Millisecond) // it is under way, and has found one space
		r.table.change(func() { r.table.spaces["new"] = model.Space{Name: "new", Sections: 1, Step: 10} })
		check.OK(t, ask("new"))
		time.Sleep(1800 * time.Millisecond)
		check.Is(t, ask("none"), model.ErrUnknownSpace) // nobody looks for a second
		time.Sleep(200 * time.Millisecond)
		check.OK(t, ask("new"), "after the late answer")
	})
}

// A lease lasts from the call that renews it on, however late the answer is.
func TestALeaseBeginsWithItsCall(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.want("a", 1)
		r.table.change(func() { r.table.late = 4 * time.Second })
		time.Sleep(3100 * time.Millisecond) // a renewal is under way, the last one
		r.table.change(func() { r.table.err = errAway })
		time.Sleep(9 * time.Second)
		r.want("a", 2)
		time.Sleep(2 * time.Second)
		r.wantNone("a", errAway)
	})
}

// A server of a cluster that is silent costs the sections of the others time, and nothing else.
func TestASilentServer(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		one := keyNo(0)
		other := otherThan(one)
		ask := func() (silent, good *model.SequenceAsk) {
			silent = &model.SequenceAsk{Space: "s", Key: one, Count: 1}
			good = &model.SequenceAsk{Space: "s", Key: other, Count: 1}
			r.Ask(t.Context(), []*model.SequenceAsk{silent, good})
			return silent, good
		}
		hush := func(keys map[model.SectionKey]bool) { r.redis.change(func() { r.redis.silent = keys }) }
		silence := map[model.SectionKey]bool{sectionOf(one): true}
		for range 2 { // before its numbers came, and after
			hush(silence)
			silent, good := ask()
			check.Is(t, silent.Err, errAway)
			check.OK(t, good.Err)
			hush(nil)
			time.Sleep(5 * time.Second)
			silent, good = ask()
			check.OK(t, silent.Err)
			check.OK(t, good.Err)
		}
	}, func(o *sequence.Options, _ *table) { o.Timeout = 1900 * time.Millisecond })
}

// However many sections a silent server has, those of the others wait for it once.
func TestManySilentSections(t *testing.T) {
	many := model.Space{Name: "many", Sections: 64, Step: 1000}
	within(t, func(t *testing.T, r *rig) {
		good, silent := keyNo(0), map[model.SectionKey]bool{}
		for i := range 100 {
			section := model.SectionKey{Space: "many", Section: many.SectionOf(keyNo(i))}
			silent[section] = section.Section != many.SectionOf(good)
		}
		r.redis.change(func() { r.redis.second = silent })
		ask := func(key string) error {
			asks := []*model.SequenceAsk{{Space: "many", Key: key, Count: 1}}
			r.Ask(t.Context(), asks)
			return asks[0].Err
		}
		for i := range 100 {
			check.OK(t, ask(keyNo(i)))
		}
		r.redis.change(func() { r.redis.silent = silent })
		var others sync.WaitGroup
		defer others.Wait()
		for i := range 100 {
			others.Go(func() { _ = ask(keyNo(i)) })
			time.Sleep(50 * time.Millisecond)
		}
		began := time.Now()
		check.OK(t, ask(good))
		check.Equal(t, time.Since(began) < 100*time.Millisecond, true, "it took", time.Since(began))
	}, func(_ *sequence.Options, t *table) { t.spaces["many"] = many })
}

// Numbers for callers who have gone before they were asked for would be gaps.
func TestWhoHasGone(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.want("a", 1)
		r.redis.change(func() { r.redis.took = 500 * time.Millisecond })
		var first sync.WaitGroup
		first.Go(func() { r.want("a", 2) })
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		gone := &model.SequenceAsk{Space: "s", Key: "a", Count: 1}
		r.Ask(ctx, []*model.SequenceAsk{gone})
		check.Is(t, gone.Err, context.DeadlineExceeded)
		first.Wait()
		r.want("a", 3)
	})
}

// A deadline tells why there is no number, and nobody writes to the ask afterwards.
func TestDeadline(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.table.change(func() { r.table.err = errAway })
		a := &model.SequenceAsk{Space: "s", Key: "a", Count: 1}
		began := time.Now()
		r.Ask(t.Context(), []*model.SequenceAsk{a})
		check.Equal(t, time.Since(began), time.Second, "waited")
		check.Is(t, a.Err, model.ErrNoNumber)
		check.Is(t, a.Err, errAway)
		check.Is(t, r.reports.Of(sequence.Condition), errAway)
		before := *a
		r.table.change(func() { r.table.err = nil })
		time.Sleep(5 * time.Second)
		check.Equal(t, *a, before, "the ask")
		check.OK(t, r.reports.Of(sequence.Condition), "without a caller the condition")
		r.wantAbove("a", 0)

		r.redis.change(func() { r.redis.took = 1500 * time.Millisecond })
		r.Ask(t.Context(), []*model.SequenceAsk{a})
		check.Is(t, a.Err, model.ErrNoNumber)
		before = *a
		time.Sleep(5 * time.Second)
		check.Equal(t, *a, before, "the ask whose answer was late")
		ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		r.Ask(ctx, []*model.SequenceAsk{a})
		check.Is(t, a.Err, context.DeadlineExceeded)
	})
}

// Numbers that another replica was faster with, or whose life has ended, are left out; a push
// that fails is told.
func TestPushIsRefused(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.redis.change(func() { r.redis.pushes = []error{model.ErrLifeChanged, model.ErrNotAboveHighWater} })
		got, err := r.ask("a", 1)
		check.OK(t, err)
		if got <= 1000 {
			t.Errorf("%d was given up", got)
		}
		away := &model.StoreError{Store: "redis", Op: "push", Err: context.DeadlineExceeded}
		r.redis.change(func() { r.redis.pushes = slices.Repeat([]error{away}, 100) })
		r.wantNone(otherThan("a"), away)
		r.redis.change(func() { r.redis.pushes = nil })
		check.OK(t, check.Err(r.ask(otherThan("a"), 1)))
	})
}

// otherThan is a key of another section.
func otherThan(key string) string {
	for i := 0; ; i++ {
		if space.SectionOf(keyNo(i)) != space.SectionOf(key) {
			return keyNo(i)
		}
	}
}

// A section that has no numbers left says so at once.
func TestNoneAreLeft(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.table.change(func() {
			r.table.fresh.Last = model.MaxSequence - 2
		})
		r.want("a", model.MaxSequence-1)
		r.want("a", model.MaxSequence)
		began := time.Now()
		check.Is(t, check.Err(r.ask("a", 1)), model.ErrLimitReached)
		if took := time.Since(began); took >= time.Second {
			t.Errorf("told after %v", took)
		}
		check.OK(t, r.reports.Of(sequence.Condition), "an answer is no failure: the condition")
	})
}

// Stop fails who waits, and all who come later, for good.
func TestStop(t *testing.T) {
	for name, keepWaiting := range map[string]func(*rig){
		"it waits for numbers": func(r *rig) { r.table.change(func() { r.table.err = errAway }) },
		"its call is under way": func(r *rig) {
			r.want("a", 1)
			r.redis.change(func() { r.redis.silent = map[model.SectionKey]bool{sectionOf("a"): true} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, r *rig) {
				keepWaiting(r)
				failed := make(chan error, 1)
				go func() { failed <- check.Err(r.ask("a", 1)) }()
				time.Sleep(100 * time.Millisecond)
				began := time.Now()
				check.OK(t, r.Stop(t.Context()))
				check.Is(t, <-failed, model.ErrNotReady)
				check.Is(t, check.Err(r.ask("a", 1)), model.ErrNotReady)
				if took := time.Since(began); took > 500*time.Millisecond {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
