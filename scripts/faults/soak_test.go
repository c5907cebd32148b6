//go:build unix

package faults

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"
)

var soakFlag = flag.Duration("soak", 0, "how long TestSoak runs; 0 skips it")

const (
	// spell is how long one topology is used before the next one's turn.
	spell = 5 * time.Minute
	// progressEvery is how often the soak says that it lives.
	progressEvery = 10 * time.Second
)

// TestSoak runs the nemesis for as long as -soak says, in turn on all
// topologies. Ctrl-C ends it after the present round, with its report.
func TestSoak(t *testing.T) {
	if *soakFlag == 0 {
		t.Skip("give a time: -soak 1h")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &soak{begun: time.Now(), ctx: ctx, total: report{faults: map[string]int{}, metrics: map[string]float64{}}}
	s.end = s.begun.Add(*soakFlag)
	first := seed(t)
	var teller sync.WaitGroup
	telling, quiet := context.WithCancel(context.Background())
	teller.Go(func() { s.tell(telling) })
	all := topologies()
	for i := 0; s.goesOn() && !t.Failed(); i++ {
		topology := all[i%len(all)]
		t.Run(fmt.Sprintf("%s %d", topology, i/len(all)+1), func(t *testing.T) { s.spell(t, topology, first+uint64(i)) })
	}
	quiet()
	teller.Wait()
	s.total.took = time.Since(s.begun)
	fmt.Fprintf(os.Stderr, "soak: %v\n", s.total)
}

// soak is what the spells have in common.
type soak struct {
	ctx        context.Context // ends with Ctrl-C
	begun, end time.Time

	mu    sync.Mutex
	world *world // present one, for the progress line
	now   string // present fault
	total report // of spells that are over
	turns int    // faults so far
}

func (s *soak) goesOn() bool { return s.ctx.Err() == nil && time.Now().Before(s.end) }

// length is that of the next spell: short soaks see all topologies too.
func (s *soak) length() time.Duration {
	return min(spell, s.end.Sub(s.begun)/time.Duration(len(topologies())))
}

// spell is a run on one topology.
func (s *soak) spell(t *testing.T, topology string, seed uint64) {
	until := time.Now().Add(s.length())
	p := plan{topology: topology, seed: seed, rounds: math.MaxInt16, procs: 3, server: shardid(t), modes: otherModes(), gophers: 2, patient: true, proof: 1500,
		before: func(w *world, next round) bool {
			goesOn := s.goesOn() && time.Now().Before(until) && w.books.Duplicates() == 0 && len(w.disorder()) == 0
			if goesOn {
				s.follow(w, next.fault.name)
			}
			return goesOn
		}}
	w, r := p.run(t)
	t.Log(r)
	r.check(t, w)
	s.add(r)
}

func (s *soak) follow(w *world, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world, s.now = w, fault
	s.turns++
}

func (s *soak) add(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.add(r)
	s.world = nil
}

// add sums up two reports.
func (r *report) add(more report) {
	r.ids += more.ids
	r.duplicates += more.duplicates
	r.gaps += more.gaps
	r.allocated += more.allocated
	r.requests += more.requests
	r.refused += more.refused
	r.popped += more.popped
	r.drawn += more.drawn
	r.tripped += more.tripped
	r.numbers += more.numbers
	r.calls = r.calls.Add(more.calls)
	for name, n := range more.faults {
		r.faults[name] += n
	}
	for name, n := range more.metrics {
		r.metrics[name] += n
	}
}

// tell writes a line now and then until ctx ends.
func (s *soak) tell(ctx context.Context) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fmt.Fprintln(os.Stderr, s.progress())
		}
	}
}

func (s *soak) progress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, duplicates, gaps := s.total.ids, s.total.duplicates, s.total.gaps
	topology, now := "between two spells", "none"
	if s.world != nil {
		books := s.world.books
		_, more := books.OfQueue()
		ids, duplicates, gaps = ids+books.Count(), duplicates+books.Duplicates(), gaps+more
		topology, now = s.world.topology, s.now
	}
	return fmt.Sprintf("soak: %v of %v, %s, %d IDs, %d faults (now: %s), %d duplicates, %d gaps",
		time.Since(s.begun).Round(time.Second), s.end.Sub(s.begun), topology, ids, s.turns, now, duplicates, gaps)
}
