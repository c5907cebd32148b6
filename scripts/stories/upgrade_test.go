//go:build unix

package stories_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// release030 is the commit of version 0.3.0.
const release030 = "dcf9323"

// kindsBeside are the IDs that both versions issue; of queue IDs each caller asks for many shards.
var kindsBeside = []struct{ name, target string }{
	{"queue", "/v1/queue/7/ids?count=3&gatePass="},
	{"scrambled", "/v1/queue/8/ids?count=3&gatePass="},
	{"segment", "/v1/segment/orders/ids?count=5"},
	{"numbers", "/v1/segment/bills/ids?count=2"},
	{"snowflake", "/v1/snowflake/ids?count=5"},
	{"uid", "/v1/uid/ids?count=5"},
}

// mixed is a deployment of replicas of two versions.
type mixed struct {
	*testing.T
	old   string // the binary of 0.3.0
	s     settings
	slots []*slot

	trouble atomic.Bool // the stores were restarted

	mu       sync.Mutex
	issued   map[string]string // who issued an ID, by kind and ID
	refused  int               // requests that were told to come again
	problems []string
}

// slot is the place of a replica: its folder and its settings stay when the version changes.
type slot struct {
	name, dir string
	settings  settings

	now    atomic.Pointer[daemon]
	dying  atomic.Bool    // now is killed
	asked  sync.WaitGroup // requests to now
	mu     sync.Mutex     // taken to replace now
	counts []atomic.Int64 // IDs of each kind
	steady []atomic.Bool  // it has issued that kind in this life
}

