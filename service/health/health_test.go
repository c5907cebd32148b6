package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errA, errB = errors.New("refused"), errors.New("timed out")

// world is a monitor under a clock that stands still until it is told to go on.
type world struct {
	*Monitor
	at  time.Time
	log bytes.Buffer
}

func newWorld() *world {
	w := &world{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.Monitor = New(slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
	w.now = func() time.Time { return w.at }
	return w
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// lines returns what was logged since the last call.
func (w *world) lines() []string {
	defer w.log.Reset()
	return strings.Split(strings.TrimSuffix(w.log.String(), "\n"), "\n")
}

// A failure is told of at once, a lasting one each minute, another one after ten
// seconds at the soonest, its end once and at once.
func TestWhatIsLogged(t *testing.T) {
	const fails = `level=ERROR msg="redis fails" error=refused failures=1`
	w := newWorld()
	for _, step := range []struct {
		after time.Duration
		err   error
		want  string
	}{
		{0, nil, ""},
		{time.Second, errA, fails},
		{0, errA, ""},
		{time.Second, errA, ""},
		{58 * time.Second, errA, ""},
		{time.Second, errA, `level=ERROR msg="redis still fails" error=refused failures=4`},
		{time.Second, errB, ""}, // too soon
		{8 * time.Second, errB, ""},
		{time.Second, errB, `level=ERROR msg="redis fails otherwise" error="timed out" failures=3`},
		{10 * time.Second, errB, ""},
		{10 * time.Second, errA, `level=ERROR msg="redis fails otherwise" error=refused failures=2`},
		{59 * time.Second, errA, ""},
		{time.Second, nil, `level=INFO msg="redis works again"`},
		{0, nil, ""},
		{time.Hour, nil, ""},
		{0, errA, fails},
		{0, nil, `level=INFO msg="redis works again"`},
		{9 * time.Second, errA, ""}, // too soon after the last line
		{0, nil, ""},                // nothing was told, so nothing is taken back
		{time.Second, errA, `level=ERROR msg="redis fails" error=refused failures=2`},
	} {
		w.at = w.at.Add(step.after)
		w.Report("redis", step.err)
		if got := strings.Join(w.lines(), "; "); got != step.want {
			t.Errorf("%s: Report(%v) logged %q, want %q", w.at.Format(time.TimeOnly), step.err, got, step.want)
		}
	}
}

// Ten minutes of 100 reports a second: what flaps is told of twice in ten
// seconds at most, what changes its message once, what just fails once a minute.
func TestNothingFloodsTheLog(t *testing.T) {
	for _, c := range []struct {
		name   string
		report func(i int) error
		lines  int
	}{
		{"works", func(int) error { return nil }, 0},
		{"fails", func(int) error { return errA }, 10},
		{"flaps", func(i int) error { return []error{errA, nil}[i%2] }, 120},
		{"flaps slowly", func(i int) error { return []error{errA, nil}[i/1500%2] }, 40},
		{"two messages", func(i int) error { return []error{errA, errB}[i%2] }, 60},
		{"a new message each time", func(i int) error { return fmt.Errorf("port %d", i) }, 60},
		{"an empty message", func(int) error { return errors.New("") }, 10},
		{"all at once", func(i int) error { return []error{errA, nil, errB, errA, nil}[i%5] }, 120},
	} {
		w := newWorld()
		for i := range 60_000 {
			w.Report("redis", c.report(i))
			w.at = w.at.Add(10 * time.Millisecond)
		}
		if got := strings.Count(w.log.String(), "\n"); got != c.lines {
			t.Errorf("%s: %d lines, want %d", c.name, got, c.lines)
		}
	}
}

// Conditions do not share their quiet times.
func TestConditionsAreToldApart(t *testing.T) {
	w := newWorld()
	w.Report("redis", errA)
	w.Report("database", errB)
	if got := w.lines(); len(got) != 2 || !strings.Contains(got[1], "database fails") {
		t.Errorf("logged %q", got)
	}
}

func TestConditions(t *testing.T) {
	w := newWorld()
	start := w.at
	w.Report("redis", nil)
	w.Report("database", errA)
	w.at = w.at.Add(time.Second)
	w.Report("redis", nil)
	w.Report("database", errB)
	w.Report("queue", nil)
	want := []Condition{
		{"database", false, start, "timed out"},
		{"queue", true, start.Add(time.Second), ""},
		{"redis", true, start, ""},
	}
	if got := w.Conditions(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Conditions = %v, want %v", got, want)
	}
	w.at = w.at.Add(time.Second)
	w.Report("database", nil)
	if got := w.Conditions()[0]; !got.OK || got.Error != "" || !got.Since.Equal(w.at) {
		t.Errorf("after the end: %+v", got)
	}
}

func TestErr(t *testing.T) {
	w := newWorld()
	w.Report("redis", nil)
	w.Report("database", errA)
	if w.Err("redis") != nil || !errors.Is(w.Err("database"), errA) || w.Err("never reported") == nil {
		t.Errorf("redis %v, database %v, another %v", w.Err("redis"), w.Err("database"), w.Err("never reported"))
	}
	w.Report("database", nil)
	if err := w.Err("database"); err != nil {
		t.Errorf("after it works again: %v", err)
	}
	if got := w.Conditions(); len(got) != 2 {
		t.Errorf("asking for a name made a condition: %v", got)
	}
}

// Of many things that share a condition each counts by itself: it fails while one of
// them does, with one message, and works once none does.
func TestFailing(t *testing.T) {
	var told []error
	f := NewFailing[int](func(err error) { told = append(told, err) })
	for _, step := range []struct {
		key  int
		err  error
		want string
		keys int
	}{
		{0, nil, "[<nil>]", 0},
		{1, nil, "[]", 0}, // it is known
		{1, errA, "[refused]", 1},
		{2, nil, "[refused]", 1},
		{2, errB, "[refused]", 2},
		{1, nil, "[timed out]", 1},
		{1, errA, "[timed out]", 2},
		{2, nil, "[refused]", 1},
		{1, nil, "[<nil>]", 0},
		{1, nil, "[]", 0},
	} {
		told = nil
		f.Note(step.key, step.err)
		if got := fmt.Sprint(told); got != step.want || len(f.Keys()) != step.keys {
			t.Errorf("Note(%d, %v) told %s, failing are %v, want %s and %d", step.key, step.err, got, f.Keys(), step.want, step.keys)
		}
	}
}

// quietMonitor logs to nobody.
func quietMonitor(probes ...Probe) *Monitor {
	return New(slog.New(slog.DiscardHandler), probes...)
}

// nothing is a probe of a store that always works.
func nothing(context.Context) error { return nil }

// One cause is told of once: what a store's failure brings about has no line of
// its own, and what fails by itself has one as soon as the stores were probed.
func TestAFailingStoreExplainsTheRest(t *testing.T) {
	w := newWorld()
	w.probes = []Probe{{Name: "redis"}, {Name: "database"}}
	for _, step := range []struct {
		after time.Duration
		name  string
		err   error
		want  string
	}{
		{0, "redis", nil, ""},
		{0, "database", nil, ""},
		{time.Second, "pop", errA, ""}, // redis may fail too, and has not been probed
		{time.Second, "redis", errB, `level=ERROR msg="redis fails" error="timed out" failures=1`},
		{time.Minute, "pop", errA, ""},
		{time.Second, "redis", nil, `level=INFO msg="redis works again"`},
		{time.Second, "pop", errA, `level=ERROR msg="pop fails" error=refused failures=3`},
		{time.Second, "pop", nil, `level=INFO msg="pop works again"`},
		{time.Minute, "refill", errA, ""},
		{time.Second, "refill", errA, ""},
		{time.Second, "refill", errA, `level=ERROR msg="refill fails" error=refused failures=3`},
	} {
		w.at = w.at.Add(step.after)
		w.Report(step.name, step.err)
		if got := strings.Join(w.lines(), "\n"); got != step.want {
			t.Errorf("%s %v: logged %q, want %q", step.name, step.err, got, step.want)
		}
	}
}
