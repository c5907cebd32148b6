//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestWorkersContract(t *testing.T) {
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			workertest.Run(t, func(t *testing.T) workertest.Backend {
				opts := b.empty(t)
				s := openMigrated(t, opts)
				waitUp(t, s)
				instance := func(t *testing.T) workertest.Registry { return open(t, opts).Workers(WorkersOptions{}) }
				return workertest.Backend{
					New: instance, Max: model.SnowflakeWorkers, PerAddress: true, FixedIDs: true,
					Fill: func(t *testing.T) {
						fillWorkers(t, s, func(int64) int64 { return time.Now().Add(time.Hour).UnixMilli() })
					},
				}
			})
		})
	}
}

func TestFewWorkers(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		openMigrated(t, opts)
		workertest.Few(t, 4, func(t *testing.T) workertest.Registry { return open(t, opts).Workers(WorkersOptions{Workers: 4}) })
	})
}

// waitUp waits until the server is so old that its start, which it tells in whole
// seconds, lies before the test.
func waitUp(t *testing.T, s *Store) {
	t.Helper()
	waitFor(t, func() bool {
		var name string
		up := 2
		if s.server != nil {
			check.Must(t, s.pool.QueryRow("SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &up))
		}
		return up >= 2
	})
}

func acquire(t testing.TB, w *Workers, o model.Owner) model.Lease {
	t.Helper()
	lease, err := w.Acquire(context.Background(), o)
	check.Must(t, err)
	return lease
}

// renewed gets a lease for the owner and stores its bounds, in ms from the
// server's time.
func renewed(t testing.TB, w *Workers, o model.Owner, reserved, expires int64) model.Lease {
	t.Helper()
	lease := acquire(t, w, o)
	lease.Reserved, lease.Expires, lease.Reported = lease.ServerTime+reserved, lease.ServerTime+expires, lease.ServerTime
	lease, err := w.Renew(context.Background(), lease)
	check.Must(t, err)
	return lease
}

// insertOriginal makes a row as the Java program does.
func insertOriginal(t testing.TB, s *Store, id int64, address string, reported int64) {
	t.Helper()
	ip, port, _ := strings.Cut(address, ":")
	_, err := s.pool.Exec("INSERT INTO leaf_workerid_alloc (id, ip_port, ip, port, max_timestamp, create_time, update_time) VALUES (?, ?, ?, ?, ?, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
		id, address, ip, port, reported)
	check.Must(t, err)
}

// TestWorkersTakeOver: a worker ID that another program's table has is leased for an hour after the
// last report, to its address too, and then used again above that.
func TestWorkersTakeOver(t *testing.T) {
	const minute = int64(60_000)
	for name, c := range map[string]struct {
		id, silent int64 // ms since its last report
		want       int
	}{
		"just reported":    {id: 7, silent: 0, want: 1},
		"half an hour ago": {id: 7, silent: 30 * minute, want: 1},
		"a clock ahead":    {id: 7, silent: -90 * minute, want: 1},
		"an hour ago":      {id: 7, silent: 61 * minute, want: 7},
		"1024 stands for":  {id: 1024, silent: 61 * minute, want: 0},
		"beyond 1024":      {id: 1025, silent: 61 * minute, want: 1},
		"far beyond, live": {id: 5000, silent: 0, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *Store) {
				w := s.Workers(WorkersOptions{})
				reported := time.Now().UnixMilli() - c.silent
				insertOriginal(t, s, c.id, workertest.Address(0), reported)
				lease := acquire(t, w, workertest.Owner(0))
				after := reported + foreignLease
				if c.want == 1 {
					after = 0 // it is another worker ID
				}
				if lease.WorkerID != c.want || lease.After != after || lease.Expires > time.Now().UnixMilli() {
					t.Errorf("got %+v, want worker ID %d after %d", lease, c.want, after)
				}
				check.Must(t, check.Err(w.Renew(t.Context(), workertest.With(lease, lease.ServerTime, lease.ServerTime))))
				check.Equal(t, acquire(t, w, workertest.Owner(0)).WorkerID, c.want, "once it is ours")
			})
		})
	}
}

