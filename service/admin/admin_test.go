package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	now    = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	before = model.AppSummary{App: model.App{ID: 7, Name: "old", Step: 1000}, HighestIndex: 9}
	after  = model.AppSummary{App: model.App{ID: 7, Name: "new", Step: 5000}, HighestIndex: 9}
	tag    = model.Tag{Name: "a/b", MaxID: 2001, Step: 2000}
	name   = model.Name{Name: "orders", EpochMs: 9, WorkerBits: 10, SeqBits: 12, Hold: time.Minute}
	space  = model.Space{Name: "chat", Sections: 64, Step: 1000}
	actor  = Actor{Name: "boss-token", Remote: "10.0.0.1:9", RequestID: "r-1"}
)

// fakeStore answers changes with fixed values or err, and notes the state of the context.
type fakeStore struct {
	Store
	err      error
	calls    int
	ended    error // of the context
	deadline bool
}

func (f *fakeStore) call(ctx context.Context) error {
	f.calls++
	f.ended = ctx.Err()
	_, f.deadline = ctx.Deadline()
	return f.err
}

func (f *fakeStore) CreateApp(ctx context.Context, _ model.App) (model.AppSummary, error) {
	return after, f.call(ctx)
}

func (f *fakeStore) ChangeApp(ctx context.Context, _ uint8, _ model.AppChange) (was, is model.AppSummary, err error) {
	return before, after, f.call(ctx)
}

func (f *fakeStore) DeleteApp(ctx context.Context, _ uint8, _ string) (model.AppSummary, error) {
	return before, f.call(ctx)
}

func (f *fakeStore) CreateTag(ctx context.Context, _ model.Tag) (model.Tag, error) {
	return tag, f.call(ctx)
}
func (f *fakeStore) DeleteTag(ctx context.Context, _ string) (model.Tag, error) {
	return tag, f.call(ctx)
}

func (f *fakeStore) ChangeTag(ctx context.Context, _ string, _ model.TagChange) (was, is model.Tag, err error) {
	return tag, tag, f.call(ctx)
}

func (f *fakeStore) CreateName(ctx context.Context, _ model.Name) (model.Name, error) {
	return name, f.call(ctx)
}
func (f *fakeStore) DeleteName(ctx context.Context, _ string) (model.Name, error) {
	return name, f.call(ctx)
}

func (f *fakeStore) ChangeName(ctx context.Context, _ string, hold time.Duration) (was model.Name, is model.NameUse, err error) {
	is.Name = name.WithHold(hold, now.UnixMilli())
	return name, is, f.call(ctx)
}

func (f *fakeStore) CreateSpace(ctx context.Context, _ model.Space) (model.Space, error) {
	return space, f.call(ctx)
}
func (f *fakeStore) DeleteSpace(ctx context.Context, _ string) (model.Space, error) {
	return space, f.call(ctx)
}

func (f *fakeStore) ChangeSpace(ctx context.Context, _ string, _ int64) (was, is model.Space, err error) {
	return space, space, f.call(ctx)
}

// fakeReplica notes the reloads; each ends with err, or with its context.
type fakeReplica struct {
	err     error
	hangs   bool
	reloads int
}

