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
)

// A server knows what it may wait for in a session of ours.
func TestSessionTimeouts(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	want := map[string]string{"wait_timeout": idleWait, "innodb_lock_wait_timeout": lockWait}
	var version string
	if err := s.pool.QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
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
			if _, err := s.CreateTag(t.Context(), model.Tag{Name: "orders", MaxID: 1, Step: 1000}); err != nil {
				t.Fatal(err)
			}
			wakes, holds := make(chan struct{}), make(chan error)
			ended := make(chan error)
			go func() {
				ended <- silent.inTx(context.Background(), func(tx *gorm.DB) error {
					holds <- c.lock(silent, tx)
					<-wakes
					return nil
				})
			}()
			if err := <-holds; err != nil {
				t.Fatal(err)
			}
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
	if open := s.pool.Stats().OpenConnections; open != 0 {
		t.Errorf("%d connections are kept", open)
	}
	wantSegment(t, one(s, key(1, 0), 0), 1001, 2000)
}
