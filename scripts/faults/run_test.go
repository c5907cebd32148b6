//go:build unix

package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"
)

// plan is one run.
type plan struct {
	topology string
	seed     uint64
	rounds   int // at most
	once     int // each kind of fault comes once, of the long ones so many; 0: again and again
	procs    int
	server   func(settings) server
	modes    []mode // asked for IDs beside the queue
	gophers  int    // processes with the Go client
	patient  bool   // sequences are waited for after each round, too
	region   region // of the deployment; the zero value is none
	// proof is how many IDs every process must give at once after a round: more
	// than it takes ahead, so that they come from the stores.
	proof int
	// before is asked before every round and ends the run by false.
	before func(w *world, next round) bool
}

// callers is how many clients ask at the same time.
const callers = 24

// report is what a run came to.
type report struct {
	ids, duplicates   int
	gaps, allocated   int64
	requests, refused int64
	popped, drawn     int64 // IDs in batches over RESP, and by Go clients
	faults            map[string]int
	metrics           map[string]float64
	tripped           int // lines of the tripwire in all logs
	numbers           int // of sequences
	calls             rig.Tally
	took              time.Duration
}

// run is the nemesis: round by round a fault, healing, and the proof that every
// process issues again.
func (p plan) run(t *testing.T) (*world, report) {
	t.Helper()
	begun := time.Now()
	w := newWorld(t, p)
	r := report{faults: map[string]int{}}
	w.clients.start(t, callers)
	w.startNumbering()
	w.verify()
	for i, next := range schedule(p.seed, p.topology, p.rounds, p.once) {
		if !p.before(w, next) {
			break
		}
		w.round(i+1, next)
		r.faults[next.fault.name]++
	}
	w.close(&r)
	r.took = time.Since(begun)
	return w, r
}

// round breaks something, heals it, and waits until all works again.
func (w *world) round(i int, r round) {
	w.t.Helper()
	begun := time.Now()
	idsBefore := w.books.Count()
	w.phase(fmt.Sprintf("round %d: %s", i, r.fault.name))
	w.rnd = rand.New(rand.NewPCG(r.seed, 2))
	w.notes = ""
	w.setWeather(r.redis, r.db)
	r.fault.run(w)
	broken := time.Since(begun)
	w.heal()
	w.verify()
	ids, duplicates := w.books.Count(), w.books.Duplicates()
	w.t.Logf("round %2d: %-32s %5.2f s, healed in %5.2f s, %6d IDs, %d duplicates%s", i, r.fault.name,
		broken.Seconds(), (time.Since(begun) - broken).Seconds(), ids-idsBefore, duplicates, w.notes+r.weather())
}

func (r round) weather() string {
	text := ""
	if r.redis != (Weather{}) {
		text += fmt.Sprintf("; redis: %v", r.redis)
	}
	if r.db != (Weather{}) {
		text += fmt.Sprintf("; database: %v", r.db)
	}
	return text
}

// close reads what is left to be known.
func (w *world) close(r *report) {
	w.t.Helper()
	w.phase("end")
	w.clients.callers.Stop()
	w.numbers.Stop()
	for _, g := range w.gophers {
		g.kill()
		r.drawn += g.drawn.Load()
	}
	r.popped = w.clients.popped.Load()
	r.numbers = w.numbersSoFar()
	for _, s := range w.spaces {
		r.calls = r.calls.Add(s.order.Tally())
	}
	r.requests, r.refused = w.clients.requests.Load(), w.clients.refused.Load()
	r.allocated = w.allocated()
	r.ids, r.duplicates = w.books.Count(), w.books.Duplicates()
	issued, _ := w.books.OfQueue()
	r.gaps = r.allocated - issued
	for _, p := range w.procs {
		w.tally(p)
		r.tripped += p.refusals()
	}
	r.metrics = w.totals
}

// allocated sums max_id and checks that nothing above it was delivered. Where the database
// went back, a list that nobody has used since is used first: only then does its row say
// what it lacked.
func (w *world) allocated() (sum int64) {
	w.t.Helper()
	highest, rows := w.books.Highest(), w.maxIDs()
	for in, maxID := range rows {
		if w.region.row(highest[in]) <= maxID {
			continue
		}
		w.books.Phase(fmt.Sprintf("end, list %d_%d delivered index %d, and max_id is %d", in.App, in.Shard, highest[in], maxID))
		if len(w.gophers) == 0 { // the plain design
			w.books.Complain("not allocated")
			continue
		}
		until(w.t, "the row of a list that delivered more rises", func() error {
			if err := w.clients.get(context.Background(), w.procs[0], in.App, rig.PassOf(in.Shard), w.proof); err != nil {
				return err
			}
			if maxID := w.maxIDs()[in]; maxID < w.region.row(highest[in]) {
				return fmt.Errorf("max_id of %v is %d, index %d was delivered", in, maxID, highest[in])
			}
			return nil
		})
	}
	for _, maxID := range w.maxIDs() {
		sum += maxID
	}
	return sum
}

func (w *world) maxIDs() map[rig.List]int64 {
	w.t.Helper()
	all := map[rig.List]int64{}
	rows, err := w.sql.QueryContext(w.t.Context(), "SELECT app_id, shard_id, max_id FROM id_alloc")
	w.must(err)
	defer rows.Close()
	for rows.Next() {
		var in rig.List
		var maxID int64
		w.must(rows.Scan(&in.App, &in.Shard, &maxID))
		all[in] = maxID
	}
	w.must(rows.Err())
	return all
}

// tally adds up the counters of a process, before it is killed and at the end.
func (w *world) tally(p *proc) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	status, body, err := w.clients.fetch(ctx, p.url()+"/metrics")
	if err != nil || status != http.StatusOK {
		w.t.Errorf("%s: /metrics: %d, %v", p.name, status, err)
		return
	}
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "shardid_queue_") {
			w.totals[name] += n
		}
	}
}

// String is the report for people.
func (r report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d IDs in %v, %d duplicates\n", r.ids, r.took.Round(100*time.Millisecond), r.duplicates)
	fmt.Fprintf(&b, "  %d indices allocated, %d of them gaps or not yet issued\n", r.allocated, r.gaps)
	fmt.Fprintf(&b, "  %d requests, %d not served; the tripwire refused %d\n", r.requests, r.refused, r.tripped)
	for _, name := range slices.Sorted(maps.Keys(r.metrics)) {
		fmt.Fprintf(&b, "  %s %.0f\n", name, r.metrics[name])
	}
	fmt.Fprintf(&b, "  %d IDs came over RESP in batches, %d by Go clients\n", r.popped, r.drawn)
	fmt.Fprintf(&b, "  %d numbers of sequences, %d of %d calls without an answer, %d went back\n", r.numbers, r.calls.Lost, r.calls.Calls, r.calls.Back)
	rounds := 0
	for _, n := range r.faults {
		rounds += n
	}
	fmt.Fprintf(&b, "  %d rounds:", rounds)
	for _, name := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(&b, " %s %d;", name, r.faults[name])
	}
	return b.String()
}

// check fails the test for everything that must not be.
func (r report) check(t *testing.T, w *world) {
	t.Helper()
	w.books.Settle(t)
	for _, s := range w.spaces {
		s.order.Settle(t, s.name)
	}
	if r.duplicates != 0 {
		t.Errorf("%d IDs were issued twice", r.duplicates)
	}
	repeated, known := r.metrics["shardid_queue_repeated_indices_total"]
	if !known || repeated != 0 || r.tripped != 0 {
		t.Errorf("the tripwire refused %.0f indices (known: %v), %d are in the logs", repeated, known, r.tripped)
	}
}
