//go:build unix

package nemesis

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("nemesis.seed", 0, "replays the faults of this seed; 0 draws one")

// plainVariable in the environment makes the test binary a server of the plain
// design, see plain_test.go.
const plainVariable = "NEMESIS_PLAIN_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(plainVariable) != "" {
		servePlain()
		return
	}
	if os.Getenv(clientVariable) != "" {
		serveClient()
		return
	}
	redis.SetLogger(silence{}) // faults break connections all the time
	testserver.Main(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(binaryDir()); err != nil {
			fmt.Fprintln(os.Stderr, "nemesis: remove the binary:", err)
		}
		os.Exit(code)
	}))
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func binaryDir() string {
	return filepath.Join(os.TempDir(), "shardid-nemesis-"+strconv.Itoa(os.Getpid()))
}

var buildOnce = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir(), "shardid")
	out, err := exec.Command("go", "build", "-o", path, "shardid/cmd/shardid").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build shardid: %w\n%s", err, out)
	}
	return path, nil
})

// binary is the path of shardid, built once.
func binary(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shardid is the server under test.
func shardid(t *testing.T) func(settings) server {
	path := binary(t)
	return func(env settings) server {
		env["SHARDID_RESP_ADDR"] = "127.0.0.1:0"
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
	p := plan{topology: onSingle, seed: seed(t), rounds: len(faultsOn(onSingle)), procs: 3, server: shardid(t), modes: otherModes(), gophers: 2, proof: 1500,
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
		before: func(w *world, _ round) bool { return w.duplicates() == 0 }}
	w, r := p.run(t)
	t.Log(r)
	for _, problem := range w.books.problems[:min(3, len(w.books.problems))] {
		t.Logf("for example: %s", problem)
	}
	if r.duplicates == 0 {
		t.Error("the nemesis did not find the duplicates of the plain design")
	}
}
