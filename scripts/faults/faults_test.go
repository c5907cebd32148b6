//go:build unix

// Package faults tries to make shardid issue an ID twice. Its tests run real `shardid serve` processes over
// real stores, ask them for IDs, and meanwhile break everything around them. One table says what breaks, on
// which topologies, and what that may cost: how many numbers a list may leave out, for how long a process that
// nobody broke may be without new IDs, and whether an operator has to confirm narrow apps.
//
// A part of the IDs is drawn over RESP, and a part by processes with the Go client, which are killed, stopped
// and cut off, too. Beside them clients number keys of sequences, whose answers must rise in real time.
//
//	go test -v ./scripts/faults                                # eight faults by a seed, as in make test, a minute
//	go test -v -run TestFaults ./scripts/faults -faults.seed 7
//	DEEP=1 go test -v -run TestEachFault ./scripts/faults      # each fault once on each topology, judged by its row
//	DEEP=1 go test -v -run 'TestEachFault/single/old_RDB$' ./scripts/faults # one row
//	DEEP=1 DB=mysql-9.7 go test -v -run TestEachFault/group ./scripts/faults # the database is a group of three
//	go test -count=1 -timeout 0 -v -run TestSoak ./scripts/faults -soak 1h
//
// The seed decides which faults come in which order and with which choices; it is printed first. What the
// scheduler of the machine does between two faults is not repeated.
//
// Read table_test.go first (the rows), then round_test.go (a round: fault, heal, verify, judge), then what the rows do:
// redis_faults_test.go and database_faults_test.go.
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
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

var (
	seedFlag = flag.Uint64("faults.seed", 0, "replays the faults of this seed; 0 draws one")
	soakFlag = flag.Duration("soak", 0, "how long TestSoak runs; 0 skips it")
)

func TestMain(m *testing.M) {
	if os.Getenv("SHARDID_"+clientSetting) != "" {
		serveClient()
		return
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it would tell of connections that a kill broke
	rig.Main(m)
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
	plan{topology: topology, seed: s, rounds: rounds[:8]}.play(t).proves(t, 20_000, 200)
}

// TestEachFault: the same with each fault, on each topology, and it costs no more than its row says.
func TestEachFault(t *testing.T) {
	check.Deep(t)
	s := seed(t)
	for _, topology := range topologies() {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			rounds := schedule(s, topology, len(faultsOn(topology)), 1)
			plan{topology: topology, seed: s, rounds: rounds, numbered: true}.play(t)
		})
	}
}

// TestFaultsFindDuplicatesInThePlainDesign: a test that finds nothing where there is something would be broken. When
// Redis goes back, the original article's service gives IDs twice, and one that counts by INCR numbers of keys.
func TestFaultsFindDuplicatesInThePlainDesign(t *testing.T) {
	check.Deep(t)
	w := newStores(t, plan{topology: onSingle, seed: seed(t)})
	c := redis.NewClient(&redis.Options{Addr: w.redisProxies()[0].Addr, ReadTimeout: time.Second})
	t.Cleanup(func() { _ = c.Close() })
	plain := rig.Plain{DB: w.sql, Redis: c}
	w.callers.Start(t, callers, func(ctx context.Context, _ int) {
		for ; ctx.Err() == nil; time.Sleep(breath) {
			if index, err := plain.Take(ctx, aliceList, false); err == nil { // Redis may be unreachable
				w.books.Queue("the plain design", aliceList.App, alice, aliceList.ID(index))
			}
		}
	})
	var numbered rig.Order
	w.numbers.Start(t, numberers, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(2, uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(breath) {
			_ = numbered.DrawAny(ctx, "INCR", rig.Incr{Redis: c, Prefix: "chat:"}, rnd, keysOf) // likewise
		}
	})
	isFound := func() bool { return w.books.Duplicates() > 0 && numbered.Duplicates() > 0 }
	back := []string{"old RDB", "old AOF", "lagging replica promoted", "A-B-A"} // by which Redis goes back
	for _, r := range schedule(w.seed, onSingle, 2*len(faultsOn(onSingle)), 0) {
		if slices.Contains(back, r.name) && !isFound() {
			w.rnd = rand.New(rand.NewPCG(r.seed, 2))
			r.run(w)
			w.heal()
			w.issue(lag)
		}
	}
	w.callers.Stop()
	w.numbers.Stop()
	if !isFound() {
		t.Fatalf("%d duplicate IDs and %d duplicate numbers of the plain design were found, want some of both",
			w.books.Duplicates(), numbered.Duplicates())
	}
	t.Logf("for example: %q, %q", w.books.Problems()[:1], numbered.Problems()[:1])
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
			p := plan{topology: topology, seed: s, rounds: schedule(s, topology, math.MaxInt16, 0.5), numbered: true}
			p.goesOn = func() bool {
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
	issued, numbered := w.books.Count(), w.numbersSoFar()
	t.Logf("%d IDs, %d numbers of sequences", issued, numbered)
	if issued < ids || numbered < numbers {
		t.Errorf("these are too few to prove anything: want %d and %d", ids, numbers)
	}
}
