package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/scripts/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	now   = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	actor = Actor{Name: "boss-token", Remote: "10.0.0.1:9", RequestID: "r-1"}
)

// newStore is an embedded database.
func newStore(t *testing.T) *sqlstore.Store {
	t.Helper()
	o := sqlstore.Options{Driver: sqlstore.SQLite, DSN: filepath.Join(t.TempDir(), "a.db")}
	db, err := sqlstore.Open(t.Context(), o)
	check.Must(t, err)
	t.Cleanup(func() { check.OK(t, db.Close()) })
	check.Must(t, db.Migrate(t.Context(), nil))
	return db
}

// appStore has an app, and no more may be asked of it than to change that.
type appStore struct {
	Store
	ended     error // of the change's context
	isBounded bool  // likewise
}

func (s *appStore) ChangeApp(ctx context.Context, _ uint8, _ model.AppChange) (was, is model.AppSummary, err error) {
	s.ended = ctx.Err()
	_, s.isBounded = ctx.Deadline()
	return was, is, nil
}

// fakeReplica notes the reloads; each ends with err, or with its context.
type fakeReplica struct {
	err     error
	hangs   bool
	reloads int
	key     string // of the last
}

func (f *fakeReplica) reload(ctx context.Context, key string) error {
	f.reloads, f.key = f.reloads+1, key
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func (f *fakeReplica) replica() Replica {
	return Replica{f.reload, func(at time.Time) time.Time { return at.Add(90 * time.Second) }}
}

type rig struct {
	*Service
	queue, segment *fakeReplica
	log            *bytes.Buffer
}

func newRig(store Store) rig {
	r := rig{queue: &fakeReplica{}, segment: &fakeReplica{}, log: &bytes.Buffer{}}
	r.Service = New(Options{
		Store: store, Queue: r.queue.replica(), Segment: r.segment.replica(), Now: func() time.Time { return now },
		Log: slog.New(slog.NewJSONHandler(r.log, nil)),
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
	var parts []string
	for _, field := range []string{"name", "tag", "space", "step", "hold"} {
		if v, has := thing[field]; has {
			parts = append(parts, fmt.Sprint(v))
		}
	}
	return strings.Join(parts, " ")
}

// Each call leaves one line that says who did what to what, what was asked, and what there was and is. This replica
// takes a change of an app or a tag over, and the answer says from when on it counts.
func TestAuditDone(t *testing.T) {
	const takenOver = "here now, on every replica by 2026-11-20T16:01:35Z"
	r := newRig(newStore(t))
	for _, c := range []struct {
		action, key   string
		given         Given
		before, after string
		counts        string // the beginning
	}{
		{"app.create", "7", Given{"id": int64(7), "name": "orders", "fresh": "orders"}, "", "orders 1000", atOnce},
		{"app.change", "7", Given{"step": int64(5)}, "orders 1000", "orders 5", takenOver},
		{"app.delete", "7", nil, "orders 5", "", takenOver},
		{"tag.create", "a/b", Given{"tag": "a/b", "step": int64(5)}, "", "a/b 5", atOnce},
		{"tag.change", "a/b", Given{"step": int64(7)}, "a/b 5", "a/b 7", takenOver},
		{"tag.delete", "a/b", nil, "a/b 7", "", takenOver},
		{"name.create", "orders", Given{"name": "orders", "hold": "60s"}, "", "orders 60s", atOnce},
		{"name.change", "orders", Given{"hold": "1h"}, "orders 60s", "orders 3600s",
			"for leases that are granted or renewed from 20"},
		{"name.delete", "orders", nil, "orders 3600s", "", atOnce},
		{"space.create", "chat", Given{"space": "chat"}, "", "chat 10000", withBeat},
		{"space.change", "chat", Given{"step": int64(5)}, "chat 10000", "chat 5", withBeat},
		{"space.delete", "chat", nil, "chat 5", "", withBeat},
	} {
		r.log.Reset()
		r.queue.reloads, r.segment.reloads = 0, 0
		one, verb, _ := strings.Cut(c.action, ".")
		var effective string
		var err error
		switch verb {
		case "create":
			_, effective, err = r.of(one).Add(t.Context(), actor, c.given)
		case "change":
			_, effective, err = r.of(one).Change(t.Context(), actor, c.key, c.given, "")
		case "delete":
			confirm := map[string]string{"app": "orders"}[one]
			if confirm == "" {
				confirm = c.key
			}
			_, effective, err = r.of(one).Delete(t.Context(), actor, c.key, confirm)
		}
		check.Must(t, err)
		check.Equal(t, strings.HasPrefix(effective, c.counts), true, c.action, effective)
		check.Equal(t, r.queue.reloads == 1, one == "app", c.action)
		check.Equal(t, r.segment.reloads == 1 && r.segment.key == c.key, one == "tag", c.action)
		l := r.line(t)
		asked, _ := json.Marshal(l.Asked)
		given, _ := json.Marshal(c.given)
		check.Equal(t, string(asked), string(given), c.action, "asked")
		check.Equal(t, fmt.Sprint(told(l.Before), "; ", told(l.After)), c.before+"; "+c.after, c.action)
		l.Asked, l.Before, l.After = nil, nil, nil
		check.Equal(t, fmt.Sprint(l), fmt.Sprint(line{
			Level: "INFO", Msg: "audit", Who: "boss-token", Action: c.action, Target: one + " " + c.key,
			Remote: "10.0.0.1:9", RequestID: "r-1", Outcome: "done",
		}))
	}
}

// A refusal leaves a line too, with what was asked for, and reloads nothing; so does a
// failure, of which nobody knows.
func TestAuditNotDone(t *testing.T) {
	for err, outcome := range map[error]string{
		model.ErrRefused: "refused", model.ErrInvalidArgument: "refused", model.ErrUnknownApp: "refused",
		context.DeadlineExceeded: "failed",
		&model.StoreError{Store: "database", Op: "x", Err: errors.New("connection broke")}: "failed",
	} {
		r := newRig(&appStore{})
		check.Is(t, check.Err(r.Do(t.Context(), actor, "confirm", "app 7", nil, func(context.Context) (Done, error) {
			return Done{Before: "was", After: "is"}, err
		})), err)
		l := r.line(t)
		if l.Outcome != outcome || l.Error == "" || l.Action != "confirm" || l.Before != nil || l.After != nil {
			t.Errorf("%v: %s", err, r.log)
		}
	}
	r := newRig(newStore(t))
	_, _, err := r.of("tag").Change(t.Context(), actor, "a/b", Given{"step": int64(5)}, "")
	check.Is(t, err, model.ErrUnknownTag)
	check.Equal(t, len(r.line(t).Asked), 1)
	check.Equal(t, r.segment.reloads, 0)
}

// A replica that cannot take a change over now says when it will; without the mode nothing is known of a reload.
func TestTakeOverLater(t *testing.T) {
	r := newRig(&appStore{})
	r.queue.err = model.ErrNotReady
	none := rig{Service: New(Options{Store: &appStore{}, Log: slog.New(slog.DiscardHandler)})}
	for want, r := range map[string]rig{
		"on every replica, this one included, by 2026-11-20T16:01:35Z": r,
		"on every replica with its next reload":                        none,
	} {
		_, effective, err := r.of("app").Change(t.Context(), actor, "7", Given{"step": int64(5)}, "")
		check.OK(t, err)
		check.Equal(t, effective, want)
	}
}

// A name has the worker IDs of its region.
func TestNameOfARegion(t *testing.T) {
	s := New(Options{Store: newStore(t), Log: slog.New(slog.DiscardHandler), Region: model.Region{ID: 1, Bits: 2}})
	made, _, err := s.Names().Add(t.Context(), actor, Given{"name": "orders"})
	check.Must(t, err)
	check.Equal(t, made.(NameItem).Workers, 256)
}

// A client that goes away ends neither the change nor the reload, which are bounded by
// themselves.
func TestChangeOutlivesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		store := &appStore{}
		r := newRig(store)
		r.queue.hangs = true
		_, effective, err := r.of("app").Change(ctx, actor, "7", Given{"step": int64(5)}, "")
		if err != nil || strings.HasPrefix(effective, "here now") || store.ended != nil || !store.isBounded {
			t.Errorf("%s, %v, the store saw %v, bounded %t", effective, err, store.ended, store.isBounded)
		}
	})
}