func (f *fakeReplica) Reload(ctx context.Context) error {
	f.reloads++
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func (f *fakeReplica) NextReload(at time.Time) time.Time { return at.Add(90 * time.Second) }

// fakeTags is a fakeReplica that is told the tag.
type fakeTags struct{ *fakeReplica }

func (f fakeTags) Reload(ctx context.Context, name string) error {
	if name != tag.Name {
		return model.ErrUnknownTag
	}
	return f.fakeReplica.Reload(ctx)
}

type rig struct {
	*Service
	store          *fakeStore
	queue, segment *fakeReplica
	log            *bytes.Buffer
}

func newRig(err error) rig {
	r := rig{store: &fakeStore{err: err}, queue: &fakeReplica{}, segment: &fakeReplica{}, log: &bytes.Buffer{}}
	r.Service = New(Options{
		Store: r.store, Queue: r.queue, Segment: fakeTags{r.segment}, Now: func() time.Time { return now },
		Log: slog.New(slog.NewJSONHandler(r.log, nil)), ListRate: 1000, TagRate: 2000, OwnName: "shardid",
	})
	return r
}

func (r rig) of(one string) Resource {
	for _, resource := range r.Resources() {
		if resource.One == one {
			return resource
		}
	}
	panic(one)
}

const takenOver = "here now, on every replica by 2026-11-20T16:01:35Z"

// changes is everything that changes something, on which target, with what was asked, and how that is told: what was
// there, what is there, and from when on that counts.
var changes = map[string]struct {
	key    string
	given  Given
	before string
	after  string
	counts string
}{
	"app.create": {"7", Given{"id": int64(7), "name": "new", "fresh": "new"}, "", "new 5000", atOnce},
	"app.change": {"7", Given{"step": int64(5)}, "old 1000", "new 5000", takenOver},
	"app.delete": {"7", nil, "old 1000", "", takenOver},
	"tag.create": {"a/b", Given{"tag": "a/b", "step": int64(5)}, "", "a/b 2000", atOnce},
	"tag.change": {"a/b", Given{"step": int64(5)}, "a/b 2000", "a/b 2000", takenOver},
	"tag.delete": {"a/b", nil, "a/b 2000", "", takenOver},

	"name.create": {"orders", Given{"name": "orders", "hold": "60s"}, "", "orders 60s", atOnce},
	"name.change": {"orders", Given{"hold": "1h"}, "orders 60s", "orders 3600s",
		"for leases that are granted or renewed from 2026-11-20T16:01:00Z on"},
	"name.delete": {"orders", nil, "orders 60s", "", atOnce},

	"space.create": {"chat", Given{"space": "chat"}, "", "chat 1000", withBeat},
	"space.change": {"chat", Given{"step": int64(5)}, "chat 1000", "chat 1000", withBeat},
	"space.delete": {"chat", nil, "chat 1000", "", withBeat},

	"worker.free": {"ID 5", nil, "10.0.0.7:80 5", "", ""},
}

func (r rig) does(ctx context.Context, action string) (effective string, err error) {
	c := changes[action]
	one, verb, _ := strings.Cut(action, ".")
	switch verb {
	case "create":
		_, effective, err = r.of(one).Add(ctx, actor, c.given)
	case "change":
		_, effective, err = r.of(one).Change(ctx, actor, c.key, c.given, "")
	case "delete":
		_, effective, err = r.of(one).Delete(ctx, actor, c.key, c.key)
	case "free":
		err = r.Do(ctx, actor, action, "worker ID 5", func(ctx context.Context) (before, after any, err error) {
			return map[string]any{"address": "10.0.0.7:80", "reservedUntil": 5}, nil, r.store.call(ctx)
		})
	}
	return effective, err
}

// line is what the log has of one call.
type line struct {
	Level, Msg, Who, Action, Target, Remote, Outcome, Error string
	RequestID                                               string `json:"request_id"`
	Asked, Before, After                                    map[string]any
}

func (r rig) line(t *testing.T) (l line) {
	t.Helper()
	if err := json.Unmarshal(r.log.Bytes(), &l); err != nil || strings.Count(r.log.String(), "\n") != 1 {
		t.Fatalf("%v: %s", err, r.log)
	}
	return l
}

// told is a thing in a line: what it is called, and what can be changed of it.
func told(thing map[string]any) string {
	if thing == nil {
		return ""
	}
	var parts []string
	for _, field := range []string{"name", "tag", "space", "address", "step", "hold", "reservedUntil"} {
		if v, has := thing[field]; has {
			parts = append(parts, fmt.Sprint(v))
		}
	}
	return strings.Join(parts, " ")
}

// Each call leaves one line that says who did what to what, what was asked, and what it was.
func TestAuditDone(t *testing.T) {
	for action, c := range changes {
		t.Run(action, func(t *testing.T) {
			r := newRig(nil)
			effective, err := r.does(t.Context(), action)
			check.Must(t, err)
			check.Equal(t, effective, c.counts)
			l := r.line(t)
			one, _, _ := strings.Cut(action, ".")
			asked, _ := json.Marshal(l.Asked)
			given, _ := json.Marshal(c.given)
			l.Asked = nil
			check.Equal(t, string(asked), string(given), "asked")
			check.Equal(t, fmt.Sprint(told(l.Before), "; ", told(l.After)), c.before+"; "+c.after, "before and after")
			l.Before, l.After = nil, nil
			check.Equal(t, fmt.Sprint(l), fmt.Sprint(line{
				Level: "INFO", Msg: "audit", Who: "boss-token", Action: action, Target: one + " " + c.key,
				Remote: "10.0.0.1:9", RequestID: "r-1", Outcome: "done",
			}))
		})
	}
}

// A refusal leaves a line too, with what was asked for, and reloads nothing; so does a
// failure, of which nobody knows.
func TestAuditNotDone(t *testing.T) {
	for err, outcome := range map[error]string{
		model.ErrRefused: "refused", model.ErrInvalidArgument: "refused", model.ErrUnknownApp: "refused", model.ErrUnknownTag: "refused",
		model.ErrAppExists: "refused", model.ErrTagExists: "refused",
		model.ErrUnknownName: "refused", model.ErrNameExists: "refused",
		model.ErrUnknownSpace: "refused", model.ErrSpaceExists: "refused", context.DeadlineExceeded: "failed",
		&model.StoreError{Store: "database", Op: "x", Err: errors.New("connection broke")}: "failed",
	} {
		for action, c := range changes {
			r := newRig(err)
			if _, got := r.does(t.Context(), action); !errors.Is(got, err) {
				t.Errorf("%s: %v, want %v", action, got, err)
			}
			l := r.line(t)
			if l.Outcome != outcome || l.Error == "" || l.Action != action || l.Before != nil || l.After != nil ||
				len(l.Asked) != len(c.given) {
				t.Errorf("%s: %s", action, r.log)
			}
			check.Equal(t, r.queue.reloads+r.segment.reloads, 0, action, "reloads")
		}
	}
}

// This replica takes a change of an app or a tag over, and says if it cannot; without the mode nothing is known of a
// reload.
func TestTakeOver(t *testing.T) {
	for action := range changes {
		r := newRig(nil)
		_, err := r.does(t.Context(), action)
		check.Must(t, err)
		app, tag := strings.HasPrefix(action, "app"), strings.HasPrefix(action, "tag")
		check.Equal(t, [2]bool{r.queue.reloads == 1, r.segment.reloads == 1}, [2]bool{app, tag}, action)
	}
	r := newRig(nil)
	r.queue.err = model.ErrNotReady
	effective, err := r.does(t.Context(), "app.change")
	check.OK(t, err)
	check.Equal(t, effective, "on every replica, this one included, by 2026-11-20T16:01:35Z")
	none := rig{Service: New(Options{Store: r.store, Log: slog.New(slog.DiscardHandler)})}
	for _, action := range []string{"app.delete", "tag.change"} {
		effective, err = none.does(t.Context(), action)
		check.OK(t, err)
		check.Equal(t, effective, "on every replica with its next reload", action)
	}
}

// A client that goes away ends neither the change nor the reload, which are bounded by
// themselves.
func TestChangeOutlivesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := newRig(nil)
		r.queue.hangs = true
		effective, err := r.does(ctx, "app.change")
		if err != nil || strings.HasPrefix(effective, "here now") || r.store.ended != nil || !r.store.deadline {
			t.Errorf("%s, %v, the store saw %v, bounded %t", effective, err, r.store.ended, r.store.deadline)
		}
	})
}

