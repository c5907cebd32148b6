package uid

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
)

const (
	simSteps = 300 // in each world

	// jump is the unit of clocks that are set: with few times to be at, the same
	// seconds come again and again.
	jump = 30 * time.Minute
)

// world is two instances on one database, each with its own clock. Steps are chosen
// by the seed and run one after the other, so that a seed is a story.
type world struct {
	rand      *rand.Rand
	db        *table
	instances []*instance
	issued    map[int64]string // who got it
	recycled  int
	failsOver bool // the database does, instead of losing single rows
}

// instance is a process: the real service without its goroutines.
type instance struct {
	world  *world
	name   string
	opts   Options
	clock  *clock
	svc    *Service
	start  model.NodeStart
	keeper *keeper // nil while no node is held
}

func newWorld(seed uint64, m mutant) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 1)), db: newTable(), issued: map[int64]string{}}
	w.db.mutant, w.db.Ignores, w.failsOver = m, m == noDoubt, seed%2 == 0
	w.db.now = time.Now()
	w.db.ServerTimes = model.ServerTimes{Since: w.db.now, Beat: w.db.now}
	w.db.remember()
	for _, name := range []string{"a", "b"} {
		i := &instance{world: w, name: name, clock: newClock()}
		i.opts = options(w.db)
		i.opts.Layout = model.UIDLayout{TimeBits: 58, WorkerBits: 2, SeqBits: 3, Epoch: epoch()}
		if w.failsOver { // a jump needs room
			i.opts.Layout.TimeBits, i.opts.Layout.WorkerBits = 38, 22
		}
		i.opts.Now = i.clock.now
		i.opts.Mode = []string{ModeDefault, ModeCached}[w.rand.IntN(2)]
		w.instances = append(w.instances, i)
		i.boot()
	}
	return w
}

// boot forgets everything, as a crash does. Nothing is said to the database.
func (i *instance) boot() {
	if i.svc != nil {
		_ = i.svc.Stop(context.Background()) // it has nothing under way
	}
	svc, err := New(i.opts)
	if err != nil {
		panic(err)
	}
	i.svc, i.keeper = svc, nil
	i.start = svc.newStart()
}

func (w *world) run() error {
	defer func() {
		for _, i := range w.instances {
			_ = i.svc.Stop(context.Background()) // it has nothing under way
		}
	}()
	for range simSteps {
		w.db.now = w.db.now.Add(time.Second)
		if w.db.Beat.Add(model.BeatEvery).Before(w.db.now) && !w.db.Changed(&w.db.known) {
			w.db.Beat = w.db.now
		}
		w.db.remember()
		i := w.instances[w.rand.IntN(len(w.instances))]
		if err := i.step(); err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) step() error {
	r := i.world.rand
	switch n := r.IntN(200); {
	case n < 80:
		return i.take(1 + r.IntN(8))
	case n < 104:
		i.fill()
	case n < 128:
		i.keep()
	case n < 150:
		i.register()
	case n < 162:
		i.clock.add(time.Duration(r.IntN(13)) * jump)
	case n < 168:
		i.clock.add(-time.Duration(r.IntN(9)) * jump)
	case n < 174:
		i.clock.add(time.Second)
	case n < 184:
		i.boot()
	case n < 187:
		i.leap(r.Int64N(3 * markHour))
	case n < 196:
		i.world.db.away = nil
		i.world.db.lose = false
	case n < 197:
		i.world.db.away = errAway
	case n < 198:
		i.world.db.lose = true
	case n < 199:
		i.world.db.crash = true
	case i.world.failsOver:
		i.world.db.failOver(r.IntN(len(i.world.db.past)))
	case r.IntN(8) == 0:
		delete(i.world.db.rows, 1+r.Int64N(3))
	}
	return nil
}

func (i *instance) register() {
	if i.keeper != nil {
		return
	}
	node, err := i.svc.tryRegister(i.start)
	if errors.Is(err, model.ErrNoWorkerID) {
		i.start = i.svc.newStart()
	}
	if err != nil {
		return
	}
	if node.Recycled {
		i.world.recycled++
	}
	g := newGrant(i.opts.Layout, i.start, node, i.svc.opts.clock)
	i.svc.grant.Store(g)
	i.svc.stats.nodes.Add(1)
	i.keeper = newKeeper(i.svc, g)
}

func (i *instance) keep() {
	if i.keeper == nil {
		return
	}
	if err := i.svc.guard("keep", i.keeper.step); errors.Is(err, model.ErrLeaseLost) { // as hold ends and run begins again
		i.svc.grant.Store(nil)
		i.svc.drop()
		i.keeper, i.start = nil, i.svc.newStart()
	}
}

func (i *instance) fill() {
	if i.keeper != nil && i.opts.Mode == ModeCached {
		_ = i.svc.fill(context.Background(), i.keeper.g) // what it could not fill is not there to be taken
	}
}

// leap is a busy hour of cached mode in one step: the counter of seconds goes on as
// if their IDs had been put and taken.
func (i *instance) leap(seconds int64) {
	if i.keeper == nil || i.opts.Mode != ModeCached {
		return
	}
	for last := i.keeper.g.last.Load(); seconds > 0 && last > 0; seconds-- {
		next, err := i.svc.nextSecond(i.keeper.g)
		if err != nil {
			return
		}
		i.keeper.g.last.Store(next)
	}
}

func (i *instance) take(n int) error {
	var ids []int64
	if i.opts.Mode == ModeDefault {
		ids, _, _ = i.svc.takeByClock(n, nil) // with an error, what came before it
	} else {
		ids, _ = i.svc.Next(context.Background(), n, nil)
	}
	for _, id := range ids {
		if id <= 0 {
			return fmt.Errorf("%s issued %d", i.name, id)
		}
		if by, again := i.world.issued[id]; again {
			return fmt.Errorf("%s issued %d, which %s had issued", i.name, id, by)
		}
		i.world.issued[id] = i.name
	}
	return nil
}

// No UID twice over crashes, restarts, clocks that are set back, worker IDs that are
// used again, rows that vanish, lost answers and two instances in either mode. Each promise
// that the database breaks must let an ID repeat in some world.
func simulation() simtest.Simulation[mutant] {
	return simtest.Simulation[mutant]{
		Worlds: 1000, Racing: 100, Seeds: 20_000, Least: map[string]float64{"IDs": 50, "worker IDs used again": 0.25},
		Mutants: map[mutant]uint64{
			noMark:          43,
			recycleUnmarked: 1179,
			recycleTooEarly: 25,
			noDoubt:         20,
		},
		World: func(_ *testing.T, seed uint64, m mutant) (simtest.Tally, error) {
			w := newWorld(seed, m)
			err := w.run()
			return simtest.Tally{"IDs": len(w.issued), "worker IDs used again": w.recycled}, err
		},
	}
}

func TestSimulation(t *testing.T) { simulation().Run(t) }
func TestSimulationCatchesMutants(t *testing.T) {
	check.Deep(t)
	simulation().Catches(t)
}
