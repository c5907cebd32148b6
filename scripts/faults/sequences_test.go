//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"shardid/scripts/rig"
)

// space is one of sequences: few sections and small steps run dry all the time.
type space struct {
	name           string
	sections, step int
	order          *rig.Order // of all that its keys were answered
}

// young is the place of the space that comes and goes.
const young = 2

func spaces() []space {
	return []space{{"chat", 16, 200, &rig.Order{}}, {"feed", 2, 1000, &rig.Order{}}, {youngTag, 0, 0, &rig.Order{}}}
}

const (
	// numberers is how many clients ask for numbers of keys at the same time, each of them one process.
	numberers = 9
	// keysOf is how many keys of each space they ask for.
	keysOf = 150
	// takeover bounds how long sequences may take to go on after a fault. It is far above what
	// the leases and the doubts of both stores make of it.
	takeover = 3 * time.Minute
)

// startNumbering begins to ask all processes for numbers of keys.
func (w *world) startNumbering() {
	w.numbers.Start(w.whole, numberers, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(2, uint64(caller)))
		for ; ctx.Err() == nil && w.hasRedis(); time.Sleep(breath) {
			// The order counts refusals.
			_ = w.draw(ctx, w.procs[caller%len(w.procs)], w.spaces[rnd.IntN(len(w.spaces))], rnd)
		}
	})
}

// draw asks p for some numbers of a random key, of which few get half of all, or how far it
// has come.
func (w *world) draw(ctx context.Context, p *proc, s space, rnd *rand.Rand) error {
	key, count := rnd.IntN(keysOf), 1
	if rnd.IntN(2) == 0 {
		key = rnd.IntN(4)
	}
	switch kind := rnd.IntN(6); {
	case kind == 0:
		count = 0
	case kind == 1 && w.region.bits == 0: // the numbers of a region leave out others', which is no run
		count = 2 + rnd.IntN(40)
	}
	asked, by := rig.Sequence(w.sequence(p, s)), p.name+" over HTTP"
	if resp := p.redis.Load(); resp != nil && rnd.IntN(2) == 0 {
		asked, by = rig.Incr{Redis: resp, Prefix: "sequence:" + s.name + ":"}, p.name+" over RESP"
	}
	return s.order.Draw(ctx, by, asked, fmt.Sprint("key", key), count)
}

func (w *world) sequence(p *proc, s space) rig.SequenceHTTP {
	return rig.SequenceHTTP{Client: w.clients.http, URL: p.url(), Space: s.name}
}

// verifyNumbers returns when some processes, by default all, number keys of each space again.
func (w *world) verifyNumbers(procs ...*proc) {
	w.t.Helper()
	if procs == nil {
		procs = w.procs
	}
	for _, p := range procs {
		for _, s := range w.spaces[:young] {
			rig.Until(w.t, takeover, p.name+" numbers again: "+s.name, func() error {
				return s.order.Draw(context.Background(), "verify", w.sequence(p, s), "key0", 1)
			})
		}
	}
}

// stopsNumbering returns when a process refuses to number keys and says that it is for want of a store.
func (w *world) stopsNumbering(p *proc, store string) {
	w.t.Helper()
	w.until(p.name+" gives no numbers without "+store, func() error {
		err := w.spaces[0].order.Draw(context.Background(), "verify", w.sequence(p, w.spaces[0]), "key1", 1)
		var refusal *rig.RefusalError
		if !errors.As(err, &refusal) {
			return errors.Join(errors.New("that is no refusal"), err)
		}
		if refusal.Status != 503 || refusal.Code != -4 || !strings.Contains(refusal.Message, store) {
			return refusal
		}
		return nil
	})
}

// numbersSoFar is how many numbers of sequences came.
func (w *world) numbersSoFar() (n int) {
	for _, s := range w.spaces {
		n += s.order.Count()
	}
	return n
}

// phase says what goes on from now on.
func (w *world) phase(text string) {
	w.books.Phase(text)
	for _, s := range w.spaces {
		s.order.Phase(text)
	}
}

// disorder is what was wrong with numbers of keys.
func (w *world) disorder() (problems []string) {
	for _, s := range w.spaces {
		problems = append(problems, s.order.Problems()...)
	}
	return problems
}