// Nothing to change is no change, the name of what is deleted must be given again, and what cannot be a key names
// nothing. The replicas' own name is no other's.
func TestNothingReachesTheStore(t *testing.T) {
	r := newRig(nil)
	for one, key := range map[string]string{"app": "256", "tag": "", "name": "a b", "space": ".."} {
		_, err := r.of(one).Show(t.Context(), key)
		_, _, noChange := r.of(one).Change(t.Context(), actor, changes[one+".change"].key, Given{}, "old")
		_, _, other := r.of(one).Delete(t.Context(), actor, key, key)
		for _, err := range []error{err, noChange, other} {
			if !errors.Is(err, model.ErrInvalidArgument) {
				t.Errorf("%s: %v", one, err)
			}
		}
	}
	for _, one := range []string{"tag", "name", "space"} { // an app's name is compared in the store
		_, _, err := r.of(one).Delete(t.Context(), actor, changes[one+".delete"].key, "Orders")
		if !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("%s: %v", one, err)
		}
	}
	_, _, err := r.of("name").Add(t.Context(), actor, Given{"name": "shardid"})
	if !errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), "the replicas: choose another name") {
		t.Error(err)
	}
	if r.store.calls != 0 || !strings.Contains(r.log.String(), `"outcome":"refused"`) {
		t.Errorf("%d calls, log %s", r.store.calls, r.log)
	}
}

// A rate of an app or a tag only lowers the configured one. The refusal names the key to
// raise, reaches no store and leaves a line.
func TestRateOnlyLowers(t *testing.T) {
	keys := [2]string{"queue.max_list_rate", "segment.max_rate"}
	for rate, refused := range map[int64][2]bool{0: {}, 1000: {}, 1001: {true}, 2000: {true}, 2001: {true, true}} {
		for i, action := range []string{"app.change", "tag.change"} {
			r := newRig(nil)
			one, _, _ := strings.Cut(action, ".")
			_, _, err := r.of(one).Change(t.Context(), actor, changes[action].key, Given{"maxRate": rate}, "")
			if errors.Is(err, model.ErrInvalidArgument) != refused[i] || (r.store.calls == 0) != refused[i] ||
				refused[i] && r.line(t).Outcome != "refused" {
				t.Errorf("%s to %d: %v", one, rate, err)
			}
			if refused[i] && !strings.Contains(err.Error(), "raise "+keys[i]+" on all replicas") {
				t.Error(err)
			}
		}
	}
}
