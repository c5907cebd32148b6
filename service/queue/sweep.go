package queue

import (
	"context"
	"crypto/rand"
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
	// which keeps this process and Redis for a millisecond or less each. What callers ask for goes in between.
	sweepChunk = 2 * model.Shards
	// maxSpread bounds how long after its second a replica asks for the sweep: all have the same cron.
	maxSpread = 5 * time.Second
)

// schedule builds the cron jobs. SkipIfStillRunning must be outside Recover: the
// other way round one panic would keep a job from ever running again.
func (s *Service) schedule() error {
	failures := cron.PrintfLogger(slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelError)) // of panics, with a stack
	s.cron = cron.New(cron.WithLogger(cron.DiscardLogger),
		cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger), cron.Recover(failures)))
	when, err := ParseCron(s.opts.RefillCron)
	if err != nil {
		return fmt.Errorf("%w: refill cron %q: %w", model.ErrInvalidArgument, s.opts.RefillCron, err)
	}
	reload, err := ParseCron(s.opts.ReloadCron)
	if err != nil {
		return fmt.Errorf("%w: reload cron %q: %w", model.ErrInvalidArgument, s.opts.ReloadCron, err)
	}
	s.cron.Schedule(when, cron.FuncJob(func() { s.sweepInTurn(when) }))
	s.reloadJob = s.cron.Schedule(reload, cron.FuncJob(s.reloadOnSchedule))
	return nil
}

// ParseCron reads six fields, seconds first, or a descriptor such as @hourly. The error
// follows the text in a message and says what to write.
func ParseCron(text string) (cron.Schedule, error) {
	errNone := fmt.Errorf("%w: is not a schedule",
		model.Do("write six fields (second minute hour day month weekday) such as 0 */2 * * * *"))
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
		return nil, fmt.Errorf("%w: never comes", model.Do("choose a day that exists in its month"))
	}
	return steady{schedule}, nil
}

// steady is a schedule with the monotonic clock in its times, so that jobs come also when the clock was set back.
type steady struct{ cron.Schedule }

// Next implements cron.Schedule.
func (s steady) Next(now time.Time) time.Time {
	next := s.Schedule.Next(now)
	if next.IsZero() {
		return next
	}
	return now.Add(next.Sub(now))
}

// sweepInTurn sweeps unless another replica does so in this period. A store that does not answer is swept
// by all: each replica notes so that its lists fail.
func (s *Service) sweepInTurn(when cron.Schedule) {
	now := time.Now()
	period := when.Next(now).Sub(now)
	if !s.background.Sleep(mathrand.N(max(1, min(period/20, maxSpread)))) {
		return
	}
	ctx, cancel := context.WithTimeout(s.background.Context(), popTimeout)
	defer cancel()
	got, err := s.opts.Lists.TryLock(ctx, []string{sweepLock}, rand.Text(), period*9/10)
	if err != nil || got[0] {
		s.sweep()
	}
}

// sweep looks at all lists and has those refilled that are low.
func (s *Service) sweep() {
	c := s.catalogue.Load()
	if c == nil {
		return
	}
	for chunk := range slices.Chunk(c.all(), sweepChunk) {
		jobs := make([]*job, len(chunk))
		for i, l := range chunk {
			jobs[i] = &job{list: l}
		}
		s.observe(s.background.Context(), jobs, s.opts.Lists.State)
		s.report(jobs)
		for _, j := range jobs {
			j.mu.Lock()
			if j.low {
				j.refillSoon(j.waits())
			} else if j.err != nil && j.refill.phase == idle {
				j.pauseRefill(j.err, retryPause)
			}
			j.mu.Unlock()
		}
		if s.background.Context().Err() != nil {
			return
		}
	}
}
