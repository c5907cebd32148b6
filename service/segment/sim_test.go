package segment_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/simtest"
	"shardid/service/segment"
)

// What a database may lack after a failover is simulated with the counter that all modes have, in
// model/counter_sim_test.go.
func TestSimulation(t *testing.T) {
	simtest.Simulation[string]{
		Worlds: 2000, World: simulate, Least: map[string]float64{"IDs": 500, "lifts": 0.3, "wasted": 20},
	}.Run(t)
}

// simulate runs one world and says how many IDs it issued, and what was wrong.
func simulate(t *testing.T, seed uint64, _ string) (did simtest.Tally, err error) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed)
		w.run(t)
		did, err = w.check()
	})
	return did, err
}

const (
	simTime    = 1500 * time.Millisecond // of faults; then the world heals
	simHealing = 10 * time.Second        // until then everybody must be served again
	simCallers = 3                       // a process
)

// world is a table and the processes that use it. A third of the seeds have one process and a table that goes back in
// time unnoticed, forgets the tag, or changes its step; the others two processes and a database that fails. In half of
// these the tag has business numbers, it is nearly midnight and the processes' clocks step: no number has a date
// that is past.
type world struct {
	rng     *rand.Rand
	db      *simTable
	procs   []*process
	faults  []string
	numbers *model.Numbers // nil for a plain tag
}

// process is one service with its callers.
type process struct {
	replica
	view    *simView
	callers []*caller
}

type caller struct {
	rng   *rand.Rand
	next  func(ctx context.Context, n int, dst []int64) ([]int64, error)
	ids   []int64
	runs  [][2]int64 // first and last of each; they may begin above IDs that are still held
	bad   error
	final error // of the call after the world has healed
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1))}
	row := model.Tag{Name: "orders", MaxID: 1, Step: 1 + w.rng.Int64N(40)}
	if seed%3 == 2 {
		time.Sleep(24*time.Hour - 700*time.Millisecond)
		row.Numbering = daily
		w.numbers, _ = daily.Numbers()
	}
	w.db = &simTable{table: newTable(row.Step), latency: time.Duration(w.rng.IntN(20)) * time.Millisecond}
	w.db.rows["orders"] = row
	for range 1 + min(1, seed%3) {
		w.procs = append(w.procs, &process{view: &simView{db: w.db, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2))}})
	}
	return w
}

func (w *world) run(t *testing.T) {
	ctx, heal := context.WithCancel(t.Context())
	defer heal()
	var wg sync.WaitGroup
	for _, p := range w.procs {
		p.replica = ready(t, p.view, func(o *segment.Options) {
			o.MaxStep, o.Runway, o.Reload, o.Timeout = 200, time.Second, 50*time.Millisecond, 300*time.Millisecond
			o.Now = p.view.now
		})
		for range simCallers {
			c := &caller{rng: rand.New(rand.NewPCG(w.rng.Uint64(), 3)),
				next: func(ctx context.Context, n int, dst []int64) ([]int64, error) {
					return p.Next(ctx, "orders", model.ShardKey{}, n, dst)
				}}
			if w.numbers != nil {
				c.next = func(ctx context.Context, n int, dst []int64) ([]int64, error) {
					return c.takeNumbers(ctx, p, w.numbers, n, dst)
				}
			}
			p.callers = append(p.callers, c)
			wg.Go(func() { c.run(ctx, p.replica) })
		}
	}
	for left := simTime; left > 0; {
		pause := time.Duration(1+w.rng.IntN(60)) * time.Millisecond
		time.Sleep(pause)
		left -= pause
		w.fault()
	}
	heal()
	w.db.set(func(*table) { w.db.gone, w.db.trouble = false, "ok" })
	wg.Wait()
}

// takeNumbers takes business numbers, as IDs.
func (c *caller) takeNumbers(ctx context.Context, p *process, numbers *model.Numbers, n int, dst []int64) ([]int64,
	error) {
	skew := p.view.skew.Load()
	today, _ := numbers.Period(p.view.now())
	texts, err := p.Numbers(ctx, "orders", n, nil)
	stepped := p.view.skew.Load() != skew // perhaps back, to the day before
	for _, text := range texts {
		id, bad := numbers.ID(text)
		if dst = append(dst, id); bad != nil || numbers.PeriodOf(id) < today && !stepped {
			c.bad = fmt.Errorf("the number %s is past, or none: %w", text, bad)
		}
	}
	return dst, err
}

// run takes IDs until the faults end, and then once more.
func (c *caller) run(ctx context.Context, r replica) {
	for ctx.Err() == nil {
		if c.rng.IntN(4) == 0 {
			if run, err := r.Run(ctx, "orders", model.ShardKey{}); err == nil {
				c.runs = append(c.runs, [2]int64{run.First, run.First + run.Count - 1})
			}
		}
		before, n := len(c.ids), 1
		if c.rng.IntN(3) == 0 {
			n = 1 + c.rng.IntN(60)
		}
		ids, err := c.next(ctx, n, c.ids)
		if (err == nil) != (len(ids) == before+n) {
			c.bad = fmt.Errorf("%d IDs instead of %d, error %w", len(ids)-before, n, err)
		}
		c.ids = ids
		time.Sleep(time.Duration(c.rng.IntN(10_000)) * time.Microsecond)
	}
	for end := time.Now().Add(simHealing); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if c.ids, c.final = c.next(context.Background(), 20, c.ids); c.final == nil {
			return
		}
	}
}

