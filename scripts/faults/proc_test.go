//go:build unix

package faults

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

type (
	settings = rig.Settings
	Proxy    = testserver.Proxy
	Weather  = testserver.Weather
)

// server says how a process that issues IDs is started.
type server struct {
	path string
	args []string
	env  settings
}

// proc is one such process, over all its lives.
type proc struct {
	*rig.Process // the present life
	t            *testing.T
	name         string
	server       server
	dir          string
	baseURL      atomic.Pointer[string]       // of the present life
	redis        atomic.Pointer[redis.Client] // asks the present life; nil for one that serves no Redis clients
	front        *Proxy                       // of the present life's address, for Go clients
	broken       bool                         // by the fault of this round

	mu     sync.Mutex
	absent map[mode]*absence
}

// absence is for how long a process had no IDs of a mode.
type absence struct {
	since   time.Time
	longest time.Duration
}

// startProc starts a process and returns when it listens. It ends with the test.
func startProc(t *testing.T, name string, s server) *proc {
	t.Helper()
	p := &proc{t: t, name: name, server: s, dir: t.TempDir(), absent: map[mode]*absence{}}
	p.front = testserver.NewProxy(t, nobody)
	t.Cleanup(func() { p.hangUp(nil) })
	p.start()
	return p
}

// start begins a life of the process.
func (p *proc) start() {
	p.t.Helper()
	cmd := p.server.env.Command(p.dir, p.server.path, p.server.args...)
	p.Process = rig.Start(p.t, cmd, filepath.Join(p.dir, "log"))
	addr := p.Listens()
	url := "http://" + addr
	p.baseURL.Store(&url)
	p.front.Switch(addr)
	if resp := p.Said("listening for Redis clients"); resp != "" {
		p.hangUp(redis.NewClient(&redis.Options{Addr: resp, ReadTimeout: 5 * time.Second, MaxRetries: 1}))
	}
}

func (p *proc) url() string {
	if u := p.baseURL.Load(); u != nil {
		return *u
	}
	return ""
}

// served notes that IDs of a mode came.
func (p *proc) served(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.absent[m]; a != nil {
		a.longest, a.since = max(a.longest, time.Since(a.since)), time.Now()
	}
}

// absences are for how long the process had no IDs of each mode, at most, since the last call.
func (p *proc) absences(modes []mode) map[mode]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[mode]time.Duration{}
	for m, a := range p.absent {
		out[m] = max(a.longest, time.Since(a.since))
	}
	for _, m := range modes {
		p.absent[m] = &absence{since: time.Now()}
	}
	return out
}
