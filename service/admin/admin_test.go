package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	now    = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	before = model.AppSummary{App: model.App{ID: 7, Name: "old", Step: 1000, Limit: model.Limit{Policy: model.LimitReject}}, Shards: 64, HighestIndex: 9}
	after  = model.AppSummary{App: model.App{ID: 7, Name: "new", Step: 5000, Limit: model.Limit{Policy: model.LimitReject}, Fresh: "new"}, Shards: 64, HighestIndex: 9}
	tag    = model.Tag{Name: "a/b", MaxID: 2001, Step: 2000, Description: "d", Fresh: "a/b"}
	name   = model.Name{Name: "orders", EpochMs: 9, WorkerBits: 10, SeqBits: 12, Hold: time.Minute}
	actor  = Actor{Name: "boss-token", Remote: "10.0.0.1:9", RequestID: "r-1"}
)

// fakeStore answers with fixed values or err, and notes the state of the context.
type fakeStore struct {
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

func (f *fakeStore) Apps(context.Context) ([]model.AppSummary, error) {
	return []model.AppSummary{before}, f.err
}
func (f *fakeStore) App(context.Context, uint8) (model.AppSummary, error) { return before, f.err }
func (f *fakeStore) Tags(context.Context) ([]model.Tag, error)            { return []model.Tag{tag}, f.err }
func (f *fakeStore) Tag(context.Context, string) (model.Tag, error)       { return tag, f.err }
func (f *fakeStore) CreateTag(ctx context.Context, _ model.Tag) (model.Tag, error) {
	return tag, f.call(ctx)
}
func (f *fakeStore) DeleteTag(ctx context.Context, _ string) (model.Tag, error) {
	return tag, f.call(ctx)
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

func (f *fakeStore) ChangeTag(ctx context.Context, _ string, _ model.TagChange) (was, is model.Tag, err error) {
	return tag, tag, f.call(ctx)
}

func (f *fakeStore) Names(context.Context) ([]model.NameUse, error) { return nil, f.err }
func (f *fakeStore) Name(context.Context, string) (model.NameUse, error) {
	return model.NameUse{}, f.err
}
func (f *fakeStore) Holders(context.Context, string, int) ([]model.NameHolder, error) {
	return nil, f.err
}

func (f *fakeStore) CreateName(ctx context.Context, _ model.Name) (model.Name, error) {
	return name, f.call(ctx)
}

func (f *fakeStore) ChangeName(ctx context.Context, _ string, hold time.Duration) (was model.Name, is model.NameUse, err error) {
	is.Name = name
	is.Hold = hold
	return name, is, f.call(ctx)
}

func (f *fakeStore) DeleteName(ctx context.Context, _ string) (model.Name, error) {
	return name, f.call(ctx)
}

func (f *fakeStore) Free(ctx context.Context, id int, address string) (model.WorkerEntry, error) {
	return model.WorkerEntry{WorkerID: id, Address: address, Reserved: 5}, f.call(ctx)
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

// fakeTags is a fakeReplica that is told the tag.
type fakeTags struct{ *fakeReplica }

func (f fakeTags) Reload(ctx context.Context, name string) error {
	if name != tag.Name {
		return model.ErrUnknownTag
	}
	return f.fakeReplica.Reload(ctx)
}

func (f *fakeReplica) NextReload(at time.Time) time.Time { return at.Add(90 * time.Second) }

type rig struct {
	*Service
	store          *fakeStore
	queue, segment *fakeReplica
	log            *bytes.Buffer
}

func newRig(err error) rig {
	r := rig{store: &fakeStore{err: err}, queue: &fakeReplica{}, segment: &fakeReplica{}, log: &bytes.Buffer{}}
	r.Service = New(Options{
		Store: r.store, Workers: r.store, Queue: r.queue, Segment: fakeTags{r.segment}, Now: func() time.Time { return now },
		Log: slog.New(slog.NewJSONHandler(r.log, nil)), ListRate: 1000, TagRate: 2000, OwnName: "shardid",
	})
	return r
}

// calls are everything that changes something.
func calls() map[string]func(context.Context, rig) (Effect, error) {
	step := int64(5)
	return map[string]func(context.Context, rig) (Effect, error){
		"app.create": func(ctx context.Context, r rig) (Effect, error) {
			return effect(r.CreateApp(ctx, actor, after.App))
		},
		"app.change": func(ctx context.Context, r rig) (Effect, error) {
			return effect(r.ChangeApp(ctx, actor, 7, model.AppChange{Step: &step}))
		},
		"app.delete": func(ctx context.Context, r rig) (Effect, error) {
			return effect(r.DeleteApp(ctx, actor, 7, "old"))
		},
		"tag.create": func(ctx context.Context, r rig) (Effect, error) {
			return effect(r.CreateTag(ctx, actor, tag))
		},
		"tag.change": func(ctx context.Context, r rig) (Effect, error) {
			return effect(r.ChangeTag(ctx, actor, "a/b", model.TagChange{Step: &step}))
		},
		"tag.delete": func(ctx context.Context, r rig) (Effect, error) {
			return effect(r.DeleteTag(ctx, actor, "a/b", "a/b"))
		},
		"name.create": func(ctx context.Context, r rig) (Effect, error) {
			return Effect{}, check.Err(r.CreateName(ctx, actor, name))
		},
		"name.change": func(ctx context.Context, r rig) (Effect, error) {
			return Effect{}, check.Err(r.ChangeName(ctx, actor, "orders", time.Hour))
		},
		"name.delete": func(ctx context.Context, r rig) (Effect, error) {
			return Effect{}, check.Err(r.DeleteName(ctx, actor, "orders", "orders"))
		},
		"space.create": func(ctx context.Context, r rig) (Effect, error) {
			return Effect{}, check.Err(r.CreateSpace(ctx, actor, space))
		},
		"space.change": func(ctx context.Context, r rig) (Effect, error) {
			return Effect{}, check.Err(r.ChangeSpace(ctx, actor, "chat", step))
		},
		"space.delete": func(ctx context.Context, r rig) (Effect, error) {
			return Effect{}, check.Err(r.DeleteSpace(ctx, actor, "chat", "chat"))
		},
		"worker.free": func(ctx context.Context, r rig) (Effect, error) {
			return Effect{}, check.Err(r.FreeWorker(ctx, actor, 5, "10.0.0.7:80"))
		},
	}
}

func effect[T any](_ T, e Effect, err error) (Effect, error) { return e, err }

const (
	oldJSON = `{"name":"old","description":"","step":1000,"max_limit_id":0,"limit_policy":"reject","scramble":false,"shards":64,"highest_index":9}`
	newJSON = `{"name":"new","description":"","step":5000,"max_limit_id":0,"limit_policy":"reject","scramble":false,"shards":64,"highest_index":9,"fresh":"new"}`
	tagJSON = `{"max_id":2001,"step":2000,"description":"d","fresh":"a/b"}`

	nameJSON    = `{"epoch_ms":9,"worker_bits":10,"seq_bits":12,"hold":"1m0s"}`
	longerJSON  = `{"epoch_ms":9,"worker_bits":10,"seq_bits":12,"hold":"1h0m0s"}`
	nameTarget  = `"target":"name orders",#`
	actionNames = "name." // begins actions on names
)

// Each call leaves one line that says who did what to what, and what it was.
func TestAuditDone(t *testing.T) {
	for action, want := range map[string]string{
		"app.create":   `"target":"app 7",#"after":` + newJSON,
		"app.change":   `"target":"app 7",#"before":` + oldJSON + `,"after":` + newJSON,
		"app.delete":   `"target":"app 7",#"before":` + oldJSON,
		"tag.create":   `"target":"tag a/b",#"after":` + tagJSON,
		"tag.change":   `"target":"tag a/b",#"before":` + tagJSON + `,"after":` + tagJSON,
		"tag.delete":   `"target":"tag a/b",#"before":` + tagJSON,
		"name.create":  nameTarget + `"after":` + nameJSON,
		"name.change":  nameTarget + `"before":` + nameJSON + `,"after":` + longerJSON,
		"name.delete":  nameTarget + `"before":` + nameJSON,
		"space.create": spaceTarget + `"after":` + spaceJSON,
		"space.change": spaceTarget + `"before":` + spaceJSON + `,"after":{"sections":64,"step":5}`,
		"space.delete": spaceTarget + `"before":` + spaceJSON,

		"worker.free": `"target":"worker ID 5",#"before":{"address":"10.0.0.7:80","reserved_until":5}`,
	} {
		r := newRig(nil)
		if _, err := calls()[action](t.Context(), r); err != nil {
			t.Errorf("%s: %v", action, err)
		}
		want = `"level":"INFO","msg":"audit","who":"boss-token","action":"` + action + `",` +
			strings.Replace(want, "#", `"remote":"10.0.0.1:9","request_id":"r-1",`, 1) + `,"outcome":"done"}` + "\n"
		if _, line, _ := strings.Cut(r.log.String(), ","); line != want {
			t.Errorf("got  %s\nwant %s", line, want)
		}
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
		for action, call := range calls() {
			r := newRig(err)
			if _, got := call(t.Context(), r); !errors.Is(got, err) {
				t.Errorf("%s: %v, want %v", action, got, err)
			}
			var line struct {
				Outcome, Error, Action, Who string
				Asked                       map[string]any
				Before, After               any
			}
			if broken := json.Unmarshal(r.log.Bytes(), &line); broken != nil || strings.Count(r.log.String(), "\n") != 1 {
				t.Fatalf("%s: %v: %s", action, broken, r.log)
			}
			asked := strings.HasSuffix(action, "create") || strings.HasSuffix(action, "change")
			what := "step"
			if strings.HasPrefix(action, actionNames) {
				what = "hold"
			}
			if line.Outcome != outcome || line.Error == "" || line.Action != action || line.Before != nil || line.After != nil || (line.Asked[what] != nil) != asked {
				t.Errorf("%s: %s", action, r.log)
			}
			if r.queue.reloads+r.segment.reloads != 0 {
				t.Errorf("%s: reloaded after %v", action, err)
			}
		}
	}
}

// From when on a change counts: here once this replica has reloaded, elsewhere with
// the next reload there; what is new is looked for.
func TestEffect(t *testing.T) {
	const by = "2026-11-20T16:01:35Z"
	for action, call := range calls() {
		if action == "worker.free" || strings.HasPrefix(action, actionNames) || strings.HasPrefix(action, actionSpaces) {
			continue // the database is asked each time
		}
		r := newRig(nil)
		got, err := call(t.Context(), r)
		want := "here now, on every replica by " + by
		if strings.HasSuffix(action, "create") {
			want = "now, on every replica"
		}
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", action, got, err)
		}
		if app := strings.HasPrefix(action, "app"); r.queue.reloads != btoi(app) || r.segment.reloads != btoi(!app) {
			t.Errorf("%s: %d reloads of the apps, %d of the tags", action, r.queue.reloads, r.segment.reloads)
		}
	}
	r := newRig(nil)
	r.queue.err = model.ErrNotReady
	if got, err := calls()["app.change"](t.Context(), r); err != nil || got.String() != "on every replica, this one included, by "+by {
		t.Errorf("a replica that could not reload: %s, %v", got, err)
	}
	none := New(Options{Store: r.store, Log: slog.New(slog.DiscardHandler)})
	if got, err := calls()["app.delete"](t.Context(), rig{Service: none}); err != nil || got.String() != "on every replica with its next reload" {
		t.Errorf("without a replica: %s, %v", got, err)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A client that goes away ends neither the change nor the reload, which are bounded by
// themselves.
func TestChangeOutlivesTheClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRig(nil)
	r.queue.hangs = true
	begun := time.Now()
	effect, err := calls()["app.change"](ctx, r)
	if err != nil || effect.Here || r.store.ended != nil || !r.store.deadline || time.Since(begun) > 2*reloadTimeout {
		t.Errorf("after %v: %+v, %v, the store saw %v, bounded %t", time.Since(begun), effect, err, r.store.ended, r.store.deadline)
	}
}

// Nothing to change is no change, and the name of a tag, of worker IDs or of a space must be given twice.
// The replicas' own name is no other's.
func TestNothingReachesTheStore(t *testing.T) {
	r := newRig(nil)
	_, _, noApp := r.ChangeApp(t.Context(), actor, 7, model.AppChange{Confirm: "old"})
	_, _, noTag := r.ChangeTag(t.Context(), actor, "a/b", model.TagChange{})
	_, _, other := r.DeleteTag(t.Context(), actor, "a/b", "a/c")
	_, otherName := r.DeleteName(t.Context(), actor, "orders", "Orders")
	_, otherSpace := r.DeleteSpace(t.Context(), actor, "chat", "Chat")
	for _, err := range []error{noApp, noTag, other, otherName, otherSpace} {
		if !errors.Is(err, model.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	own := name
	own.Name = "shardid"
	if err := check.Err(r.CreateName(t.Context(), actor, own)); !errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), "belong to the replicas: choose another name") {
		t.Error(err)
	}
	if r.store.calls != 0 || !strings.Contains(r.log.String(), `"outcome":"refused"`) {
		t.Errorf("%d calls, log %s", r.store.calls, r.log)
	}
}

// A rate of an app or a tag only lowers the configured one. The refusal names the key to
// raise, reaches no store and leaves a line.
func TestRateOnlyLowers(t *testing.T) {
	for rate, refused := range map[int64]bool{0: false, 1: false, 1000: false, 1001: true, 2000: true, 2001: true} {
		r := newRig(nil)
		_, _, err := r.ChangeApp(t.Context(), actor, 7, model.AppChange{MaxRate: &rate})
		_, _, tagErr := r.ChangeTag(t.Context(), actor, "a/b", model.TagChange{MaxRate: &rate})
		if errors.Is(err, model.ErrInvalidArgument) != refused || errors.Is(tagErr, model.ErrInvalidArgument) != (rate > 2000) {
			t.Errorf("%d: %v; %v", rate, err, tagErr)
		}
		if calls := 2 - strings.Count(r.log.String(), `"outcome":"refused"`); r.store.calls != calls {
			t.Errorf("%d: the store was called %d times, not %d", rate, r.store.calls, calls)
		}
		if refused && !strings.Contains(err.Error(), "raise queue.max_list_rate on all replicas, and it counts a minute after") {
			t.Error(err)
		}
	}
}