// fillWorkers makes all rows, each last used at used(id), as leases that were lost.
func fillWorkers(t testing.TB, s *Store, used func(id int64) int64) {
	t.Helper()
	var values []string
	for id := int64(1); id <= model.SnowflakeWorkers; id++ {
		at := used(id)
		values = append(values, fmt.Sprintf("(%d, '10.9.0.1', '%d', '10.9.0.1:%d', %d, %d, 'gone', 'gone', %d, %d, 1)", id, id, id, at, at, at-1, at))
	}
	run(t, s, "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp, own_timestamp, identity, token, reserved_until, expires_at, made_at) VALUES "+
		strings.Join(values, ", "))
}

func TestWorkersRecycle(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		now := time.Now().UnixMilli()
		fillWorkers(t, s, func(id int64) int64 { return now + 3_600_000 + id })
		w := s.Workers(WorkersOptions{ReclaimMargin: time.Minute})
		refused := func(why string) {
			t.Helper()
			if _, err := w.Acquire(t.Context(), workertest.Owner(9)); !errors.Is(err, model.ErrNoWorkerID) || !strings.Contains(err.Error(), "until") {
				t.Errorf("%s: %v", why, err)
			}
		}
		refused("all live")
		run(t, s, fmt.Sprintf("UPDATE leaf_workerid_alloc SET expires_at = %d WHERE id = 300", now-30_000))
		refused("run out, but not for the margin")
		run(t, s, fmt.Sprintf("UPDATE leaf_workerid_alloc SET max_timestamp = %d, expires_at = 0 WHERE id = 301", now-1_800_000))
		refused("another program, silent for half an hour")
		run(t, s, fmt.Sprintf("UPDATE leaf_workerid_alloc SET expires_at = %d, reserved_until = 1 WHERE id IN (400, 1024)", now-200_000),
			fmt.Sprintf("UPDATE leaf_workerid_alloc SET expires_at = %d, reserved_until = 1 WHERE id = 1024", now-300_000))
		for i, want := range []struct {
			worker int
			after  int64
		}{{0, now - 300_000}, {400, now - 200_000}} { // the oldest first
			got := acquire(t, w, workertest.Owner(i))
			if got.WorkerID != want.worker || got.After != want.after {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if n := count(t, s, "SELECT COUNT(*) FROM leaf_workerid_alloc WHERE ip_port = '"+got.Owner.Address+"' AND ip = '10.0.0.0'"); n != int64(1-i) {
				t.Errorf("%d rows of %s", n, got.Owner.Address)
			}
		}
		refused("the two that were recycled wait for their first renewal")
		run(t, s, fmt.Sprintf("UPDATE leaf_workerid_alloc SET max_timestamp = %d WHERE id = 301", now-4_000_000))
		if got := acquire(t, w, workertest.Owner(2)); got.WorkerID != 301 || got.After != now+3_600_300 {
			t.Errorf("got %+v, want worker ID 301 above what was reserved there", got)
		}
	})
}

// A row that is not as it was read, because its holder renewed it just then, is not
// given away.
func TestWorkersChangedRow(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(WorkersOptions{})
		lease := renewed(t, w, workertest.Owner(0), 1000, 2000)
		rows, err := s.Workers(WorkersOptions{}).rows(s.gorm.WithContext(t.Context()), "id = ?", 1)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		for what, change := range map[string]func(*workerRow){
			"renewed": func(r *workerRow) { r.ExpiresAt-- }, "another's": func(r *workerRow) { r.Token = "x" },
			"reserved": func(r *workerRow) { r.ReservedUntil-- }, "reported": func(r *workerRow) { r.MaxTimestamp-- }, "claimed": func(r *workerRow) { r.ClaimedAt++ },
		} {
			old := rows[0]
			change(&old)
			err := s.inTx(t.Context(), "test", func(tx *gorm.DB) error {
				_, err := s.Workers(WorkersOptions{}).replace(tx, old, old.claimed(workertest.Owner(1), 0, old.bound(), 1))
				return err
			})
			check.Is(t, err, errRowChanged, what)
		}
		check.OK(t, check.Err(w.Renew(t.Context(), lease)))
	})
}

