//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"testing"

	"gorm.io/gorm"

	"shardid/model"
)

// A row that is not as it was read, whatever the reason, undoes everything.
func TestChangedRowIsNotWritten(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		run(t, s, "UPDATE id_alloc SET max_id = 10 WHERE shard_id = 1")
		var changes []change
		for shard := range uint8(3) {
			next := model.AllocState{Counter: model.Counter{Last: 100}, Key: key(1, shard), CurrentStep: 100}
			changes = append(changes, change{key: next.Key, old: 0, next: next})
		}
		err := s.inTx(context.Background(), func(tx *gorm.DB) error { return storeChanges(tx, changes) })
		if !errors.Is(err, errRowChanged) {
			t.Error(err)
		}
		wantAdvice(t, s.explain("allocate", err), "engine is not InnoDB")
		if n := count(t, s, "SELECT SUM(max_id) FROM id_alloc"); n != 10 {
			t.Errorf("stored %d", n)
		}
	})
}

// A table that cannot lock rows hands out nothing twice either.
func TestMyISAMRepeatsNothing(t *testing.T) {
	opts := backends()[0].empty(t)
	stores := []*Store{openMigrated(t, opts), open(t, opts)}
	provision(t, stores[0], app(1))
	run(t, stores[0], "ALTER TABLE id_alloc ENGINE = MyISAM")
	wantAdvice(t, stores[0].Check(context.Background()), "shardid migrate")
	got := make(chan model.Allocation, 400)
	for i := range cap(got) {
		go func() { got <- one(stores[i%2], key(1, 0), 0) }()
	}
	seen := map[model.Segment]bool{}
	for range cap(got) {
		a := <-got
		if a.Err == nil && seen[a.Segment] {
			t.Fatalf("segment %+v twice", a.Segment)
		}
		seen[a.Segment] = a.Err == nil
	}
}

// SQLite keeps a transaction open whose COMMIT failed. Its connection must not
// be used again.
func TestSQLiteFailedCommit(t *testing.T) {
	s := openMigrated(t, backends()[1].empty(t))
	provision(t, s, app(1))
	run(t, s, "PRAGMA foreign_keys = 1", "CREATE TABLE p (id INTEGER PRIMARY KEY)",
		"CREATE TABLE c (p INTEGER REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TRIGGER fail AFTER UPDATE ON id_alloc BEGIN INSERT INTO c VALUES (1); END")
	for i, got := range s.Allocate(context.Background(), ask(key(1, 0), key(1, 1))) {
		if got.Err == nil || got.Segment != (model.Segment{}) {
			t.Errorf("answer %d: %+v", i, got)
		}
	}
	wantSegment(t, one(s, key(1, 0), 0), 1, 1000) // on a new connection, without the pragma
}
