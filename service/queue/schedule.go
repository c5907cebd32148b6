package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"shardid/model"

	"github.com/robfig/cron/v3"
)

const (
	// startRetry is the longest pause between two tries to initialise, so that
	// serving begins soon after a store's arrival.
	startRetry = 500 * time.Millisecond
	// sweepChunk is how many lists one State of the sweep asks for.
	sweepChunk = 1024
	// sweepWorkers is how many passes the sweep runs side by side.
	sweepWorkers = 4
	// recheckEvery is the pause between two looks at what failed, on average.
	recheckEvery = 2 * time.Second
	// maxSpread bounds spread: with the default cron, 120 s apart, it is 5 s.
	maxSpread = 5 * time.Second
)

// schedule builds the cron jobs. SkipIfStillRunning must be outside Recover: the
// other way round one panic would keep a job from ever running again.
func (s *Service) schedule() error {
	logger := cronLog{s.opts.Log}
	s.cron = cron.New(cron.WithSeconds(), cron.WithLogger(logger),
		cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger), cron.Recover(logger)))
	if err := s.scheduleSweep(); err != nil {
		return fmt.Errorf("%w: refill cron %q: %w", model.ErrInvalidArgument, s.opts.RefillCron, err)
	}
	job, err := s.cron.AddFunc(s.opts.ReloadCron, s.reloadAndSettle)
	if err != nil {
		return fmt.Errorf("%w: reload cron %q: %w", model.ErrInvalidArgument, s.opts.ReloadCron, err)
	}
	s.reloadJob = job
	return nil
}

func (s *Service) scheduleSweep() error {
	when, err := cronParser().Parse(s.opts.RefillCron)
	if err != nil {
		return err
	}
	s.cron.Schedule(when, cron.FuncJob(func() {
		if s.sleep(mathrand.N(spread(when, time.Now()))) {
			s.sweep(s.ctx)
		}
	}))
	return nil
}

// cronParser takes six fields, seconds first.
func cronParser() cron.Parser {
	return cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
}

// spread is how long after its second a sweep begins, at most: all replicas have the
// same cron, and their sweeps at once would show in the slowest requests.
func spread(when cron.Schedule, now time.Time) time.Duration {
	return max(1, min(when.Next(now).Sub(now)/20, maxSpread))
}

// Start begins to initialise in the background and returns at once: the service
// becomes ready when the stores have answered.
func (s *Service) Start() { s.spawn(s.run) }

func (s *Service) run() {
	if !s.initialise() {
		return
	}
	s.opts.Log.Info("queue mode is ready", "lists", len(s.catalogue.Load().all()))
	if !s.startJobs() {
		return
	}
	s.sweep(s.ctx)
	for s.sleep(recheckEvery/2 + mathrand.N(recheckEvery)) {
		s.recheck()
	}
}

// reloadAndSettle is what the cron job does. A failure has been reported.
func (s *Service) reloadAndSettle() {
	if s.reloadAndReport() == nil {
		s.settleAll()
	}
}

// recheck tries again what failed last, until it works: whether it does must not wait
// for a caller or for the next sweep. With a store away the first pass shows that.
func (s *Service) recheck() {
	if s.reloadFails.Load() {
		s.reloadAndSettle()
	}
	var again []*list
	for _, l := range append(s.refills.Keys(), s.pops.Keys()...) {
		if now, _ := s.catalogue.Load().find(l.key); now != l { // it was removed
			s.refills.Note(l, nil)
			s.pops.Note(l, nil)
		} else if l.mayBeRechecked(time.Now()) {
			again = append(again, l)
		}
	}
	for lists := range slices.Chunk(again, passSize) {
		failed := s.stats.failedPasses.Load()
		s.refill(lists, false)
		if s.stats.failedPasses.Load() != failed || s.ctx.Err() != nil {
			return
		}
	}
}

