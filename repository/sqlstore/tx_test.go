//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/scripts/check"
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
		check.Is(t, err, errRowChanged)
		wantAdvice(t, s.explain("allocate", err), "engine is not InnoDB")
		check.Equal(t, count(t, s, "SELECT SUM(max_id) FROM id_alloc"), 10, "stored")
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

// A server knows what it may wait for in a session of ours.
func TestSessionTimeouts(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	want := map[string]string{"wait_timeout": idleWait, "innodb_lock_wait_timeout": lockWait}
	var version string
	check.Must(t, s.pool.QueryRow("SELECT VERSION()").Scan(&version))
	if strings.Contains(version, "MariaDB") {
		want["idle_transaction_timeout"] = idleWait
	}
	for name, seconds := range want {
		var got string
		if err := s.pool.QueryRow("SELECT @@session." + name).Scan(&got); err != nil || got != seconds {
			t.Errorf("%s: %s, %v, want %s", name, got, err, seconds)
		}
	}
}

// A host that falls silent between its lock and its COMMIT stops no other for more
// than 10 s, and nothing that it did is stored.
func TestSilentOwner(t *testing.T) {
	for name, c := range map[string]struct {
		lock  func(s *Store, tx *gorm.DB) error
		other func(ctx context.Context, s *Store) error
	}{
		"list": {
			func(_ *Store, tx *gorm.DB) error {
				return tx.Exec("UPDATE id_alloc SET max_id = max_id + 1000 WHERE app_id = 1").Error
			},
			func(ctx context.Context, s *Store) error {
				got := s.Allocate(ctx, ask(key(1, 0)))[0]
				if got.Err == nil && got.Segment.First != 1 {
					return errors.New("the silent owner's segment was stored")
				}
				return got.Err
			},
		},
		"tag": {
			func(s *Store, tx *gorm.DB) error { _, _, err := s.lockTag(tx, "orders"); return err },
			func(ctx context.Context, s *Store) error {
				_, err := s.AllocateTag(ctx, model.TagRequest{Tag: "orders"})
				return err
			},
		},
		"worker nodes": {
			func(s *Store, tx *gorm.DB) error { _, err := s.lockNamed(tx, nodeTable); return err },
			func(ctx context.Context, s *Store) error {
				_, err := s.RegisterNode(ctx, nodeStart("new", 100, time.Now().Unix()))
				return err
			},
		},
		"migration": {
			func(_ *Store, tx *gorm.DB) error {
				return tx.Exec("UPDATE shardid_schema_lock SET locked = false").Error
			},
			func(ctx context.Context, s *Store) error { return s.Migrate(context.Background(), nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := backends()[0].empty(t)
			silent, s := openMigrated(t, opts), open(t, opts)
			provision(t, s, app(1))
			check.Must(t, check.Err(s.CreateTag(t.Context(), model.Tag{Name: "orders", MaxID: 1, Step: 1000})))
			wakes, holds := make(chan struct{}), make(chan error)
			ended := make(chan error)
			go func() {
				ended <- silent.inTx(context.Background(), func(tx *gorm.DB) error {
					holds <- c.lock(silent, tx)
					<-wakes
					return nil
				})
			}()
			check.Must(t, <-holds)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			begun := time.Now()
			err := c.other(ctx, s)
			took := time.Since(begun)
			close(wakes)
			if err != nil || took < time.Second || took > 10*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
			if err := <-ended; !isBroken(err) {
				t.Errorf("the silent owner's COMMIT: %v", err)
			}
		})
	}
}

// What the pool keeps is never what the server has ended: after a rest, however
// long, the first call succeeds.
func TestRestedPool(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	provision(t, s, app(1))
	wantSegment(t, one(s, key(1, 0), 0), 1, 1000)
	time.Sleep(poolIdle + 1500*time.Millisecond)
	check.Equal(t, s.pool.Stats().OpenConnections, 0, "connections are kept")
	wantSegment(t, one(s, key(1, 0), 0), 1001, 2000)
}
