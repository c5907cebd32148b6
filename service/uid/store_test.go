//go:build unix

package uid_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
	"shardid/service/uid"
)

// start runs a service with Baidu's defaults on a database until the test ends.
func start(t *testing.T, dsn, mode string) *uid.Service {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Driver: sqlstore.MySQL, DSN: dsn})
	check.Must(t, err)
	s, err := uid.New(uid.Options{
		Mode: mode, Place: uid.Place{Host: "127.0.0.1", Type: model.NodeActual}, Timeout: 2 * time.Second,
		Layout:     model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13, Epoch: time.Now().Add(-time.Hour).Truncate(time.Second)},
		BoostPower: 3, PaddingFactor: 50, RejectPut: uid.PutDiscard, RejectTake: uid.TakeWait,
		RecordLayout: func(context.Context) error { return nil },
		Nodes:        db, Reporter: &check.Reports{}, Log: slog.New(slog.DiscardHandler),
	})
	check.Must(t, err)
	s.Start()
	t.Cleanup(func() { check.OK(t, errors.Join(s.Stop(context.Background()), db.Close())) })
	return s
}

// issue takes IDs and wants none of them to have been seen before.
func issue(t *testing.T, s *uid.Service, n int, seen map[int64]bool) {
	t.Helper()
	ids, err := s.Next(t.Context(), n, nil)
	if err != nil || len(ids) != n {
		t.Fatalf("%d IDs, %v", len(ids), err)
	}
	for _, id := range ids {
		if id <= 0 || seen[id] {
			t.Fatalf("%d was issued twice, or is none", id)
		}
		seen[id] = true
	}
}

// With a real database that is away at the start, comes, goes and comes again: a
// service waits for it, goes on without it, and a later start gets another worker ID.
func TestRealDatabase(t *testing.T) {
	check.Deep(t)
	server := testserver.MariaDB(t)
	dsn := server.NewDatabase(t)
	migrate(t, dsn)
	server.Kill()
	seen := map[int64]bool{}
	first, second := start(t, dsn, uid.ModeCached), start(t, dsn, uid.ModeDefault)
	for _, s := range []*uid.Service{first, second} {
		if ids, err := s.Next(t.Context(), 1, nil); !errors.Is(err, model.ErrNotReady) || ids != nil {
			t.Fatalf("Next = %v, %v", ids, err)
		}
	}
	server.Restart()
	check.Eventually(t, "ready", first.Ready)
	check.Eventually(t, "ready", second.Ready)
	server.Kill()
	issue(t, first, 10_000, seen)
	issue(t, second, 1_000, seen)
	third := start(t, dsn, uid.ModeCached)
	server.Restart()
	check.Eventually(t, "the third issues", func() error { // it asks for a worker ID with its first call
		ids, err := third.Next(t.Context(), 1, nil)
		for _, id := range ids {
			seen[id] = true
		}
		return err
	})
	issue(t, third, 10_000, seen)
	issue(t, first, 10_000, seen)
	workers := map[int64]bool{}
	for _, s := range []*uid.Service{first, second, third} {
		workers[s.Status().WorkerID] = true
	}
	check.Equal(t, len(workers), 3, "worker IDs", workers)
}

func migrate(t *testing.T, dsn string) {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Driver: sqlstore.MySQL, DSN: dsn})
	check.Must(t, err)
	check.Must(t, errors.Join(db.Migrate(t.Context(), func(string) {}), db.Close()))
}