// Only the database's clock counts: here that of the process is off, as far as it may.
func TestWorkersClock(t *testing.T) {
	opts := backends()[0].empty(t)
	opts.Now = func() time.Time { return time.Now().Add(4 * time.Second) }
	s := openMigrated(t, opts)
	w := s.Workers(WorkersOptions{})
	lease := renewed(t, w, workertest.Owner(0), -2000, -1000)
	if off := time.Since(time.UnixMilli(lease.ServerTime)).Abs(); off > 2*time.Second {
		t.Errorf("server time is off by %v", off)
	}
	run(t, s, "SET GLOBAL time_zone = '-11:00'")
	t.Cleanup(func() { run(t, s, "SET GLOBAL time_zone = 'SYSTEM'") })
	west := open(t, opts).Workers(WorkersOptions{})
	other := workertest.Owner(1)
	other.Address = lease.Owner.Address
	got := acquire(t, west, other)
	if got.WorkerID != lease.WorkerID || got.After != lease.Expires || time.Since(time.UnixMilli(got.ServerTime)).Abs() > time.Minute {
		t.Errorf("got %+v after %+v", got, lease)
	}
}

// Another server, or another life of it, may have lost what was stored last; a table
// that was emptied has.
func TestWorkersKeptSince(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	waitUp(t, s)
	w := s.Workers(WorkersOptions{})
	lease := renewed(t, w, workertest.Owner(0), 1000, 1000)
	if lease.KeptSince > lease.ServerTime || lease.ServerTime-lease.KeptSince > 60_000 {
		t.Errorf("an empty table: %+v", lease)
	}
	again := acquire(t, w, lease.Owner)
	other := acquire(t, w, workertest.Owner(1))
	if again.KeptSince != lease.KeptSince || other.KeptSince != lease.KeptSince {
		t.Errorf("kept since %d, then %d and %d: whoever comes next must be told as well", lease.KeptSince, again.KeptSince, other.KeptSince)
	}
	run(t, s, "UPDATE leaf_workerid_alloc SET made_at = 1", "UPDATE shardid_deployment SET server = 'the one before'")
	back, err := w.Renew(t.Context(), lease)
	if err != nil || back.KeptSince <= lease.KeptSince || back.KeptSince > back.ServerTime {
		t.Errorf("renewed on another server: %+v, %v", back, err)
	}
	check.Equal(t, acquire(t, w, workertest.Owner(2)).KeptSince, back.KeptSince, "acquired on another server")
	run(t, s, "DELETE FROM leaf_workerid_alloc")
	if fresh := acquire(t, w, workertest.Owner(3)); fresh.KeptSince != fresh.ServerTime {
		t.Errorf("an emptied table: %+v", fresh)
	}
}

func TestWorkersRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(WorkersOptions{})
		good := workertest.Owner(0)
		for name, change := range map[string]func(*model.Owner){
			"no address": func(o *model.Owner) { o.Address = "" }, "no port": func(o *model.Owner) { o.Address = "10.0.0.1" },
			"long":     func(o *model.Owner) { o.Address = strings.Repeat("a", 127) + ":1" },
			"no token": func(o *model.Owner) { o.Token = "" }, "long identity": func(o *model.Owner) { o.Identity = strings.Repeat("i", 65) },
		} {
			bad := good
			change(&bad)
			check.Is(t, check.Err(w.Acquire(t.Context(), bad)), model.ErrInvalidArgument, name)
		}
		lease := renewed(t, w, good, 0, 0)
		check.Must(t, w.Release(t.Context(), lease))
		lease.Owner.Token = "" // as the row has it now
		check.Is(t, check.Err(w.Renew(t.Context(), lease)), model.ErrLeaseLost, "renew without a token")
		if s.server != nil {
			run(t, s, "DELETE FROM shardid_lock")
			wantAdvice(t, check.Err(w.Acquire(t.Context(), good)), "INSERT INTO shardid_lock")
		}
		run(t, s, "DROP TABLE leaf_workerid_alloc")
		wantAdvice(t, check.Err(w.Renew(t.Context(), lease)), "shardid migrate")
		wantAdvice(t, check.Err(w.Peers(t.Context())), "shardid migrate")
	})
}

