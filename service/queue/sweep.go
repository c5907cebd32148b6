package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"shardid/model"

	"github.com/robfig/cron/v3"
)

const (
	// cronFields are six, seconds first.
	cronFields = cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor
	// sweepLock names the lock of the replica that sweeps.
	sweepLock = "sweep"
	// sweepChunk is how many lists one State of the sweep asks for: those of two apps,
	// which keeps this process and Redis for a millisecond or less each.
	sweepChunk = 2 * model.Shards
	// sweepRests is how long a sweep rests after each of these, of the time that it took,
	// and longestRest bounds that. What callers ask for in between need not wait.
	sweepRests  = 4
	longestRest = 20 * time.Millisecond
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
	when, err := ParseCron(s.opts.RefillCron)
	if err != nil {
		return fmt.Errorf("%w: refill cron %q %w", model.ErrInvalidArgument, s.opts.RefillCron, err)
	}
	reload, err := ParseCron(s.opts.ReloadCron)
	if err != nil {
		return fmt.Errorf("%w: reload cron %q %w", model.ErrInvalidArgument, s.opts.ReloadCron, err)
	}
	s.cron.Schedule(when, cron.FuncJob(func() { s.sweepInTurn(when) }))
	s.reloadJob = s.cron.Schedule(reload, cron.FuncJob(func() { _ = s.reloadAndReport() }))
	return nil
}

// ParseCron reads six fields, seconds first, or a descriptor such as @hourly. The error
// follows the text in a message and says what to write.
func ParseCron(text string) (cron.Schedule, error) {
	errNone := errors.New("is not a schedule: " +
		"write six fields (second minute hour day month weekday) such as 0 */2 * * * *")
	// cron v3.0.1 panics on a time zone with no schedule behind it.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		if zone, rest, _ := strings.Cut(text, " "); zone == text || strings.TrimSpace(rest) == "" {
			return nil, errNone
		}
	}
	schedule, err := cron.NewParser(cronFields).Parse(text)
	if err != nil {
		return nil, errNone
	}
	if schedule.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("never comes: choose a day that exists in its month")
	}
	return schedule, nil
}

// sweepInTurn is what the cron job does. One replica sweeps, and goes on with it at its
// next turn; another one takes its place once it is late by more than slack.
func (s *Service) sweepInTurn(when cron.Schedule) {
	slack := 2 * spread(when, time.Now())
	for _, wait := range []time.Duration{mathrand.N(slack / 2), 2 * slack} {
		if !s.background.Sleep(wait) {
			return
		}
		if s.takeSweep(when.Next(time.Now()).Add(slack)) {
			s.sweep()
			return
		}
	}
}

// takeSweep takes or keeps the sweep until then, and says whether this replica is to
// sweep. A store that does not answer is swept by all: each replica notes so that its
// lists fail.
func (s *Service) takeSweep(until time.Time) bool {
	ctx, cancel := context.WithTimeout(s.background.Context(), popTimeout)
	defer cancel()
	names := []string{sweepLock}
	_ = s.opts.Locker.Unlock(ctx, names, s.sweepToken) // the next call meets the same
	got, err := s.opts.Locker.TryLock(ctx, names, s.sweepToken, time.Until(until))
	return err != nil || got[0]
}

// spread is how long after its second a replica asks for the sweep, at most: all
// replicas have the same cron. It also covers clocks that differ.
func spread(when cron.Schedule, now time.Time) time.Duration {
	return max(1, min(when.Next(now).Sub(now)/20, maxSpread))
}

// recheck tries again what failed last, until it works: whether it does must not wait
// for a caller or for the next sweep. With a store away the first pass shows that. A lock
// that was in the way at the last look is ignored: Redis may have gone away before it could
// be freed. These lists come first, as others may fail for good. A list of another deployment
// is a sign that all are, as after the database took the place of another one: all are looked
// at, because readiness depends on that.
func (s *Service) recheck() {
	if at := s.reloadAt.Load(); s.reloadFails.Load() || at > 0 && time.Now().UnixNano() > at {
		_ = s.reloadAndReport() // a failure has been reported
	}
	var again, locked []*list
	for _, l := range append(s.refills.Keys(), s.pops.Keys()...) {
		if present, _ := s.catalogue.Load().find(l.key); present != l { // it was removed
			s.refills.Note(l, nil)
			s.pops.Note(l, nil)
			continue
		}
		l.mu.Lock()
		if errors.Is(l.refillErr, errBusy) {
			locked = append(locked, l)
		} else {
			again = append(again, l)
		}
		l.mu.Unlock()
	}
	work := func(lists []*list, how manner) (ok bool) {
		for lists := range passes(lists) {
			failed := s.stats.failedPasses.Load()
			s.refillLists(lists, how)
			if s.stats.failedPasses.Load() != failed {
				return false
			}
		}
		return true
	}
	if work(locked, manner{ignoreLock: true}) {
		work(again, manner{})
	}
	if lists := s.catalogue.Load().all(); errors.Is(s.refills.Err(), model.ErrForeign) && len(s.refills.Keys()) < len(lists) {
		s.lowLists(lists)
	}
}

// sweep has every list refilled that is low.
func (s *Service) sweep() {
	if c := s.catalogue.Load(); c != nil {
		for _, l := range s.lowLists(c.all()) {
			l.refillSoon()
		}
	}
}

// lowLists asks for the state of all lists and returns those that are low.
func (s *Service) lowLists(lists []*list) (due []*list) {
	ctx := s.background.Context()
	for chunk := range slices.Chunk(lists, sweepChunk) {
		begun := time.Now()
		jobs := make([]*job, len(chunk))
		for i, l := range chunk {
			jobs[i] = &job{list: l}
		}
		seen := s.observe(ctx, jobs, s.opts.Lists.State)
		for _, j := range seen {
			if j.low {
				due = append(due, j.list)
			}
		}
		s.report(jobs)
		if len(seen) == 0 && time.Since(begun) > time.Second { // the rest would wait as long each
			break
		}
		if !s.background.Sleep(min(sweepRests*time.Since(begun), longestRest)) {
			break
		}
	}
	return due
}

// cronLog shows cron's own messages: a recovered panic is an error, the rest is
// for debugging.
type cronLog struct{ log *slog.Logger }

func (c cronLog) Info(msg string, kv ...any) { c.log.Debug("cron: "+msg, kv...) }

func (c cronLog) Error(err error, msg string, kv ...any) {
	c.log.Error("cron: "+msg, append(kv, "error", err)...)
}
