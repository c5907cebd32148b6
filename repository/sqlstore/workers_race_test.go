//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// 1024 instances start at once: all get a worker ID, and one more does not.
func TestWorkersAllAtOnce(t *testing.T) {
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	start := time.Now()
	distinct(t, raceWorkers(t, opts, 1024, 0))
	took := time.Since(start)
	t.Logf("1024 first starts took %v", took)
	if took > claimGrace*time.Millisecond {
		return // the first ones have run out, as nobody renewed them
	}
	if _, err := s.Workers(WorkersOptions{}).Acquire(t.Context(), workertest.Owner(5000)); !errors.Is(err, model.ErrNoWorkerID) {
		t.Error(err)
	}
}

// raceWorkers has n owners get worker IDs at once, over 64 connections: with more
// of them opened at once the listen queue of the server would overflow.
func raceWorkers(t *testing.T, opts Options, n, firstOwner int) []model.Lease {
	t.Helper()
	opts.MaxOpenConns = 1
	leases := make([]model.Lease, n)
	var wg sync.WaitGroup
	for p := range min(n, 64) {
		w := open(t, opts).Workers(WorkersOptions{})
		for i := p; i < n; i += 64 {
			wg.Go(func() {
				var err error
				if leases[i], err = w.Acquire(context.Background(), workertest.Owner(firstOwner+i)); err != nil {
					t.Errorf("owner %d: %v", i, err)
				}
			})
		}
	}
	wg.Wait()
	return leases
}

func distinct(t *testing.T, leases []model.Lease) {
	t.Helper()
	holder := map[int]string{}
	for _, l := range leases {
		if other, taken := holder[l.WorkerID]; taken {
			t.Errorf("%s and %s have worker ID %d", other, l.Owner.Address, l.WorkerID)
		}
		holder[l.WorkerID] = l.Owner.Address
	}
	for id := range leases { // the smallest: 1…n, 1024 being 0
		if holder[(id+1)%model.SnowflakeWorkers] == "" {
			t.Errorf("worker ID %d was left out", (id+1)%model.SnowflakeWorkers)
		}
	}
}

// Leases that have run out are recycled by many at once, while others renew; and
// where the server refuses locking reads of changed rows.
func TestWorkersRecycleAtOnce(t *testing.T) {
	for _, dsn := range []string{"", "&innodb_snapshot_isolation=1"} {
		t.Run("with"+dsn, func(t *testing.T) {
			if dsn != "" && testserver.OnMySQL() {
				t.Skip("MySQL does not have it")
			}
			// A race says something only while the first leases of it have not run out.
			var took time.Duration
			for range 3 {
				if took = recycleAtOnce(t, dsn); took < claimGrace*time.Millisecond {
					return
				}
			}
			t.Errorf("three races took longer than %d ms, the last %v", claimGrace, took)
		})
	}
}

func recycleAtOnce(t *testing.T, dsn string) (took time.Duration) {
	t.Helper()
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	opts.DSN += dsn
	now := time.Now().UnixMilli()
	fillWorkers(t, s, func(id int64) int64 { return now - 3_600_000 + id })
	run(t, s, "DELETE FROM leaf_workerid_alloc WHERE id > 1000")
	w := open(t, opts).Workers(WorkersOptions{})
	var live []model.Lease
	for i := range 24 {
		live = append(live, renewed(t, w, workertest.Owner(i), 1000, 3_600_000))
	}
	ctx, stop := context.WithCancel(t.Context())
	var renewals atomic.Int64
	var wg sync.WaitGroup
	for _, lease := range live[:4] {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := w.Renew(t.Context(), lease); err != nil {
					t.Errorf("renew: %v", err)
					return
				}
				renewals.Add(1)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	start := time.Now()
	got := raceWorkers(t, opts, 48, 100)
	took = time.Since(start)
	stop()
	wg.Wait()
	if took >= claimGrace*time.Millisecond {
		return took
	}
	seen := map[int]bool{}
	for _, l := range append(got, live...) {
		if seen[l.WorkerID] {
			t.Errorf("worker ID %d twice", l.WorkerID)
		}
		seen[l.WorkerID] = true
	}
	for _, l := range got {
		if want := now - 3_600_000 + int64(l.WorkerID); l.After != want {
			t.Errorf("worker ID %d after %d, want %d", l.WorkerID, l.After, want)
		}
	}
	t.Logf("%d renewals meanwhile", renewals.Load())
	return took
}

// The Java program inserts rows by auto-increment and waits for no lock of ours.
func TestWorkersBesideTheOriginal(t *testing.T) {
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 40 {
			_, err := s.pool.Exec("INSERT INTO leaf_workerid_alloc (ip_port, ip, port, max_timestamp, create_time, update_time) VALUES (?, '1.1.1.1', '1', ?, NOW(), NOW())",
				fmt.Sprintf("1.1.1.1:%d", i), time.Now().UnixMilli())
			var server *gosql.MySQLError
			if errors.As(err, &server) && server.Number == 1062 {
				continue // it would try again
			}
			check.OK(t, err)
		}
	})
	leases := raceWorkers(t, opts, 40, 0)
	wg.Wait()
	for _, l := range leases {
		if n := count(t, s, fmt.Sprintf("SELECT COUNT(*) FROM leaf_workerid_alloc WHERE id = %d AND ip_port = '%s'", workerRowID(l.WorkerID), l.Owner.Address)); n != 1 {
			t.Errorf("%+v is not in the table", l)
		}
	}
}

// A call whose COMMIT was not answered is an error; called again it gives what the
// first one did.
func TestWorkersLostReply(t *testing.T) {
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	if _, err := s.Workers(WorkersOptions{}).List(t.Context()); err != nil { // notes the server, which is a COMMIT too
		t.Fatal(err)
	}
	p := newProxy(t, s.server.Addr)
	w := open(t, Options{Driver: MySQL, DSN: withDSN(t, opts.DSN, func(c *gosql.Config) { c.Addr = p.addr() })}).Workers(WorkersOptions{})
	p.cutAfterCommit.Store(true)
	lease, err := w.Acquire(t.Context(), workertest.Owner(0))
	wantAdvice(t, err, "broke; it is opened again")
	check.Equal(t, lease, (model.Lease{}), "with an error")
	waitFor(t, func() bool { return count(t, s, "SELECT COUNT(*) FROM leaf_workerid_alloc") == 1 })
	p.cutAfterCommit.Store(false)
	lease = acquire(t, w, workertest.Owner(0))
	if lease.WorkerID != 1 || lease.After != 0 || count(t, s, "SELECT COUNT(*) FROM leaf_workerid_alloc") != 1 {
		t.Errorf("%+v", lease)
	}
	p.cutAfterCommit.Store(true)
	lease.Reserved, lease.Expires, lease.Reported = 5000, 6000, 4000
	renewed, err := w.Renew(t.Context(), lease)
	wantAdvice(t, err, "broke; it is opened again")
	check.Equal(t, renewed, (model.Lease{}), "with an error")
	waitFor(t, func() bool { return count(t, s, "SELECT expires_at FROM leaf_workerid_alloc") == 6000 })
	p.cutAfterCommit.Store(false)
	check.OK(t, check.Err(w.Renew(t.Context(), lease)))
}