func TestFreeWorkerID(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(WorkersOptions{ReclaimMargin: time.Minute})
		gone, live, recent := workertest.Owner(0), workertest.Owner(1), workertest.Owner(2)
		lease := renewed(t, w, gone, -121_000, -120_000)
		renewed(t, w, live, 60_000, 60_000)
		renewed(t, w, recent, -1000, -1000) // that may be by another clock
		for name, c := range map[string]struct {
			id      int
			address string
			want    error
		}{
			"another address":     {1, live.Address, model.ErrInvalidArgument},
			"no address":          {1, "", model.ErrInvalidArgument},
			"an ID without a row": {4, gone.Address, model.ErrInvalidArgument},
			"an ID that is none":  {1025, gone.Address, model.ErrInvalidArgument},
			"a live one":          {2, live.Address, model.ErrRefused},
			"within the margin":   {3, recent.Address, model.ErrRefused},
		} {
			check.Is(t, check.Err(w.Free(t.Context(), c.id, c.address)), c.want, name)
		}
		others := []string{"2 10.0.0.1:8080 leased", "3 10.0.0.2:8080 leased"}
		wantStates(t, w, append([]string{"1 10.0.0.0:8080 expired"}, others...)...)
		if was, err := w.Free(t.Context(), 1, gone.Address); err != nil || was.State != model.WorkerExpired {
			t.Fatalf("freed %+v, %v", was, err)
		}
		wantStates(t, w, append([]string{"1  free"}, others...)...)
		check.Is(t, check.Err(w.Free(t.Context(), 1, gone.Address)), model.ErrInvalidArgument, "the second time")
		check.Is(t, check.Err(w.Renew(t.Context(), lease)), model.ErrLeaseLost, "the one that had it")
		if peers, err := w.Peers(t.Context()); err != nil || len(peers) != 2 {
			t.Errorf("peers %+v, %v", peers, err)
		}
		// The next new address gets it, above all that was reserved with it.
		next := acquire(t, w, workertest.Owner(7))
		if next.WorkerID != 1 || next.After < lease.Expires || next.After < lease.Reserved {
			t.Errorf("got %+v after %+v", next, lease)
		}
		check.Equal(t, acquire(t, w, gone).WorkerID, 4, "the one that had it")
	})
}

// A row of another program is kept for an hour after its last report.
func TestFreeForeignWorkerID(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(WorkersOptions{})
		now := acquire(t, w, workertest.Owner(0)).ServerTime
		insertOriginal(t, s, 5, "10.9.9.9:80", now-foreignLease+60_000)
		insertOriginal(t, s, 6, "10.9.9.8:80", now-foreignLease-60_000)
		check.Is(t, check.Err(w.Free(t.Context(), 5, "10.9.9.9:80")), model.ErrRefused)
		if was, err := w.Free(t.Context(), 6, "10.9.9.8:80"); err != nil || !was.Foreign {
			t.Errorf("%+v, %v", was, err)
		}
		if next := acquire(t, w, workertest.Owner(7)); next.WorkerID != 6 || next.After < now-foreignLease-60_000 {
			t.Errorf("got %+v", next)
		}
	})
}

