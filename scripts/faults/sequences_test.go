//go:build unix

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"shardid/scripts/rig"
)

// space is one of sequences: few sections and small steps run dry all the time.
type space struct {
	name           string
	sections, step int
	order          *rig.Order // of all that its keys were answered
}

func spaces() []space {
	return []space{{"chat", 16, 200, &rig.Order{}}, {"feed", 2, 1000, &rig.Order{}}}
}

const (
	// numberers is how many clients ask for numbers of keys at the same time.
	numberers = 8
	// keysOf is how many keys of each space they ask for.
	keysOf = 150
	// takeover bounds how long sequences may take to go on after a fault. It is far above what
	// the leases and the doubts of both stores make of it.
	takeover = 3 * time.Minute
)

// startNumbering begins to ask all processes for numbers of keys; it ends at the latest with
// the test.
func (w *world) startNumbering() {
	w.numbers.Start(w.t, numberers, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(2, uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(breath) {
			_ = w.number(ctx, w.procs[rnd.IntN(len(w.procs))], w.spaces[rnd.IntN(len(w.spaces))], rnd) // the order counts refusals
		}
	})
}

// number asks p for some numbers of a random key, of which few get half of all, or how far it
// has come.
func (w *world) number(ctx context.Context, p *proc, s space, rnd *rand.Rand) error {
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
	var asked rig.Sequence = rig.SequenceHTTP{Client: w.clients.http, URL: p.url(), Space: s.name}
	by := p.name + " over HTTP"
	if resp := p.redis.Load(); resp != nil && rnd.IntN(2) == 0 {
		asked, by = rig.Incr{Redis: resp, Prefix: "sequence:" + s.name + ":"}, p.name+" over RESP"
	}
	return s.order.Draw(ctx, by, asked, fmt.Sprint("key", key), count)
}

// verifyNumbers returns when every process numbers keys of each space again, and so many numbers
// have come that something that is wrong would show.
func (w *world) verifyNumbers() {
	w.t.Helper()
	begun := w.numbersSoFar()
	for _, p := range w.procs {
		for _, s := range w.spaces {
			asked := rig.SequenceHTTP{Client: w.clients.http, URL: p.url(), Space: s.name}
			rig.Until(w.t, takeover, p.name+" numbers again: "+s.name, func() error {
				return s.order.Draw(context.Background(), "verify", asked, "key0", 1)
			})
		}
	}
	rig.Until(w.t, takeover, "many numbers again", func() error {
		if n := w.numbersSoFar() - begun; n < 2000 {
			return fmt.Errorf("%d", n)
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
