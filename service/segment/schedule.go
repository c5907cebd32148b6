package segment

import (
	"context"
	"fmt"
	"time"
)

const (
	// startRetry is the longest pause between two tries to read the tags first,
	// so that serving begins soon after the database's arrival.
	startRetry = 500 * time.Millisecond
	// observeEvery is how often the rate of each tag is looked at.
	observeEvery = time.Second
	// reloadRetry is the pause before tags that could not be read are read again.
	reloadRetry = 2 * time.Second
)

// Start begins to read the tags in the background and returns at once: the
// service becomes ready when the database has answered. A second call does
// nothing.
func (s *Service) Start() {
	s.mu.Lock()
	first := !s.started
	s.started = true
	s.mu.Unlock()
	if first {
		s.spawn(s.run)
	}
}

func (s *Service) run() {
	if !s.initialise() {
		return
	}
	s.opts.Log.Info("segment mode is ready", "tags", len(s.catalogue.Load().live))
	s.spawn(func() { s.every(s.opts.Reload, func() { _ = s.reloadAndReport() }) }) // it has been reported
	s.spawn(func() {
		s.every(reloadRetry, func() {
			if s.reloadFails.Load() {
				_ = s.reloadAndReport()
			}
		})
	})
	s.every(observeEvery, s.observe)
}

// initialise tries until it succeeds; false means the service stops.
func (s *Service) initialise() bool {
	for pause := minBackoff; ; pause = min(2*pause, startRetry) {
		err := s.reload()
		if err == nil {
			return true
		}
		s.waitsFor.Store(&err)
		if !s.sleep(pause) {
			return false
		}
	}
}

// every calls f again and again until the service stops; a call that takes longer
// than d delays the next.
func (s *Service) every(d time.Duration, f func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Service) observe() {
	now := time.Now()
	for _, t := range s.catalogue.Load().live {
		t.observe(now)
	}
}

// Stop ends all background work and fails whoever still waits; no ID is issued
// after it. It may be called twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	if first {
		s.closeTags()
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop segment service: %w", ctx.Err())
	}
}

// closeTags closes all tags. One that a reload in flight is about to add holds
// nothing, and can load nothing.
func (s *Service) closeTags() {
	c := s.catalogue.Load()
	if c == nil {
		return
	}
	before := s.stats.wasted.Load()
	for _, t := range c.known {
		t.close(errStopping)
	}
	if n := s.stats.wasted.Load() - before; n > 0 {
		s.opts.Log.Info("IDs held ahead of demand were given up; they are gaps", "ids", n)
	}
}