func wantStates(t *testing.T, w *Workers, want ...string) {
	t.Helper()
	entries, err := w.List(t.Context())
	if err != nil || len(entries) != len(want) {
		t.Fatalf("%+v, %v", entries, err)
	}
	for i, e := range entries {
		check.Equal(t, fmt.Sprintf("%d %s %s", e.WorkerID, e.Address, e.State), want[i])
	}
}

// Claims keep those apart who ask different registries, and nobody else.
func TestWorkerClaims(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		now := time.Now().UnixMilli()
		claim := func(token, registry string, until int64, watched bool) (model.ClaimGrant, error) {
			return s.ClaimWorker(t.Context(), model.WorkerClaim{Token: token, Registry: registry, WorkerID: 7, Until: until, Watched: watched})
		}
		granted := func(what, token, registry string, until int64, watched bool) model.ClaimGrant {
			t.Helper()
			grant, err := claim(token, registry, until, watched)
			check.OK(t, err, what)
			return grant
		}
		refused := func(what, token, registry string, watched bool) {
			t.Helper()
			_, err := claim(token, registry, now+60_000, watched)
			var use *model.RegistryInUseError
			if !errors.As(err, &use) || !errors.Is(err, model.ErrRegistryInUse) || use.Registry == registry || use.Mine != registry || use.WorkerID != 7 {
				t.Errorf("%s: %v", what, err)
			}
		}
		granted("the first", "a", "mysql 1", now+20_000, false)
		granted("another of the registry", "b", "mysql 1", now+30_000, false)
		granted("renewed", "a", "mysql 1", now+40_000, false)
		refused("another registry", "c", "redis x 2", true)
		granted("given up", "a", "mysql 1", now-1, false)
		refused("the other goes on", "c", "redis x 2", true)
		granted("lowered", "b", "mysql 1", now-5000, false)
		refused("a moment ago", "c", "redis x 2", false)
		if grant := granted("watched", "c", "redis x 2", now+20_000, true); grant.After != now-1 || grant.Kept < 0 {
			t.Errorf("IDs may be in use up to %+d ms, want -1: %v", grant.After-now, grant)
		}
		refused("one that comes back", "b", "mysql 1", true)
		granted("given up although it has ended", "b", "mysql 1", now-1, false)
		granted("to a registry of its own", "c", "zk x 3", now+20_000, true)
		refused("that one", "d", "mysql 1", true)
		if n, err := s.ForgetWorkerClaims(t.Context()); err != nil || n != 1 {
			t.Errorf("%d claims were ended: %v", n, err)
		}
		refused("not watched", "d", "mysql 1", false)
		granted("it lives", "c", "zk x 3", now+20_000, true)
		refused("as before", "d", "mysql 1", true)
		run(t, s, "UPDATE shardid_worker_claim SET until_ms = 5")
		check.Equal(t, granted("long ago", "d", "mysql 1", now+20_000, false).After, 0)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_worker_claim"), 1, "rows")
	})
}

// Of many who ask different registries at once, those of one get through.
func TestWorkerClaimsRace(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	for round := range 10 {
		run(t, s, "DELETE FROM shardid_worker_claim")
		var got [2]int
		_, errs := atOnce(16, func(i int) (model.ClaimGrant, error) {
			return s.ClaimWorker(t.Context(), model.WorkerClaim{
				Token: string(rune('a' + i)), Registry: []string{"mysql 1", "redis x 2"}[i%2], Until: time.Now().Add(time.Minute).UnixMilli(), Watched: true,
			})
		})
		for i, err := range errs {
			if err == nil {
				got[i%2]++
			} else {
				check.Is(t, err, model.ErrRegistryInUse)
			}
		}
		if got[0]+got[1] != 8 || got[0]*got[1] != 0 {
			t.Errorf("round %d: %d and %d got through", round, got[0], got[1])
		}
	}
}

