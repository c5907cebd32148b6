//go:build unix

package faults

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

type settings = rig.Settings

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
}

// startProc starts a process and returns when it listens. It ends with the test.
func startProc(t *testing.T, name string, s server) *proc {
	t.Helper()
	p := &proc{t: t, name: name, server: s, dir: t.TempDir(), front: newTestProxy(t, "127.0.0.1:1")}
	t.Cleanup(func() { p.hangUp(nil) })
	p.start()
	return p
}

// start begins a life of the process.
func (p *proc) start() {
	p.t.Helper()
	p.Process = rig.Start(p.t, p.server.env.Command(p.dir, p.server.path, p.server.args...), filepath.Join(p.dir, "log"))
	addr := p.Listens()
	url := "http://" + addr
	p.baseURL.Store(&url)
	p.front.Switch(addr)
	if resp := p.Said("listening for Redis clients"); resp != "" {
		p.hangUp(redis.NewClient(&redis.Options{Addr: resp, ReadTimeout: 5 * time.Second, MaxRetries: 1}))
	}
}

// hangUp closes the Redis client of the last life and keeps that of the next, if any.
func (p *proc) hangUp(next *redis.Client) {
	if last := p.redis.Swap(next); last != nil {
		_ = last.Close()
	}
}

func (p *proc) url() string {
	if u := p.baseURL.Load(); u != nil {
		return *u
	}
	return ""
}

// refusals counts what the tripwire said in all lives.
func (p *proc) refusals() int { return strings.Count(p.Output(), "indices refused") }

// until calls check until it returns nil, for a minute at most: that is far above what a busy
// machine needs.
func until(t *testing.T, what string, check func() error) {
	t.Helper()
	rig.Until(t, time.Minute, what, check)
}
