// Package snowflake makes 64-bit IDs of 41 bits of milliseconds since an epoch, a
// worker ID and a sequence, of 10 and 12 bits as Twitter's Snowflake and Meituan's Leaf
// have them, or of others.
//
// Package idgen makes them, inside the bounds that package worker grants. A [Service]
// waits where waiting helps: for the next millisecond when the sequence is used up, and
// for a clock that went back a little.
package snowflake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// Service serves IDs from a generator and waits where that helps. Safe for
// concurrent use.
type Service struct {
	gen     *idgen.Generator
	timeout time.Duration
	keeper  Keeper

	issued, wasted prometheus.Counter
}

// Keeper is the worker.Keeper that has the generator, as a service knows it. Safe for concurrent use.
type Keeper interface {
	// Need is told that an ID was not had for want of a worker ID. It waits until IDs may be issued or it is known
	// why not, until ctx ends at most.
	Need(ctx context.Context)
	// Missing says why there is no worker ID that is trusted; "" when nothing is known.
	Missing() string
}

// NewService serves from gen; a call waits for timeout at most. The registry exports what is counted; nil for none.
func NewService(
	gen *idgen.Generator, timeout time.Duration, keeper Keeper, registry prometheus.Registerer,
) *Service {
	metric.Gauge(registry, "shardid_snowflake_lifetime_seconds", "How long the 41 bits of time last.",
		func() float64 { return gen.Remaining().Seconds() })
	return &Service{
		gen: gen, timeout: timeout, keeper: keeper,
		issued: metric.Counter(registry, "shardid_snowflake_issued_total", "IDs given to callers."),
		wasted: metric.Counter(registry, "shardid_snowflake_wasted_total",
			"IDs taken for calls that were refused in the middle: gaps."),
	}
}

// Issued is how many IDs callers got since the start.
func (s *Service) Issued() int64 { return metric.Value(s.issued) }

// Next issues count IDs, 1…10 000, ascending, and appends them to dst, all or
// none. Errors: model.ErrSaturated, those of
// idgen.Generator.Take, the context's.
func (s *Service) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count == 1 { // mostly there is one
		if id, got, _, _ := s.gen.Take(1); got == 1 {
			s.issued.Inc()
			return append(dst, id), nil
		}
	}
	start := len(dst)
	dst, err := s.gen.TakeAll(ctx, count, dst, s.patience)
	if errors.Is(err, model.ErrNoLease) && len(dst) == start {
		patient, cancel := context.WithTimeout(ctx, s.timeout)
		s.keeper.Need(patient)
		cancel()
		dst, err = s.gen.TakeAll(ctx, count, dst, s.patience)
	}
	if err != nil {
		s.wasted.Add(float64(len(dst) - start))
		return dst[:start], s.explain(err)
	}
	s.issued.Add(float64(count))
	return dst, nil
}

// explain adds why there is no worker ID, which only its keeper knows, and where the epoch is set.
func (s *Service) explain(err error) error {
	if errors.Is(err, model.ErrTimeExhausted) {
		return fmt.Errorf("%w: the epoch is snowflake.epoch_ms", err)
	}
	if !errors.Is(err, model.ErrNoLease) {
		return err
	}
	if cause := s.keeper.Missing(); cause != "" && !strings.Contains(err.Error(), cause) {
		return fmt.Errorf("%w: %s", err, cause)
	}
	return err
}

// patience bounds the wait for the next millisecond.
func (s *Service) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout, errBusy)
}

// errBusy is why there is no ID when all of each millisecond are used up.
var errBusy = fmt.Errorf("%w: other callers got them: ask for less at a time, or use several instances",
	model.ErrSaturated)