// 1024 instances start at once: all get a worker ID, and one more does not.
func TestWorkersAllAtOnce(t *testing.T) {
	check.Deep(t)
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	start := time.Now()
	distinct(t, raceWorkers(t, opts, 1024, 0))
	took := time.Since(start)
	t.Logf("1024 first starts took %v", took)
	if took > claimGrace*time.Millisecond {
		return // the first ones have run out, as nobody renewed them
	}
	check.Is(t, check.Err(s.Workers(WorkersOptions{}).Acquire(t.Context(), workertest.Owner(5000))), model.ErrNoWorkerID)
}

// raceWorkers has n owners get worker IDs at once, over 64 connections: with more
// of them opened at once the listen queue of the server would overflow.
func raceWorkers(t *testing.T, opts Options, n, firstOwner int) []model.Lease {
	t.Helper()
	opts.MaxOpenConns = 1
	registries := make([]*Workers, min(n, 64))
	for i := range registries {
		registries[i] = open(t, opts).Workers(WorkersOptions{})
	}
	leases, errs := atOnce(n, func(i int) (model.Lease, error) {
		return registries[i%len(registries)].Acquire(context.Background(), workertest.Owner(firstOwner+i))
	})
	check.OK(t, errors.Join(errs...))
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
			for range 5 {
				if took = recycleAtOnce(t, dsn); took < claimGrace*time.Millisecond {
					return
				}
			}
			t.Errorf("five races took longer than %d ms, the last %v", claimGrace, took)
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
	got := raceWorkers(t, opts, 24, 100)
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

// A call whose COMMIT was not answered is an error; called again it gives what the
// first one did.
func TestWorkersLostReply(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	if _, err := s.Workers(WorkersOptions{}).List(t.Context()); err != nil { // notes the server, which is a COMMIT too
		t.Fatal(err)
	}
	through, p := behindProxy(t, s)
	w := through.Workers(WorkersOptions{})
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

// A table of worker IDs that is restored alone lacks instances, or is older than they are:
// the claims, in another table, say how far they may have come.
func TestWorkersRestoredAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		for what, restore := range map[string]string{
			"without the row":   "DELETE FROM leaf_workerid_alloc WHERE ip_port = '10.0.0.2:1'",
			"with an older row": "UPDATE leaf_workerid_alloc SET token = 'old', identity = 'old', reserved_until = 1, expires_at = 1, claimed_at = 0 WHERE ip_port = '10.0.0.2:1'",
		} {
			run(t, s, "DELETE FROM leaf_workerid_alloc", "DELETE FROM shardid_worker_claim")
			w := s.Workers(WorkersOptions{})
			acquire := func(address, name string) model.Lease {
				t.Helper()
				lease, err := w.Acquire(t.Context(), model.Owner{Address: address, Token: name, Identity: name})
				check.Must(t, err)
				return lease
			}
			acquire("10.0.0.1:1", "other")
			lease := acquire("10.0.0.2:1", "lives")
			lease.Reserved, lease.Expires = lease.ServerTime+3000, lease.ServerTime+3_600_000
			check.Must(t, check.Err(w.Renew(t.Context(), lease)))
			claim := model.WorkerClaim{Token: "lives", Registry: lease.Registry, WorkerID: lease.WorkerID, Until: lease.Expires + model.ClaimAhead.Milliseconds()}
			check.Must(t, check.Err(s.ClaimWorker(t.Context(), claim)))
			run(t, s, restore)
			next := acquire("10.0.0.2:1", "new")
			if next.WorkerID == lease.WorkerID && next.After < lease.Expires {
				t.Errorf("%s: worker ID %d after %d, while it may be in use until %d", what, next.WorkerID, next.After, lease.Expires)
			}
			if free := lease.WorkerID + 1; what == "without the row" && (next.WorkerID != free || next.After != 0) {
				t.Errorf("worker ID %d after %d: %d is free, and need not be waited for", next.WorkerID, next.After, free)
			}
			check.Is(t, check.Err(w.Renew(t.Context(), lease)), model.ErrLeaseLost, what)
		}
	})
}
