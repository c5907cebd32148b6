//go:build unix

package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

var seedFlag = flag.Uint64("faults.seed", 0, "replays the faults of this seed; 0 draws one")

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

// shardid is the server under test.
func shardid(t *testing.T) func(settings) server {
	path := rig.Binary(t)
	return func(env settings) server {
		env["SERVER_ADDR"], env["RESP_ADDR"] = "127.0.0.1:0", "127.0.0.1:0"
		return server{path: path, args: []string{"serve"}, env: env}
	}
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

// TestFaults: whatever breaks, no ID is issued twice, and all works again. It breaks eight things, which the
// seed chooses, on a topology of Redis that it chooses, too.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and real servers")
	}
	s := seed(t)
	faultsOnce(t, []string{onSingle, onSentinel, onCluster}[s%3], s, 8)
}

// TestEachFault: the same with each fault, on each topology.
func TestEachFault(t *testing.T) {
	check.Deep(t)
	for _, topology := range []string{onSingle, onSentinel, onCluster} {
		t.Run(topology, func(t *testing.T) { faultsOnce(t, topology, seed(t), len(faultsOn(topology))) })
	}
}

// TestFaultsOfAGroup: the same on MySQL's group replication.
func TestFaultsOfAGroup(t *testing.T) {
	check.Deep(t)
	if !testserver.OnMySQL() {
		t.Skip("needs MySQL")
	}
	faultsOnce(t, onGroup, seed(t), len(faultsOn(onGroup)))
}

// faultsOnce runs so many faults of a topology, each once, of the long ones one.
func faultsOnce(t *testing.T, topology string, seed uint64, rounds int) {
	t.Helper()
	p := plan{topology: topology, seed: seed, rounds: rounds, once: 1, procs: 3, server: shardid(t),
		modes: otherModes(), gophers: 2, proof: 1500, before: func(*world, round) bool { return true }}
	w, r := p.run(t)
	t.Log(r)
	r.check(t, w)
	least := int64(10_000 * rounds / len(faultsOn(topology)))
	if int64(r.ids) < 15*least || r.popped < least || r.drawn < least {
		t.Errorf("%d IDs, %d of them over RESP and %d by Go clients, are too few to prove anything: want %d, %d and %d",
			r.ids, r.popped, r.drawn, 15*least, least, least)
	}
}

// TestFaultsOfRegions: two deployments of two regions, which share nothing, give none of the other's IDs,
// whatever happens to their stores.
func TestFaultsOfRegions(t *testing.T) {
	check.Deep(t)
	first := seed(t)
	var books []*rig.Ledger
	for id := range 2 {
		s := first + uint64(id)
		p := plan{topology: topologies()[s%uint64(len(topologies()))], seed: s, rounds: 10, once: 1, procs: 3, server: shardid(t), modes: otherModes(), gophers: 2, proof: 1500,
			region: region{id: id, bits: 1}, before: func(*world, round) bool { return true }}
		w, r := p.run(t)
		t.Logf("region %d of 2, %s: %v", id, p.topology, r)
		r.check(t, w)
		if r.ids < 50_000 || r.numbers < 200 {
			t.Errorf("%d IDs and %d numbers of sequences are too few to prove anything", r.ids, r.numbers)
		}
		for _, space := range w.spaces { // a number of a key of one region is no number of that key elsewhere
			for _, number := range space.order.IDs() {
				if number%2 != int64(id) {
					t.Fatalf("region %d gave number %d of space %s", id, number, space.name)
				}
			}
		}
		books = append(books, w.books)
	}
	if n := books[0].Common(books[1]); n > 0 {
		t.Errorf("%d IDs were issued in both regions", n)
	}
}

// TestFaultsOfSequences: after some of the faults, on any topology, every process numbers keys
// again before the next one comes: that takes as long as a lease.
func TestFaultsOfSequences(t *testing.T) {
	check.Deep(t)
	if testing.Short() {
		t.Skip("takes a minute or two and real servers")
	}
	s := seed(t)
	p := plan{topology: []string{onSingle, onSentinel, onCluster}[s%3], seed: s, rounds: 3, once: 1, procs: 3, server: shardid(t), modes: otherModes(), gophers: 1,
		patient: true, proof: 1500, before: func(*world, round) bool { return true }}
	w, r := p.run(t)
	t.Log(r)
	r.check(t, w)
	if r.numbers < 5000 {
		t.Errorf("%d numbers of sequences are too few to prove anything", r.numbers)
	}
}

// TestFaultsFindDuplicatesInThePlainDesign: a nemesis that finds nothing where
// there is something would be broken.
func TestFaultsFindDuplicatesInThePlainDesign(t *testing.T) {
	check.Deep(t)
	if testing.Short() {
		t.Skip("needs real servers")
	}
	p := plan{topology: onSingle, seed: seed(t), rounds: 24, procs: 2, server: plain, proof: 50,
		before: func(w *world, _ round) bool { return w.books.Duplicates() == 0 || len(w.disorder()) == 0 }}
	w, r := p.run(t)
	t.Log(r)
	for _, problems := range [][]string{w.books.Problems(), w.disorder()} {
		for _, problem := range problems[:min(3, len(problems))] {
			t.Logf("for example: %s", problem)
		}
	}
	if r.duplicates == 0 || r.calls.Back == 0 {
		t.Errorf("the nemesis found %d duplicates of the plain design, and %d of its numbers that went back", r.duplicates, r.calls.Back)
	}
}