func (w *world) fault() {
	if w.numbers != nil && w.rng.IntN(4) == 0 { // a clock steps
		skew := w.rng.Int64N(int64(600*time.Millisecond)) - int64(300*time.Millisecond)
		w.procs[w.rng.IntN(len(w.procs))].view.skew.Store(skew)
		return
	}
	faults := []string{"ok", "fails", "loses", "rolls back", "slow", "hangs"}
	if len(w.procs) == 1 {
		faults = append(faults, "goes back", "goes back", "tag removed", "tag added again", "step changes")
	}
	f := faults[w.rng.IntN(len(faults))]
	w.faults = append(w.faults, f)
	w.db.set(func(t *table) {
		row := t.rows["orders"]
		switch f {
		case "goes back":
			row.MaxID = w.rng.Int64N(max(row.MaxID, 1)) - 1
		case "tag removed":
			w.db.gone = true
		case "tag added again":
			w.db.gone, row.MaxID = false, 1
		case "step changes":
			row.Step = 1 + w.rng.Int64N(100)
		default:
			w.db.trouble = f
		}
		t.rows["orders"] = row
	})
}

// check is the promise: no ID twice, none that was not committed for its process,
// every caller's IDs rise, all that were issued are counted, and all callers are served again.
func (w *world) check() (did simtest.Tally, err error) {
	seen, did := map[int64]bool{}, simtest.Tally{}
	for i, p := range w.procs {
		before := len(seen)
		for _, c := range p.callers {
			if err := c.check(p, seen); err != nil {
				return nil, fmt.Errorf("process %d after %v: %w", i, w.faults, err)
			}
		}
		issued, counted, refused := int64(len(seen)-before), p.counted("issued"), p.counted("repeated")
		if refused != 0 || counted != issued {
			return nil, fmt.Errorf("process %d after %v: %d segments were refused, %d IDs came, %d are counted", i,
				w.faults, refused, issued, counted)
		}
		did["lifts"] += int(p.counted("lifts"))
		did["wasted"] += int(p.counted("wasted"))
	}
	did["IDs"] = len(seen)
	return did, nil
}

func (c *caller) check(p *process, seen map[int64]bool) error {
	last := int64(0)
	for _, id := range c.ids {
		switch {
		case seen[id]:
			return fmt.Errorf("ID %d came twice", id)
		case id <= last:
			return fmt.Errorf("ID %d came after %d", id, last)
		case !p.view.committed(id):
			return fmt.Errorf("ID %d was not committed", id)
		}
		seen[id], last = true, id
	}
	for _, run := range c.runs {
		if run[0] > run[1] {
			return fmt.Errorf("a run from %d to %d", run[0], run[1])
		}
		for id := run[0]; id <= run[1]; id++ {
			if seen[id] || !p.view.committed(id) {
				return fmt.Errorf("ID %d of a run came twice, or was not committed", id)
			}
			seen[id] = true
		}
	}
	if c.bad == nil && c.final != nil {
		return fmt.Errorf("not served after all has healed: %w", c.final)
	}
	return c.bad
}

// simTable is a table with the row of one tag, and with the faults of a database.
type simTable struct {
	*table
	latency time.Duration
	trouble string
	gone    bool // the row
}

// simView is the table as one process sees it, and what was committed for that.
type simView struct {
	db   *simTable
	rng  *rand.Rand
	skew atomic.Int64 // of the process' clock, in nanoseconds

	mu   sync.Mutex
	mine []model.TagSegment
}

// now is the process' clock.
func (v *simView) now() time.Time { return time.Now().Add(time.Duration(v.skew.Load())) }

func (v *simView) committed(id int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.mine, func(s model.TagSegment) bool { return s.First <= id && id < s.End })
}

// pause is the way to the database or back from it.
func (v *simView) pause(ctx context.Context) error {
	v.db.mu.Lock()
	d := v.db.latency
	switch v.db.trouble {
	case "slow":
		d *= 10
	case "hangs":
		d = time.Hour
	}
	v.db.mu.Unlock()
	v.mu.Lock()
	d = time.Duration(v.rng.Int64N(int64(d) + 1))
	v.mu.Unlock()
	return sleep(ctx, d)
}

func (v *simView) TagsNamed(ctx context.Context, _ []string) (rows []model.Tag, err error) {
	if err := v.pause(ctx); err != nil {
		return nil, err
	}
	v.db.set(func(t *table) {
		if v.db.trouble == "fails" {
			err = errAway
		} else if !v.db.gone {
			rows = []model.Tag{t.rows["orders"]}
		}
	})
	if err != nil {
		return nil, err
	}
	return rows, v.pause(ctx)
}

func (v *simView) AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error) {
	if err := v.pause(ctx); err != nil {
		return model.TagSegment{}, err
	}
	s, err := v.transaction(req)
	if late := v.pause(ctx); late != nil { // committed, and the answer is lost
		return s, late
	}
	return s, err
}

func (v *simView) transaction(req model.TagRequest) (model.TagSegment, error) {
	db := v.db
	db.mu.Lock()
	defer db.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if db.gone {
		return model.TagSegment{}, model.ErrUnknownTag
	}
	row := db.rows["orders"]
	s, err := db.allocate(req, v.now())
	if db.trouble == "fails" || db.trouble == "rolls back" {
		db.rows["orders"] = row
	}
	switch {
	case err != nil || db.trouble == "fails":
		return model.TagSegment{}, errAway
	case db.trouble == "rolls back", db.trouble == "loses":
		return s, errLost
	}
	v.mine = append(v.mine, s)
	return s, nil
}