// startJobs starts the cron jobs; false means that the service stops. It must not
// start them behind Stop's back, which ends them only once.
func (s *Service) startJobs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.cron.Start()
	}
	return !s.stopped
}

// initialise tries until it succeeds; false means the service stops.
func (s *Service) initialise() bool {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, startRetry) {
		err := s.probe()
		if err == nil {
			err = s.reload(s.ctx)
		}
		if err == nil {
			return true
		}
		s.waitsFor.Store(&err)
		if !s.sleep(pause) {
			return false
		}
	}
}

func (s *Service) probe() error {
	ctx, cancel := context.WithTimeout(s.ctx, reloadTimeout)
	defer cancel()
	return s.opts.Probe(ctx)
}

// Stop ends all background work and fails whoever still waits. It may be called
// twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	jobs := s.cron.Stop()
	if first {
		s.closeLists()
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		<-jobs.Done()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop queue service: %w", ctx.Err())
	}
}

func (s *Service) closeLists() {
	c := s.catalogue.Load()
	if c == nil {
		return
	}
	for _, l := range c.all() {
		l.close(errStopping)
	}
	if n := s.stats.dropped.Load(); n > 0 {
		s.opts.Log.Info("indices taken ahead of demand were given up; they are gaps", "indices", n)
	}
}

// settleAll settles every list of which the database, as it was just read, and the
// store do not know the same, be it used or not: so what one of them has lost is
// mended before the other can lose something too.
func (s *Service) settleAll() {
	var todo []*list
	for _, l := range s.catalogue.Load().all() {
		if l.unsettled() {
			todo = append(todo, l)
		}
	}
	for lists := range slices.Chunk(todo, passSize) {
		s.refill(lists, true)
	}
}

// sweep refills every list that is low, but for narrow ones.
func (s *Service) sweep(ctx context.Context) {
	c := s.catalogue.Load()
	if c == nil {
		return
	}
	due := s.lowLists(ctx, c.all())
	passes := make(chan []*list)
	var workers sync.WaitGroup
	for range min(sweepWorkers, len(due)/passSize+1) {
		workers.Go(func() {
			for lists := range passes {
				s.refill(lists, false)
			}
		})
	}
	for len(due) > 0 && ctx.Err() == nil {
		n := min(passSize, len(due))
		passes <- due[:n]
		due = due[n:]
	}
	close(passes)
	workers.Wait()
}

// lowLists asks for the state of all lists and returns those that are low.
func (s *Service) lowLists(ctx context.Context, lists []*list) []*list {
	var due []*list
	for len(lists) > 0 && ctx.Err() == nil {
		n := min(sweepChunk, len(lists))
		jobs := make([]*job, n)
		for i, l := range lists[:n] {
			jobs[i] = &job{list: l}
		}
		lists = lists[n:]
		for _, j := range s.due(s.look(ctx, jobs, s.opts.Lists.State)) {
			if j.fillsAhead() {
				due = append(due, j.list)
			}
		}
		s.report(jobs)
	}
	return due
}

// deleteLists deletes lists under the reload lock; it is another replica's work
// when that holds it.
func (s *Service) deleteLists(ctx context.Context, keys []model.ListKey) error {
	token := rand.Text()
	got, err := s.opts.Locker.TryLock(ctx, []string{reloadLock}, token, lockTTL)
	if err != nil || !got[0] {
		return err
	}
	s.opts.Log.Info("deleting the lists of removed apps", "lists", len(keys))
	err = s.opts.Lists.Delete(ctx, keys)
	return errors.Join(err, s.opts.Locker.Unlock(ctx, []string{reloadLock}, token))
}

// cronLog shows cron's own messages: a recovered panic is an error, the rest is
// for debugging.
type cronLog struct{ log *slog.Logger }

func (c cronLog) Info(msg string, kv ...any) { c.log.Debug("cron: "+msg, kv...) }

func (c cronLog) Error(err error, msg string, kv ...any) {
	c.log.Error("cron: "+msg, append(kv, "error", err)...)
}
