//go:build unix

package faults

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

var (
	seedFlag = flag.Uint64("faults.seed", 0, "replays the faults of this seed; 0 draws one")
	soakFlag = flag.Duration("soak", 0, "how long TestSoak runs; 0 skips it")
	restarts = flag.Int("restarts", 8, "how many rounds TestManyRestarts runs")
)

// plainSetting makes the test binary a server of the plain design, see plain_test.go.
const plainSetting = "FAULTS_PLAIN"

func TestMain(m *testing.M) {
	if os.Getenv("SHARDID_"+plainSetting) != "" {
		servePlain()
		return
	}
	if os.Getenv("SHARDID_"+clientSetting) != "" {
		serveClient()
		return
	}
	redis.SetLogger(silence{}) // faults break connections all the time
	rig.Main(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// deployment is shardid, and what all runs of it have in common.
func deployment(t *testing.T, topology string, seed uint64, rounds []round) plan {
	t.Helper()
	path := rig.Binary(t)
	serve := func(env settings) server {
		env["SERVER_ADDR"], env["RESP_ADDR"] = "127.0.0.1:0", "127.0.0.1:0"
		return server{path: path, args: []string{"serve"}, env: env}
	}
	return plan{topology: topology, seed: seed, rounds: rounds, procs: 3, gophers: 2, proof: 1500, server: serve}
}

// seed is drawn or given, and said before anything else.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	fmt.Fprintf(os.Stderr, "%s: seed %d\n", t.Name(), s)
	t.Logf("replay the faults with -faults.seed %d", s)
	return s
}

// TestFaults: whatever breaks, no ID is issued twice, no key goes back, and all works again. It breaks eight
// things, which the seed chooses, on a topology of Redis that it chooses, too; of the slow ones one.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and real servers")
	}
	s := seed(t)
	topology, slow := []string{onSingle, onSentinel, onCluster}[s%3], 0
	rounds := slices.DeleteFunc(schedule(s, topology, len(faultsOn(topology)), 0), func(r round) bool {
		if r.slow {
			slow++
		}
		return r.slow && slow > 1
	})
	deployment(t, topology, s, rounds[:8]).play(t).proves(t, 20_000, 200)
}

// TestEachFault: the same with each fault, on each topology, and it costs no more than its row says.
func TestEachFault(t *testing.T) {
	check.Deep(t)
	s := seed(t)
	for _, topology := range topologies() {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			p := deployment(t, topology, s, schedule(s, topology, len(faultsOn(topology)), 1))
			p.numbered = true
			p.play(t)
		})
	}
}

// TestFaultsOfRegions: two deployments of two regions, which share nothing, give none of the other's IDs,
// whatever happens to their stores.
func TestFaultsOfRegions(t *testing.T) {
	check.Deep(t)
	first := seed(t)
	var worlds []*world
	for id := range 2 {
		s := first + uint64(id)
		topology := []string{onSingle, onSentinel, onCluster}[s%3]
		p := deployment(t, topology, s, schedule(s, topology, 10, 0))
		p.region = region{id: id, bits: 1}
		w := p.play(t)
		w.proves(t, 20_000, 200)
		for _, space := range w.spaces { // a number of a key of one region is no number of that key elsewhere
			for _, number := range space.order.IDs() {
				if number%2 != int64(id) {
					t.Fatalf("region %d gave number %d of space %s", id, number, space.name)
				}
			}
		}
		worlds = append(worlds, w)
	}
	if n := worlds[0].books.Common(&worlds[1].books); n > 0 {
		t.Errorf("%d IDs were issued in both regions", n)
	}
}

// TestFaultsFindDuplicatesInThePlainDesign: a test that finds nothing where there is something would be broken.
func TestFaultsFindDuplicatesInThePlainDesign(t *testing.T) {
	check.Deep(t)
	s := seed(t)
	p := plan{topology: onSingle, seed: s, rounds: schedule(s, onSingle, 24, 0), procs: 2, server: plain, proof: 50,
		goesOn: func(w *world) bool { return w.books.Duplicates() == 0 || len(w.disorder()) == 0 }}
	w := p.play(t)
	for _, problems := range [][]string{w.books.Problems(), w.disorder()} {
		for _, problem := range problems[:min(3, len(problems))] {
			t.Logf("for example: %s", problem)
		}
	}
	if w.books.Duplicates() == 0 || w.calls().Back == 0 {
		t.Errorf("%d duplicates of the plain design were found, and %d numbers that went back, want some of each",
			w.books.Duplicates(), w.calls().Back)
	}
}

// TestManyRestarts: stores and processes restart again and again in one life of the deployment, alone and
// together, by an orderly stop or a power cut. Each time a narrow list loses no more than it may hold, so that it
// outlives all of them, and an operator is asked only where both stores restarted together.
func TestManyRestarts(t *testing.T) {
	check.Deep(t)
	s := seed(t)
	rounds := slices.DeleteFunc(schedule(s, onSingle, 20**restarts, 1), func(r round) bool {
		return r.slow || !strings.Contains(r.name, "restart")
	})
	deployment(t, onSingle, s, rounds[:*restarts]).play(t)
}

// spell is how long TestSoak uses one topology before the next one's turn.
const spell = 5 * time.Minute

// TestSoak breaks things for as long as -soak says, in turn on all topologies. A half of the rounds is judged;
// the others come in bad weather, and while the last fault may still have an effect. Ctrl-C ends it after the
// present round.
func TestSoak(t *testing.T) {
	if *soakFlag == 0 {
		t.Skip("give a time: -soak 1h")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	first, all, end := seed(t), topologies(), time.Now().Add(*soakFlag)
	length := min(spell, *soakFlag/time.Duration(len(all))) // short soaks see all topologies, too
	ids, rounds := 0, 0
	for i := 0; ctx.Err() == nil && time.Now().Before(end) && !t.Failed(); i++ {
		topology := all[i%len(all)]
		t.Run(fmt.Sprintf("%s %d", topology, i/len(all)+1), func(t *testing.T) {
			s, till := first+uint64(i), time.Now().Add(length)
			p := deployment(t, topology, s, schedule(s, topology, math.MaxInt16, 0.5))
			p.numbered, p.goesOn = true, func(*world) bool {
				goesOn := ctx.Err() == nil && time.Now().Before(till)
				if goesOn {
					rounds++
				}
				return goesOn
			}
			ids += p.play(t).books.Count()
		})
		t.Logf("%d faults and %d IDs so far", rounds, ids)
	}
}

// proves fails a run that has issued too little to show anything, and says what it came to.
func (w *world) proves(t *testing.T, ids, numbers int) {
	t.Helper()
	calls := w.calls()
	issued, numbered := w.books.Count(), w.numbersSoFar()
	t.Logf("%d IDs, %d numbers of sequences, which %d of %d calls got none of",
		issued, numbered, calls.Lost, calls.Calls)
	if issued < ids || numbered < numbers {
		t.Errorf("these are too few to prove anything: want %d and %d", ids, numbers)
	}
}

// calls tells how the sequences were asked.
func (w *world) calls() (all rig.Tally) {
	for _, s := range w.spaces {
		all = all.Add(s.order.Tally())
	}
	return all
}
