package clockid_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/clockid"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

//nolint:gochecknoglobals // a constant
var leafs = model.SnowflakeLayout(0, model.LeafWorkerBits, model.LeafSeqBits)

// keeper knows why there is no worker ID, and gets one when it is needed, or does nothing.
type keeper struct {
	cause error
	get   func()
}

func (k *keeper) Missing() error { return k.cause }

func (k *keeper) Need(context.Context) {
	if k.get != nil {
		k.get()
	}
}

// running is a service on the real clock, or on that of a synctest bubble, and where it counts.
func running(t testing.TB, timeout time.Duration) (*clockid.Service, *idgen.Generator, *prometheus.Registry) {
	t.Helper()
	g, err := idgen.New(idgen.Snowflakes(leafs, nil))
	check.Must(t, err)
	g.Begin(1, 0)
	g.Extend(math.MaxInt64, math.MaxInt64)
	registry := prometheus.NewRegistry()
	return clockid.NewSnowflakes(g, timeout, &keeper{}, registry), g, registry
}

// counts are how many IDs a service has issued and wasted.
func counts(t *testing.T, registry *prometheus.Registry) (issued, wasted float64) {
	t.Helper()
	values := check.Metrics(t, registry)
	return values["shardid_snowflake_issued_total"], values["shardid_snowflake_wasted_total"]
}

// A refusal for want of a worker ID names its cause, once; other refusals do not.
func TestARefusalNamesItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := idgen.New(idgen.Snowflakes(leafs, nil))
		check.Must(t, err)
		cause := errors.New("zookeeper: acquire worker ID: connection refused")
		k := &keeper{cause: cause}
		s := clockid.NewSnowflakes(g, time.Second, k, nil)
		refused := func(want string) {
			t.Helper()
			if _, err := s.Next(t.Context(), 1, nil); err == nil || err.Error() != want ||
				!errors.Is(err, model.ErrNoLease) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		refused("no worker ID is held: none has been acquired yet: " + cause.Error())
		g.End(fmt.Errorf("%w: %w", model.ErrNoLease, cause))
		refused("no worker ID is held: " + cause.Error())
		g.Begin(1, 0)
		g.Extend(math.MaxInt64, 0)
		refused("no worker ID is held: its lease was not renewed in time: " + cause.Error())
		k.cause = nil
		refused("no worker ID is held: its lease was not renewed in time")
		cause = errors.New("not the reason")
		k.cause = cause
		g.Begin(1, time.Now().Add(time.Hour).UnixMilli())
		g.Extend(math.MaxInt64, math.MaxInt64)
		if _, err := s.Next(t.Context(), 1, nil); !errors.Is(err, model.ErrTooEarly) ||
			strings.Contains(err.Error(), cause.Error()) {
			t.Error(err)
		}
	})
}

// Who found no worker ID takes again once it is known whether there is one, whoever asked for it first.
func TestTheFirstCallGetsAnID(t *testing.T) {
	g, err := idgen.New(idgen.Snowflakes(leafs, nil))
	check.Must(t, err)
	k := &keeper{get: func() {
		g.Begin(1, 0)
		g.Extend(math.MaxInt64, math.MaxInt64)
	}}
	check.OK(t, check.Err(clockid.NewSnowflakes(g, time.Second, k, nil).Next(t.Context(), 1, nil)))
}

func TestNextWaitsForTheNextMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, registry := running(t, time.Second)
		began := time.Now()
		ids, err := s.Next(t.Context(), model.MaxBatch, nil)
		if err != nil || len(ids) != model.MaxBatch {
			t.Fatalf("%d IDs, %v", len(ids), err)
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("the IDs do not rise: %d", ids)
		}
		check.Equal(t, time.Since(began), 2*time.Millisecond, "10 000 IDs took, three milliseconds have 12 288")
		if issued, wasted := counts(t, registry); issued != 10_000 || wasted != 0 || s.Issued.Load() != 10_000 {
			t.Errorf("%v issued, %v wasted", issued, wasted)
		}
	})
}

func TestNextIsAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, registry := running(t, 50*time.Millisecond)
		g.Extend(time.Now().UnixMilli()+1, math.MaxInt64) // two milliseconds
		held := []int64{42}
		ids, err := s.Next(t.Context(), model.MaxBatch, held)
		if !errors.Is(err, model.ErrNoLease) || len(ids) != 1 || ids[0] != 42 {
			t.Errorf("%d IDs, %v", len(ids), err)
		}
		if issued, wasted := counts(t, registry); issued != 0 || wasted < 4096 {
			t.Errorf("%v issued, %v wasted", issued, wasted)
		}
	})
}

func TestNextGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := running(t, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Microsecond)
		defer cancel()
		check.Is(t, check.Err(s.Next(ctx, model.MaxBatch, nil)), context.DeadlineExceeded,
			"past the caller's deadline")
	})
}

// What is said where the time does not fit names the key to change.
func TestOptions(t *testing.T) {
	later := leafs
	later.Epoch = math.MaxInt64 / 2_000_000 // than any clock of today
	g, err := idgen.New(idgen.Snowflakes(later, nil))
	check.Must(t, err)
	g.Begin(1023, 0)
	g.Extend(math.MaxInt64, math.MaxInt64)
	s := clockid.NewSnowflakes(g, time.Second, &keeper{}, nil)
	_, err = s.Next(t.Context(), 1, nil)
	if !errors.Is(err, model.ErrTimeExhausted) || !strings.Contains(err.Error(), "snowflake.epoch_ms") {
		t.Error(err)
	}
}
