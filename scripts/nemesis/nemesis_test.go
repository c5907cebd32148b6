//go:build unix

package nemesis

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

var seedFlag = flag.Uint64("nemesis.seed", 0, "replays the faults of this seed; 0 draws one")

// plainSetting makes the test binary a server of the plain design, see plain_test.go.
const plainSetting = "NEMESIS_PLAIN"

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
		env["RESP_ADDR"] = "127.0.0.1:0"
		return server{path: path, args: []string{"serve", "--server.addr", "127.0.0.1:0"}, env: env}
	}
}

// seed is drawn or given, and said before anything else.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	fmt.Fprintf(os.Stderr, "%s: seed %d\n", t.Name(), s)
	t.Logf("replay the faults with -nemesis.seed %d", s)
	return s
}

// TestNemesis: whatever breaks, no ID is issued twice, and all works again.
func TestNemesis(t *testing.T) {
	if testing.Short() {
		t.Skip("takes one to two minutes and real servers")
	}
	p := plan{topology: onSingle, seed: seed(t), rounds: len(faultsOn(onSingle)), once: 1, procs: 3, server: shardid(t), modes: otherModes(), gophers: 2, proof: 1500,
		before: func(*world, round) bool { return true }}
	w, r := p.run(t)
	t.Log(r)
	r.check(t, w)
	if r.ids < 150_000 || r.popped < 10_000 || r.drawn < 10_000 {
		t.Errorf("%d IDs are too few to prove anything, %d over RESP, %d by Go clients", r.ids, r.popped, r.drawn)
	}
}

// TestNemesisFindsDuplicatesInThePlainDesign: a nemesis that finds nothing where
// there is something would be broken.
func TestNemesisFindsDuplicatesInThePlainDesign(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real servers")
	}
	p := plan{topology: onSingle, seed: seed(t), rounds: 24, procs: 2, server: plain, proof: 50,
		before: func(w *world, _ round) bool { return w.books.Duplicates() == 0 }}
	w, r := p.run(t)
	t.Log(r)
	for _, problem := range w.books.Problems()[:min(3, len(w.books.Problems()))] {
		t.Logf("for example: %s", problem)
	}
	if r.duplicates == 0 {
		t.Error("the nemesis did not find the duplicates of the plain design")
	}
}
