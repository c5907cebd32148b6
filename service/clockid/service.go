// Package clockid issues IDs that carry the time at which they are asked for: snowflakes, and UIDs in default mode.
//
// A generator of client/idgen makes them, inside the bounds that package worker grants. A [Service] waits where waiting
// helps: for the next millisecond, or second, when the sequence is used up, and for a clock that went back a little.
package clockid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// Keeper is the worker.Keeper that has the generator, as a service knows it. Safe for concurrent use.
type Keeper interface {
	// Need is told that an ID was not had for want of a worker ID. It waits until IDs may be issued or it is known
	// why not, until ctx ends at most.
	Need(ctx context.Context)
	// Missing says why there is no worker ID that is trusted; nil when nothing is known.
	Missing() error
}

// Service issues the IDs of a generator. Safe for concurrent use; all but the counts is set before.
type Service struct {
	Generator *idgen.Generator
	Keeper    Keeper          // for Next
	Timeout   time.Duration   // how long a call waits at most
	Busy      error           // what it gets then
	Ends      context.Context // its end ends each wait
	// Issued are the IDs given to callers, Wasted those taken for calls that were refused in the middle: gaps.
	Issued, Wasted atomic.Int64
}

// NewSnowflakes serves snowflakes. The registry exports what is counted; nil for none.
func NewSnowflakes(
	gen *idgen.Generator, timeout time.Duration, keeper Keeper, registry prometheus.Registerer,
) *Service {
	s := &Service{Generator: gen, Keeper: keeper, Timeout: timeout, Busy: errBusy, Ends: context.Background()}
	metric.Gauge(registry, "shardid_snowflake_lifetime_seconds", "How long the 41 bits of time last.",
		func() float64 { return gen.Remaining().Seconds() })
	metric.CounterOf(registry, "shardid_snowflake_issued_total", "IDs given to callers.", s.Issued.Load)
	metric.CounterOf(registry, "shardid_snowflake_wasted_total",
		"IDs taken for calls that were refused in the middle: gaps.", s.Wasted.Load)
	return s
}

// Take issues count IDs, 1…model.MaxBatch, ascending, and appends them to dst, all or none. Errors: Service.Busy, those
// of idgen.Generator.Take, the context's.
func (s *Service) Take(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count == 1 { // mostly there is one
		if id, got, _, _ := s.Generator.Take(1); got == 1 {
			s.Issued.Add(1)
			return append(dst, id), nil
		}
	}
	ids, err := s.Generator.TakeAll(ctx, count, dst, s.patience)
	if err != nil {
		s.Wasted.Add(int64(len(ids) - len(dst)))
		return dst, err
	}
	s.Issued.Add(int64(count))
	return ids, nil
}

// patience bounds the wait for the next unit of time.
func (s *Service) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, s.Busy)
	stop := context.AfterFunc(s.Ends, cancel)
	return ctx, func() { stop(); cancel() }
}

// Next is Take, which a call that needs a worker ID repeats once it is known whether there is one. Its errors say why
// there is none, which only the keeper knows, and where the epoch of snowflakes is set.
func (s *Service) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	ids, err := s.Take(ctx, count, dst)
	if errors.Is(err, model.ErrNoLease) {
		patient, cancel := s.patience(ctx)
		s.Keeper.Need(patient)
		cancel()
		ids, err = s.Take(ctx, count, dst)
	}
	switch {
	case errors.Is(err, model.ErrTimeExhausted):
		err = fmt.Errorf("%w: %w", model.Do("set the clock, or correct snowflake.epoch_ms"), err)
	case errors.Is(err, model.ErrNoLease):
		err = WithCause(err, s.Keeper.Missing())
	}
	return ids, err
}

// WithCause is an error with a cause that it does not name yet, nil for none.
func WithCause(err, cause error) error {
	if cause == nil || strings.Contains(err.Error(), cause.Error()) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// errBusy is why there is no snowflake when all of each millisecond are used up.
var errBusy = fmt.Errorf("%w: %w: other callers got them",
	model.Do("ask for less at a time, or use several instances"), model.ErrSaturated)
