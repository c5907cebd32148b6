package monitor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errA, errB = errors.New("refused"), errors.New("timed out")

// world is a monitor under a clock that stands still until it is told to continue.
type world struct {
	*Monitor
	at  time.Time
	log bytes.Buffer
}

func newWorld() *world {
	w := &world{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	w.Monitor = New(slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{ReplaceAttr: withoutTime})), &counters{},
		nothing)
	w.now = func() time.Time { return w.at }
	return w
}

// nothing is the state of a replica without a mode.
func nothing() State { return State{} }

// silent is a monitor without a log.
func silent(state func() State, probes ...Probe) *Monitor {
	return New(slog.New(slog.DiscardHandler), &counters{}, state, probes...)
}

// lines returns what was logged since the last call.
func (w *world) lines() []string {
	defer w.log.Reset()
	return strings.Split(strings.TrimSuffix(w.log.String(), "\n"), "\n")
}

// What has passed is told by the monotonic clock, so one that is set changes nothing of it.
func TestAClockThatIsSet(t *testing.T) {
	m := silent(nothing)
	for _, at := range []time.Time{m.now(), m.ready.startedAt} {
		check.Has(t, at.String(), " m=")
	}
	m.now = func() time.Time { return time.Now().In(time.FixedZone("elsewhere", 3600)) }
	m.Report("redis", errA)
	check.Equal(t, m.Conditions()[0].Since.Location(), time.UTC, "what is shown")
}

// A failure is told of at once, a lasting one or one that returns each minute, its end once and at once.
func TestWhatIsLogged(t *testing.T) {
	const fails, works = `level=ERROR msg="redis fails" error=refused`, `level=INFO msg="redis works again"`
	w := newWorld()
	for _, step := range []struct {
		after time.Duration
		err   error
		want  string
	}{
		{0, nil, ""},
		{time.Second, errA, fails},
		{0, errA, ""},
		{59 * time.Second, errA, ""},
		{time.Second, errB, `level=ERROR msg="redis fails" error="timed out"`},
		{59 * time.Second, nil, works},
		{0, nil, ""},
		{0, errA, ""}, // it flaps
		{0, nil, ""},  // nothing was told, so nothing is taken back
		{0, errA, ""},
		{time.Second, errA, fails},
		{time.Hour, nil, works},
	} {
		w.at = w.at.Add(step.after)
		w.Report("redis", step.err)
		check.Equal(t, strings.Join(w.lines(), "; "), step.want, w.at.Format(time.TimeOnly), step.err)
	}
}

// Each condition has its own times, also in the log.
func TestConditions(t *testing.T) {
	w := newWorld()
	start := w.at
	w.Report("redis", nil)
	w.Report("database", errA)
	w.Report("pop", errB)
	if got := w.lines(); len(got) != 2 || !strings.Contains(got[1], "pop fails") {
		t.Errorf("logged %q", got)
	}
	w.at = w.at.Add(time.Second)
	w.Report("redis", nil)
	w.Report("database", errB)
	w.Report("pop", nil)
	if w.Err("redis") != nil || !errors.Is(w.Err("database"), errB) || w.Err("never reported") == nil {
		t.Errorf("redis %v, database %v, another %v", w.Err("redis"), w.Err("database"), w.Err("never reported"))
	}
	want := []model.Condition{
		{Name: "database", Since: start, Error: "timed out", Err: errB},
		{Name: "pop", OK: true, Since: start.Add(time.Second)},
		{Name: "redis", OK: true, Since: start},
	}
	if got := w.Conditions(); !slices.Equal(got, want) {
		t.Errorf("Conditions = %v, want %v", got, want)
	}
	w.at = w.at.Add(time.Second)
	w.Report("database", nil)
	if got := w.Conditions()[0]; !got.OK || got.Error != "" || !got.Since.Equal(w.at) || w.Err("database") != nil {
		t.Errorf("after the end: %+v, %v", got, w.Err("database"))
	}
}

// fakeStore is a probe that counts its runs.
type fakeStore struct{ runs atomic.Int64 }

func (c *fakeStore) check(context.Context) error {
	c.runs.Add(1)
	return nil
}

func stop(t *testing.T, m *Monitor) {
	t.Helper()
	check.OK(t, m.Stop(t.Context()))
}

// Each store is probed at once and then every second, until Stop. A probe that hangs counts as failed after three
// seconds and keeps no other probe waiting. Stop interrupts it at once and does not take that for a failure.
func TestProbeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &fakeStore{}
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		m := silent(nothing, Probe{"hangs", hang}, Probe{"other", other.check})
		m.Start()
		time.Sleep(probeTimeout - time.Millisecond)
		if got := m.Conditions(); len(got) != 1 || got[0].Name != "other" {
			t.Errorf("before the timeout: %v", got)
		}
		time.Sleep(2 * time.Millisecond)
		if got := m.Conditions(); len(got) != 2 || got[0].OK || got[0].Error != context.DeadlineExceeded.Error() {
			t.Errorf("after the timeout: %v", got)
		}
		check.Equal(t, other.runs.Load(), 4, "runs of the other probe in 3 s")
		before := time.Now()
		stop(t, m)
		if got := m.Conditions(); time.Since(before) != 0 || got[0].Error != context.DeadlineExceeded.Error() {
			t.Errorf("Stop took %v and left %v", time.Since(before), got)
		}
		time.Sleep(time.Minute)
		check.Equal(t, other.runs.Load(), 4, "runs after Stop")
	})
}

// For the race detector: everything at the same time.
func TestConcurrentUse(t *testing.T) {
	m := silent(nothing, Probe{"store", (&fakeStore{}).check})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			m.Start()
			for j := range 20 {
				m.Report("redis", []error{nil, errors.New("x")}[(i+j)%2])
				_ = m.Err("redis")
				m.Alarms()
				m.sample()
				m.Latest()
			}
			stop(t, m)
		})
	}
	wg.Wait()
	if got := m.Conditions(); len(got) == 0 || got[0].Name != "redis" {
		t.Errorf("Conditions = %v", got)
	}
}
