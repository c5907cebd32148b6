package rig

import (
	"fmt"
	"slices"
	"time"
)

// maxNumber is the highest number of a key: JavaScript tells no higher one from the next.
const maxNumber = 1<<53 - 1

// Call is a question to a sequence, with its answer.
type Call struct {
	By, Key         string
	Asked, Answered time.Duration // since the first call, all different; Answered is 0 when no answer came
	Current         bool          // it asked how far the key has come: up to Last
	First, Last     int64         // else the numbers that it got
}

func (c *Call) String() string {
	what := fmt.Sprintf("%d to %d", c.First, c.Last)
	if c.Current {
		what = fmt.Sprintf("current %d", c.Last)
	}
	return fmt.Sprintf("%s of %q by %s from %.6f s to %.6f s",
		what, c.Key, c.By, c.Asked.Seconds(), c.Answered.Seconds())
}

// low and high are the places that an answer takes: 2n is that of number n, and 2n+1, behind
// it, that of whoever was told that the key has come to n.
func (c *Call) low() int64 {
	if c.Current {
		return 2*c.Last + 1
	}
	return 2 * c.First
}

func (c *Call) high() int64 {
	if c.Current {
		return 2*c.Last + 1
	}
	return 2 * c.Last
}

// Order checks that the numbers of each key rise, whoever is asked: an answer lies behind all
// that were answered before it was asked for, no number comes twice, and nobody is told of a
// number in the middle of those that another one gets at once. That is all that a register
// that rises promises. A call without an answer may have issued anything.
//
// It needs what a Ledger needs, and the calls in flight. The zero value is ready; it is safe
// for concurrent use.
type Order struct {
	Ledger // a list for each key

	keys  map[string]*course
	begun time.Time
	now   time.Duration
	tally Tally
}

// Tally counts calls, those without an answer, and answers that went back.
type Tally struct{ Calls, Lost, Back int }

// Add sums up two.
func (t Tally) Add(more Tally) Tally {
	return Tally{t.Calls + more.Calls, t.Lost + more.Lost, t.Back + more.Back}
}

// course is how a key has gone.
type course struct {
	list    List
	highest Call      // the answer that took the highest place
	flying  []*Asking // in the order in which they were asked
	wide    []Call    // answers that one in flight could still meet, but for single numbers
}

// Asking is a call in flight. Exactly one of Got, Is and Lost ends it.
type Asking struct {
	call   Call
	order  *Order
	course *course
	after  Call // its answer has to lie behind this one
}

// Ask begins a call, before its request is sent.
func (o *Order) Ask(by, key string) *Asking {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.keys[key]
	if k == nil {
		if o.keys == nil {
			o.keys, o.begun = map[string]*course{}, time.Now()
		}
		k = &course{list: List{App: -1, Shard: int64(len(o.keys))}}
		o.keys[key] = k
	}
	o.tally.Calls++
	a := &Asking{call: Call{By: by, Key: key, Asked: o.tick()}, order: o, course: k, after: k.highest}
	k.flying = append(k.flying, a)
	return a
}

// tick is the time of an event. Callers hold mu.
func (o *Order) tick() time.Duration {
	o.now = max(o.now+1, time.Since(o.begun))
	return o.now
}

// Got ends a call that got the numbers first to last.
func (a *Asking) Got(first, last int64) {
	a.call.First, a.call.Last = first, last
	a.land(true)
}

// Is ends a call that was told how far the key has come.
func (a *Asking) Is(current int64) {
	a.call.Current, a.call.Last = true, current
	a.land(true)
}

// Lost ends a call without an answer.
func (a *Asking) Lost() { a.land(false) }

func (a *Asking) land(answered bool) {
	o, k, c := a.order, a.course, &a.call
	o.mu.Lock()
	defer o.mu.Unlock()
	if !answered {
		o.tally.Lost++
	} else if c.Answered = o.tick(); o.possible(c) {
		o.compare(a)
		if c.high() > k.highest.high() {
			k.highest = *c
		}
		if c.Current || c.Last > c.First {
			k.wide = append(k.wide, *c)
		}
	}
	i := slices.Index(k.flying, a)
	k.flying = slices.Delete(k.flying, i, i+1)
	k.forget()
}

// possible refuses what cannot be an answer. Callers hold mu.
func (o *Order) possible(c *Call) bool {
	lowest := int64(1)
	if c.Current {
		lowest = 0
	}
	if c.Last > maxNumber || c.Last < lowest || c.First > c.Last || !c.Current && c.First < 1 {
		o.blame("no answer: %v", c)
		return false
	}
	return true
}

// compare holds an answer against all others. Callers hold mu.
func (o *Order) compare(a *Asking) {
	c := &a.call
	if c.low() < a.after.high() {
		o.tally.Back++
		o.blame("BACK: %v, and before it %v", c, &a.after)
	}
	for i := range a.course.wide {
		if w := &a.course.wide[i]; c.Current != w.Current && c.low() <= w.high() && w.low() <= c.high() {
			o.blame("WITHIN: %v and %v", c, w)
		}
	}
	if !c.Current {
		for n := c.First; n <= c.Last; n++ {
			o.note(c.By+", key "+c.Key, a.course.list, n)
		}
	}
}

// forget drops what a call in flight can meet only if it goes back, which is noticed. The one
// that was asked first has the least to lie behind.
func (k *course) forget() {
	floor := k.highest.high()
	if len(k.flying) > 0 {
		floor = k.flying[0].after.high()
	}
	k.wide = slices.DeleteFunc(k.wide, func(c Call) bool { return c.high() <= floor })
}

// Tally is that of the calls so far.
func (o *Order) Tally() Tally {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tally
}