// TestUpgradeSideBySide: replicas of 0.3.0 go on while the new version migrates their database
// and serves beside them, take the place of each other in the same folder to and fro, also after
// both stores were restarted, and every replica issues every kind of ID all the time, none twice.
func TestUpgradeSideBySide(t *testing.T) {
	check.Deep(t)
	story(t)
	m := &mixed{T: t, old: rig.Release(t, release030), issued: map[string]string{}}
	redis, database := testserver.Redis(t), testserver.MariaDB(t)
	m.s = onMariaDB(database.NewDatabase(t)).With(onRedis(redis.Addr)).With(settings{"SERVER_DRAIN_DELAY": "0s"})
	for _, args := range []string{
		"migrate", "provision --app 7 --name orders", "provision --app 8 --name hidden --scramble",
		"tags add --tag orders --step 100",
		"tags add --tag bills --step 10 --pattern BILL-{yyyyMMdd}-{seq:6} --reset day",
	} {
		cmd := m.env(m.s, m.old).Command(t.TempDir(), m.old, strings.Fields(args)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	one, two := m.slot("one"), m.slot("two")
	m.start(one, m.old)
	m.start(two, m.old)
	callers := m.ask()
	m.progress("0.3.0 alone", 200)
	must(t, m.s, "migrate")
	m.progress("0.3.0 on the new schema", 300)
	three, four := m.slot("three"), m.slot("four")
	m.start(three, "")
	m.start(four, "")
	m.progress("both", 500)
	m.oldCommands()
	m.replace(one, m.old)
	m.progress("an old one started again", 300)

	m.trouble.Store(true)
	redis.Kill()
	database.Kill()
	database.Restart()
	redis.Restart()
	m.progress("both stores restarted", 500)
	m.replace(one, "")
	two.dying.Store(true)
	two.now.Load().Kill()
	m.replace(two, "")
	m.progress("new ones in their folders", 300)
	m.replace(two, m.old)
	m.progress("one went back", 300)
	m.replace(two, "")
	m.progress("all new", 300)
	callers.Stop()
	m.settle()
}

// env are settings for a binary; none is the present one. 0.3.0 has another key for the address of Redis.
func (m *mixed) env(s settings, binary string) settings {
	if binary == "" {
		return s
	}
	old := s.With(settings{"REDIS_MODE": "single", "REDIS_ADDRS": strings.TrimPrefix(s["REDIS_URL"], "redis://")})
	delete(old, "REDIS_URL")
	return old
}

func (m *mixed) slot(name string) *slot {
	address := settings{"SNOWFLAKE_ADVERTISE": fmt.Sprintf("10.1.0.%d:8080", len(m.slots)+1)}
	p := &slot{name: name, dir: m.TempDir(), settings: m.s.With(address),
		counts: make([]atomic.Int64, len(kindsBeside)), steady: make([]atomic.Bool, len(kindsBeside))}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slots = append(m.slots, p)
	return p
}

// start begins a life by a binary; none is the present one.
func (m *mixed) start(p *slot, binary string) {
	m.Helper()
	env, version := m.env(p.settings, binary).With(settings{"SERVER_ADDR": "127.0.0.1:0"}), "0.3.0"
	if binary == "" {
		binary, version = rig.Binary(m.T), "the new"
	}
	d := &daemon{t: m.T, client: &http.Client{Timeout: 20 * time.Second}}
	m.Cleanup(d.client.CloseIdleConnections)
	d.Process = rig.Start(m.T, env.Command(p.dir, binary, "serve"), filepath.Join(m.TempDir(), version))
	listening(d).ready()
	for i := range p.steady {
		p.steady[i].Store(false)
	}
	p.dying.Store(false)
	p.now.Store(d)
}

// replace ends a life and begins another one.
func (m *mixed) replace(p *slot, binary string) {
	m.Helper()
	m.stop(p)
	m.start(p, binary)
}

// stop ends a life once all that it was asked is answered.
func (m *mixed) stop(p *slot) {
	m.Helper()
	p.mu.Lock()
	d := p.now.Swap(nil)
	p.mu.Unlock()
	p.asked.Wait()
	if !d.Gone() {
		d.stops(syscall.SIGTERM, startLimit)
	}
	if m.trouble.Load() {
		return
	}
	for _, line := range d.Lines(`"level":"ERROR"`) {
		m.Errorf("%s said %s", p.who(d), line)
	}
}

// who names a life of a slot.
func (p *slot) who(d *daemon) string { return p.name + " by " + filepath.Base(d.Cmd.Path) }

// ask starts callers for each kind at each slot that there is and will be.
func (m *mixed) ask() *rig.Callers {
	callers := &rig.Callers{}
	const slots = 4
	callers.Start(m.T, slots*len(kindsBeside), func(ctx context.Context, caller int) {
		rnd, kind := rand.New(rand.NewPCG(1, uint64(caller))), caller/slots
		for ; ctx.Err() == nil; time.Sleep(3 * time.Millisecond) {
			m.mu.Lock()
			var p *slot
			if i := caller % slots; i < len(m.slots) {
				p = m.slots[i]
			}
			m.mu.Unlock()
			if p != nil {
				m.once(p, kind, rnd)
			}
		}
	})
	return callers
}

// once asks a slot for some IDs of a kind.
func (m *mixed) once(p *slot, kind int, rnd *rand.Rand) {
	p.mu.Lock()
	d := p.now.Load()
	if d == nil {
		p.mu.Unlock()
		return
	}
	p.asked.Add(1)
	p.mu.Unlock()
	defer p.asked.Done()
	target := kindsBeside[kind].target
	if strings.HasSuffix(target, "gatePass=") {
		target += fmt.Sprint("user", rnd.IntN(100))
	}
	a, err := d.do(http.MethodGet, target)
	var v struct{ IDs []string }
	if err == nil && a.status == http.StatusOK {
		err = json.Unmarshal([]byte(a.body), &v)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(v.IDs) == 0 {
		m.refusal(p, d, kind, a, err)
		return
	}
	p.counts[kind].Add(int64(len(v.IDs)))
	p.steady[kind].Store(true)
	for _, id := range v.IDs {
		key := kindsBeside[kind].name + " " + id
		if by, taken := m.issued[key]; taken {
			m.problems = append(m.problems, fmt.Sprintf("%s came from %s, and before from %s", key, p.who(d), by))
		}
		m.issued[key] = p.who(d)
	}
}

// refusal judges an answer without IDs: while nothing fails only a replica that has just
// started may tell callers of a kind to come again. Callers hold mu.
func (m *mixed) refusal(p *slot, d *daemon, kind int, a answer, err error) {
	if p.dying.Load() {
		return
	}
	m.refused++
	isStarting := !p.steady[kind].Load() || m.trouble.Load()
	if err != nil || a.status != http.StatusServiceUnavailable || !isStarting && !comeAgain(a) {
		m.problems = append(m.problems,
			fmt.Sprintf("%s refused %s: %d %s %v", p.who(d), kindsBeside[kind].name, a.status, a.body, err))
	}
}

// progress waits until each replica that runs has issued so many more IDs of each kind.
func (m *mixed) progress(phase string, ids int64) {
	m.Helper()
	begun, before := time.Now(), map[*slot][]int64{}
	for _, p := range m.slots {
		for i := range p.counts {
			before[p] = append(before[p], p.counts[i].Load())
		}
	}
	eventually(m.T, time.Minute, phase, func() bool {
		for p, from := range before {
			for i := range p.counts {
				if p.now.Load() != nil && p.counts[i].Load() < from[i]+ids {
					return false
				}
			}
		}
		return true
	})
	m.Logf("%s: %v", phase, time.Since(begun).Round(time.Millisecond))
}

// oldCommands: the commands of 0.3.0 go on beside the new version.
func (m *mixed) oldCommands() {
	m.Helper()
	for command, says := range map[string]string{
		"apps": "orders", "tags": "bills", "doctor": "database", "migrate": "",
	} {
		out, err := m.env(m.s, m.old).Command(m.TempDir(), m.old, command).CombinedOutput()
		if err != nil || !strings.Contains(string(out), says) {
			m.Errorf("%s of 0.3.0: %v: %s, want %q", command, err, out, says)
		}
	}
}

func (m *mixed) settle() {
	for _, p := range m.slots {
		m.stop(p)
	}
	for _, what := range m.problems[:min(len(m.problems), 10)] {
		m.Error(what)
	}
	m.Logf("%d IDs, %d problems, %d requests told to come again", len(m.issued), len(m.problems), m.refused)
	if out := must(m.T, m.s, "doctor"); strings.Contains(out, "unsafe") || strings.Contains(out, "warn") {
		m.Errorf("doctor: %s", out)
	}
}
