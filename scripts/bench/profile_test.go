//go:build unix

package bench

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// measureProfile draws where the time of /get goes, on Redis and MariaDB in a closed
// loop, into docs/images/profile.svg.
func measureProfile(t *testing.T, s *suite) {
	d := s.deploy(t, map[uint8]int64{singleApp: largeStep})
	own := s.serveShardid(t, d.settings(), singleApp)
	const length = 8 * time.Second // the client gives up after ten
	var got loaded
	var stacks []stack
	for range s.plan.rounds {
		raw := own.cpuProfile(s.plan.warmup, length, func() {
			got = s.load(t, own.url, request{mode: "queue", app: singleApp}, s.plan.warmup, length)
		})
		stacks = append(stacks, readProfile(t, raw)...)
	}
	note := fmt.Sprintf("%s, %s, commit %s; %s k requests/s, Redis and MariaDB, one core", s.report.Machine, s.report.When, s.report.Commit, number(got.RequestsPerSecond/1000))
	if err := writeImage(filepath.Join(s.root, "docs", "images", "profile.svg"), drawProfile(stacks, note)); err != nil {
		t.Fatal(err)
	}
	for _, share := range shares(stacks) {
		s.report.goal(noGoal).tell("of the CPU time of /get: "+share.name, 100*share.value, "%", "")
	}
}

// readProfile has go tool pprof translate a profile.
func readProfile(t *testing.T, raw []byte) []stack {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cpu.pprof")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(exec.Command("go", "tool", "pprof", "-traces", "-sample_index=samples", path), 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	stacks, err := parseTraces(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return stacks
}

// stack is a sequence of calls that a profile has met.
type stack struct {
	samples int
	calls   []string // who runs comes first
}

// parseTraces reads what pprof -traces prints: after each ruler the number of samples
// and who ran, then its callers.
func parseTraces(text string) (stacks []stack, err error) {
	var at *stack
	begun := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), " (inline)"))
		switch {
		case strings.HasPrefix(line, "-----------+"):
			begun, at = true, nil
		case !begun || len(fields) == 0 || strings.HasSuffix(fields[0], ":"): // a head, a label
		case at == nil:
			stacks = append(stacks, stack{})
			at = &stacks[len(stacks)-1]
			if at.samples, err = strconv.Atoi(fields[0]); err != nil {
				return nil, fmt.Errorf("read %q: %w", strings.TrimSpace(line), err)
			}
			at.calls = []string{strings.Join(fields[1:], " ")}
		default:
			at.calls = append(at.calls, strings.Join(fields, " "))
		}
	}
	if len(stacks) == 0 {
		return nil, errors.New("a profile without samples")
	}
	return stacks, nil
}

// owner is on whose account time goes, and the class of its colour.
type owner struct {
	name, class string
	// prefixes of functions; of those that are not here, such as the runtime's,
	// strings' or maps', the time goes to whoever called them.
	prefixes []string
}

// owners in the order in which they claim a function.
func owners() []owner {
	return []owner{
		{"system calls", "calls", []string{"internal/runtime/syscall", "syscall.", "runtime.futex", "runtime.epoll", "runtime.usleep", "runtime.write1", "runtime.read"}},
		{"garbage collection", "gc", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcDrain"}},
		{"shardid", "ours", []string{"shardid/"}},
		{"Gin", "gin", []string{"github.com/gin-gonic/"}},
		{"Redis and database", "stores", []string{"github.com/redis/", "github.com/go-sql-driver/", "database/sql", "gorm.io/"}},
		{"net/http", "http", []string{"net/http", "net/textproto", "net.", "internal/poll."}},
	}
}

// scheduling is what the runtime does on nobody's account.
func scheduling() owner { return owner{name: "scheduling", class: "runtime"} }

// ownerOf is the first that claims a function, none for most of the runtime.
func ownerOf(call string) (owner, bool) {
	for _, o := range owners() {
		if slices.ContainsFunc(o.prefixes, func(p string) bool { return strings.HasPrefix(call, p) }) {
			return o, true
		}
	}
	return scheduling(), false
}

// owner of a stack is the one nearest to who ran; connections are on the account of
// the client of a store that uses them.
func (s stack) owner() owner {
	nearest := scheduling()
	for _, call := range s.calls {
		o, found := ownerOf(call)
		if found && (nearest.class == scheduling().class || nearest.class == "http" && o.class == "stores") {
			nearest = o
		}
	}
	return nearest
}

// share is a part of the whole.
type share struct {
	owner
	value float64
}

// shares of the samples, the largest first; the sum is 1.
func shares(stacks []stack) (list []share) {
	all := 0
	for _, s := range stacks {
		all += s.samples
	}
	for _, o := range append(owners(), scheduling()) {
		n := 0
		for _, s := range stacks {
			if s.owner().name == o.name {
				n += s.samples
			}
		}
		if n > 0 {
			list = append(list, share{o, float64(n) / float64(all)})
		}
	}
	slices.SortStableFunc(list, func(a, b share) int { return cmp.Compare(b.value, a.value) })
	return list
}

const traces = `File: shardid
Type: samples
Duration: 4s, Total samples = 15
-----------+-------------------------------------------------------
         4   internal/runtime/syscall/linux.Syscall6
             syscall.write
             internal/poll.(*FD).Write (inline)
             net/http.(*conn).serve
-----------+-------------------------------------------------------
      bytes:  16
         3   slices.SortFunc[go.shape.struct { net/http.key string; net/http.values []string }] (inline)
             shardid/service/httpapi.(*API).get
             net/http.(*conn).serve
-----------+-------------------------------------------------------
         2   runtime.findRunnable
             runtime.mcall
-----------+-------------------------------------------------------
         1   net/http.(*conn).serve
-----------+-------------------------------------------------------
         5   net.(*netFD).Read
             github.com/redis/go-redis/v9.(*Client).Process
             shardid/repository/redisstore.(*Store).Pop
`

func TestProfileIsAccountedFor(t *testing.T) {
	stacks, err := parseTraces(traces)
	if err != nil || len(stacks) != 5 {
		t.Fatalf("%v, %v", stacks, err)
	}
	if c := stacks[1]; c.samples != 3 || len(c.calls) != 3 || c.calls[0] != "slices.SortFunc[go.shape.struct { net/http.key string; net/http.values []string }]" {
		t.Errorf("%+v", c)
	}
	var got []string
	for _, s := range shares(stacks) {
		got = append(got, fmt.Sprintf("%s %.2f", s.name, s.value))
	}
	if text := strings.Join(got, ", "); text != "Redis and database 0.33, system calls 0.27, shardid 0.20, scheduling 0.13, net/http 0.07" {
		t.Error(text)
	}
	for _, bad := range []string{"", "File: x\n", "-----------+---\n  many  main.main\n"} {
		if got, err := parseTraces(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}
