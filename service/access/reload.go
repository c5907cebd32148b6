package access

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

// Period is the pause between two looks at a file.
const Period = 2 * time.Second

// Reloader loads something again when one of the files it is made of changes. Start
// and Stop may be called from any goroutine.
type Reloader struct {
	files  []string
	load   func() error
	report func(error)

	seen []stamp // of the files when they were last loaded
	err  error   // of that; what was loaded before stays in use

	mu      sync.Mutex
	ctx     context.Context // ends at Stop
	cancel  context.CancelFunc
	started bool
	wg      sync.WaitGroup
}

// NewReloader makes a Reloader and loads nothing yet. load must keep what it has
// when it fails. report, which may be nil, is told the outcome of the latest load
// every Period: whoever writes it down decides how often.
func NewReloader(load func() error, report func(error), files ...string) *Reloader {
	ctx, cancel := context.WithCancel(context.Background())
	if report == nil {
		report = func(error) {}
	}
	return &Reloader{files: files, load: load, report: report, ctx: ctx, cancel: cancel}
}

// Load loads now. It is for the goroutine that calls Start, before that.
func (r *Reloader) Load() error {
	r.seen = stamps(r.files) // before, so that a change meanwhile is seen later
	r.err = r.load()
	return r.err
}

// Start looks at the files every Period until Stop. Without files, a second time and
// after Stop it does nothing.
func (r *Reloader) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started || len(r.files) == 0 || r.ctx.Err() != nil {
		return
	}
	r.started = true
	r.wg.Go(r.run)
}

// Stop ends that and waits. It may be called twice, and without Start.
func (r *Reloader) Stop() {
	r.mu.Lock() // so that no Start adds to wg while Wait runs
	r.cancel()
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *Reloader) run() {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		r.look()
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
	}
}

// look loads what has changed, and what could not be loaded: its files may be well
// again in a way that no stamp shows, such as their permissions.
func (r *Reloader) look() {
	if now := stamps(r.files); r.err != nil || !slices.EqualFunc(now, r.seen, stamp.same) {
		_ = r.Load() // is in err
	}
	r.report(r.err)
}

// stamp is what tells that a file has changed; nil for one that cannot be looked at.
type stamp struct{ fs.FileInfo }

func stamps(files []string) []stamp {
	all := make([]stamp, len(files))
	for i, name := range files {
		if info, err := os.Stat(name); err == nil {
			all[i] = stamp{info}
		}
	}
	return all
}

func (s stamp) same(other stamp) bool {
	if s.FileInfo == nil || other.FileInfo == nil {
		return s.FileInfo == other.FileInfo
	}
	return s.Size() == other.Size() && s.ModTime().Equal(other.ModTime()) && os.SameFile(s.FileInfo, other.FileInfo)
}
