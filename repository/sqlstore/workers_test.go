//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/service/worker"
)

func TestWorkersContract(t *testing.T) {
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			workertest.Run(t, func(t *testing.T) workertest.Backend {
				opts := b.empty(t)
				s := openMigrated(t, opts)
				waitUp(t, s)
				instance := func(t *testing.T) workertest.Registry {
					return beside(t, s, s.opts).Workers(5*time.Second, workertest.Workers)
				}
				return workertest.Backend{New: instance}
			})
		})
	}
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

// workersOf is a registry of all worker IDs.
func workersOf(s *Store) *Workers { return s.Workers(5*time.Second, model.SnowflakeWorkers) }

func acquire(t testing.TB, w *Workers, o model.Owner) model.Lease {
	t.Helper()
	return workertest.Acquire(t, w, o)
}

// renewed gets a lease for the owner and stores its bounds, in ms from the
// server's time.
func renewed(t testing.TB, w *Workers, o model.Owner, reserved, expires int64) model.Lease {
	t.Helper()
	lease := acquire(t, w, o)
	return workertest.Renew(t, w, lease, lease.ServerTime+reserved, lease.ServerTime+expires)
}

// insertOriginal makes a row as the Java program does.
func insertOriginal(t testing.TB, s *Store, id int64, address string, reported int64) {
	t.Helper()
	ip, port, _ := strings.Cut(address, ":")
	_, err := s.pool.Exec("INSERT INTO leaf_workerid_alloc (id, ip_port, ip, port, max_timestamp, "+
		"create_time, update_time) VALUES (?, ?, ?, ?, ?, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
		id, address, ip, port, reported)
	check.Must(t, err)
}

// TestWorkersTakeOver: a worker ID that another program's table has is leased for an hour after the
// last report, to its address too, and then used again above that.
func TestWorkersTakeOver(t *testing.T) {
	const minute = int64(60_000)
	onBoth(t, func(t *testing.T, s *Store) {
		w, unused := workersOf(s), 0
		for i, c := range []struct {
			id, silent int64 // ms since its last report
			taken      bool
		}{
			{7, 0, false}, {8, 30 * minute, false}, {9, -90 * minute, false}, {10, 61 * minute, true},
			{1024, 61 * minute, true}, // which is worker ID 0
			{1025, 61 * minute, false}, {5000, 0, false},
		} {
			reported := time.Now().UnixMilli() - c.silent
			insertOriginal(t, s, c.id, workertest.Address(i), reported)
			lease := acquire(t, w, workertest.Owner(i))
			want, after := int(c.id%model.SnowflakeWorkers), reported+foreignLease
			if !c.taken {
				unused++
				want, after = unused, 0
			}
			if lease.WorkerID != want || lease.After != after || lease.Expires > time.Now().UnixMilli() {
				t.Errorf("%+v: got %+v, want worker ID %d after %d", c, lease, want, after)
			}
			workertest.Renew(t, w, lease, lease.ServerTime, lease.ServerTime)
			check.Equal(t, acquire(t, w, workertest.Owner(i)).WorkerID, want, "once it is ours")
		}
	})
}

// A row that is not as it was read, because its holder renewed it just then, is not given away.
func TestWorkersChangedRow(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := workersOf(s)
		lease := renewed(t, w, workertest.Owner(0), 1000, 2000)
		for what, change := range map[string]func(*workerRow){
			"renewed": func(r *workerRow) { r.ExpiresAt-- }, "another's": func(r *workerRow) { r.Token = "x" },
			"reserved": func(r *workerRow) { r.ReservedUntil-- }, "reported": func(r *workerRow) { r.MaxTimestamp-- },
			"claimed": func(r *workerRow) { r.ClaimedAt++ },
		} {
			err := s.inTx(t.Context(), "test", func(tx *gorm.DB) error {
				rows, err := w.rows.read(tx, "id = ?", lease.WorkerID)
				check.Must(t, err)
				slot := w.rows.slotOf(rows[0], rows[0].ID)
				change(&rows[0])
				slot.Read = rows[0]
				return w.rows.put(tx, slot, slot.Taken(workertest.Owner(1), 1), 1)
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
	w := workersOf(s)
	lease := renewed(t, w, workertest.Owner(0), -2000, -1000)
	if off := time.Since(time.UnixMilli(lease.ServerTime)).Abs(); off > 2*time.Second {
		t.Errorf("server time is off by %v", off)
	}
	opts.DSN += "&time_zone=%27-11:00%27"
	west := workersOf(open(t, opts))
	other := workertest.Owner(1)
	other.Address = lease.Owner.Address
	got := acquire(t, west, other)
	if got.WorkerID != lease.WorkerID || got.After != lease.Expires ||
		time.Since(time.UnixMilli(got.ServerTime)).Abs() > time.Minute {
		t.Errorf("got %+v after %+v", got, lease)
	}
}

// Another server, or another life of it, may have lost what was stored last; a table
// that was emptied has.
func TestWorkersKeptSince(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	waitUp(t, s)
	w := workersOf(s)
	lease := renewed(t, w, workertest.Owner(0), 1000, 1000)
	if lease.KeptSince > lease.ServerTime || lease.ServerTime-lease.KeptSince > 60_000 {
		t.Errorf("an empty table: %+v", lease)
	}
	again := acquire(t, w, lease.Owner)
	other := acquire(t, w, workertest.Owner(1))
	if again.KeptSince != lease.KeptSince || other.KeptSince != lease.KeptSince {
		t.Errorf("kept since %d, then %d and %d: whoever comes next must be told as well", lease.KeptSince,
			again.KeptSince, other.KeptSince)
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

// The list says who has which worker ID, and whether it may go to another address.
func TestListWorkers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(time.Minute, model.SnowflakeWorkers)
		lease := renewed(t, w, workertest.Owner(0), -121_000, -120_000)
		renewed(t, w, workertest.Owner(1), 60_000, 60_000)
		renewed(t, w, workertest.Owner(2), -1000, -1000) // that may be by another clock
		insertOriginal(t, s, 5, "10.9.9.9:80", lease.ServerTime-foreignLease+60_000)
		entries, err := w.List(t.Context())
		check.Must(t, err)
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%d %s %s", e.WorkerID, e.Address, e.State))
		}
		check.Equal(t, strings.Join(got, ", "), "1 10.0.0.0:8080 expired, 2 10.0.0.1:8080 leased, "+
			"3 10.0.0.2:8080 leased, 5 10.9.9.9:80 leased")
	})
}

// Claims keep those apart who ask different registries, and nobody else.
func TestWorkerClaims(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		now := time.Now().UnixMilli()
		claim := func(token, registry string, until int64, first bool) (model.ClaimGrant, error) {
			return s.ClaimWorker(t.Context(), model.WorkerClaim{Token: token, Registry: registry, WorkerID: 7,
				Until: until, First: first})
		}
		granted := func(what, token, registry string, until int64, first bool) model.ClaimGrant {
			t.Helper()
			grant, err := claim(token, registry, until, first)
			check.OK(t, err, what)
			return grant
		}
		refused := func(what, token, registry string) {
			t.Helper()
			_, err := claim(token, registry, now+60_000, true)
			check.Is(t, err, model.ErrRegistryInUse, what)
			check.Has(t, fmt.Sprint(err), fmt.Sprintf("asks %q, and another one may use worker ID 7 of", registry))
		}
		lost := func(what, token, registry string) {
			t.Helper()
			check.Is(t, check.Err(claim(token, registry, now+60_001, false)), model.ErrLeaseLost, what)
		}
		granted("the first", "a", "mysql 1", now+20_000, true)
		granted("another of the registry", "b", "mysql 1", now+30_000, true)
		granted("longer", "a", "mysql 1", now+40_000, false)
		granted("the same, as after an answer that was lost", "a", "mysql 1", now+40_000, false)
		refused("another registry", "c", "redis x 2")
		granted("given up", "a", "mysql 1", now-1, false)
		refused("the other continues", "c", "redis x 2")
		granted("lowered", "b", "mysql 1", now-5000, false)
		check.Equal(t, granted("nobody is left", "c", "redis x 2", now+20_000, true).After, now-1, "IDs in use")
		lost("another registry is in use", "b", "mysql 1")
		refused("one that comes back", "b", "mysql 1")
		granted("to a registry of its own", "c", "zk x 3", now+60_000, true)
		lost("of the one before", "c", "redis x 2")
		refused("that one", "d", "mysql 1")
		if n, err := s.ForgetWorkerClaims(t.Context()); err != nil || n != 1 {
			t.Errorf("%d claims were ended: %v", n, err)
		}
		refused("it may live", "d", "mysql 1")
		granted("it lives", "c", "zk x 3", now+70_000, false)
		run(t, s, "UPDATE shardid_worker_claim SET until_ms = 1000")
		lost("what a database that went back had may have ended before", "c", "zk x 3")
		run(t, s, "UPDATE shardid_worker_claim SET until_ms = 5")
		check.Equal(t, granted("long ago", "d", "mysql 1", now+20_000, true).After, 0)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_worker_claim"), 1, "rows")
	})
}

// A claim is stored whatever the database's clock says, as it also keeps those out who come later.
func TestAClaimThatHasEndedIsStored(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		first := model.WorkerClaim{Token: "a", Registry: "zk 1", Until: time.Now().UnixMilli() - 60_000, First: true}
		check.Must(t, check.Err(s.ClaimWorker(t.Context(), first)))
		grant, err := s.ClaimWorker(t.Context(), model.WorkerClaim{Token: "b", Registry: "zk 2",
			Until: first.Until + 120_000, First: true})
		check.OK(t, err)
		check.Equal(t, grant.After, first.Until, "it begins above")
	})
}

// A table of worker IDs that is restored alone lacks instances, or is older than they are:
// the claims, in another table, say how far they may have come.
func TestWorkersRestoredAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		for what, restore := range map[string]string{
			"without the row": "DELETE FROM leaf_workerid_alloc WHERE ip = '10.0.0.2'",
			"with an older row": "UPDATE leaf_workerid_alloc SET token = 'old', identity = 'old', " +
				"reserved_until = 1, expires_at = 1, claimed_at = 0 WHERE ip = '10.0.0.2'",
		} {
			run(t, s, "DELETE FROM leaf_workerid_alloc", "DELETE FROM shardid_worker_claim")
			w := workersOf(s)
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
			claim := model.WorkerClaim{Token: "lives", Registry: lease.Registry, WorkerID: lease.WorkerID,
				Until: lease.Expires + model.ClaimAhead.Milliseconds(), First: true}
			check.Must(t, check.Err(s.ClaimWorker(t.Context(), claim)))
			run(t, s, restore)
			next := acquire("10.0.0.2:1", "new")
			if next.WorkerID == lease.WorkerID && next.After < lease.Expires {
				t.Errorf("%s: worker ID %d after %d, while it may be in use until %d", what, next.WorkerID, next.After,
					lease.Expires)
			}
			if free := lease.WorkerID + 1; what == "without the row" && (next.WorkerID != free || next.After != 0) {
				t.Errorf("worker ID %d after %d: %d is free, and need not be waited for", next.WorkerID, next.After,
					free)
			}
			check.Is(t, check.Err(w.Renew(t.Context(), lease)), model.ErrLeaseLost, what)
		}
	})
}

// Three hundred instances that start within a second all get a worker ID of their own, the last one within 30 s on two
// cores that have nothing else to do. Each has the keeper of the snowflake mode, and six share a store.
func TestManyStartAtOnce(t *testing.T) {
	check.Deep(t)
	const instances, storesOf = 300, 6
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	check.Must(t, s.LayoutOnce(t.Context(), model.LayoutRecord{Kind: model.KindSnowflake, Layout: "test"}))
	keepers := make([]*worker.Keeper, instances)
	for n := range keepers {
		if n%storesOf == 0 {
			s = open(t, opts)
		}
		own := s
		now := idgen.SystemClock()
		generator, err := idgen.New(idgen.Snowflakes(model.SnowflakeLayout(0, 10, 12), now))
		check.Must(t, err)
		keepers[n] = worker.New(worker.Options{
			Condition: worker.Condition, Mode: "mysql", Registry: workersOf(own), Generator: generator,
			Layout: func(ctx context.Context, _ bool) (time.Duration, bool, error) {
				age, err := own.LayoutAge(ctx, model.KindSnowflake)
				return age, err == nil, err
			},
			Claim: own.ClaimWorker, Expiry: time.Hour, TTL: worker.Forever, MaxClockOffset: 5 * time.Second,
			Reporter: &check.Reports{}, Log: slog.New(slog.DiscardHandler), Now: now,
		})
		t.Cleanup(func() { check.OK(t, keepers[n].Stop(context.Background())) })
	}
	began := time.Now()
	var ready sync.WaitGroup
	took := make([]time.Duration, instances)
	for n, k := range keepers {
		k.Start(fmt.Sprintf("10.1.%d.%d:8080", n/250, n%250), fmt.Sprint("token", n))
		ready.Go(func() {
			k.Need(t.Context())
			for k.Ready() != nil && time.Since(began) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			took[n] = time.Since(began)
		})
	}
	ready.Wait()
	workers := map[int]bool{}
	for _, k := range keepers {
		workers[k.Status().WorkerID] = true
	}
	slices.Sort(took)
	t.Logf("the first could issue after %v, half of them after %v, the last after %v", took[0], took[instances/2],
		took[instances-1])
	if len(workers) != instances || took[instances-1] > 30*time.Second {
		t.Errorf("%d worker IDs of %d instances, the last after %v", len(workers), instances, took[instances-1])
	}
}

// aStart is a start at second now with room for some worker IDs.
func aStart(token string, workers, now int64) nodeStart {
	return nodeStart{"host", workers, token, now, now + 3600}
}

func register(t testing.TB, s *Store, start nodeStart) nodeRow {
	t.Helper()
	node, err := s.registerStart(context.Background(), start)
	check.Must(t, err)
	return node
}

func TestRegisterStartRecycles(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		const now = 1_800_000_000
		const java = "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) VALUES " +
			"('java', '1', 1, '2020-01-01', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)"
		run(t, s, java, java, "DELETE FROM WORKER_NODE WHERE ID = 2")
		for i := range int64(3) { // worker IDs 3…5, marks in falling order
			node := register(t, s, aStart(fmt.Sprint("t", i), 6, now-10*i))
			check.Equal(t, count(t, s, "SELECT node_last FROM shardid_deployment"), node.ID, "the last start")
		}
		refused := func(at int64) {
			t.Helper()
			got, err := s.registerStart(t.Context(), aStart("new", 6, at))
			if !errors.Is(err, model.ErrNoWorkerID) || got != (nodeRow{}) ||
				!strings.Contains(err.Error(), "uid.worker_bits") {
				t.Errorf("%+v, %v", got, err)
			}
		}
		refused(now)
		refused(now - 20 + 3600) // the mark itself may have been issued
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM WORKER_NODE"), 4, "rows are left by refused starts")
		want := nodeRow{ID: 5, Token: "new", UsedUntil: now + 3581 + 3600}
		for range 2 {
			check.Equal(t, register(t, s, aStart("new", 6, now+3581)), want)
		}
		check.Is(t, check.Err(s.registerStart(t.Context(), aStart("newer", 6, now+3581))), model.ErrNoWorkerID,
			"a row that was just taken over")
		got := register(t, s, aStart("last", 6, now+1_000_000))
		if got.ID != 4 || got.UsedUntil != now+1_003_600 {
			t.Errorf("got %+v", got)
		}
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM WORKER_NODE WHERE HOST_NAME = 'java' AND TOKEN IS NULL"), 1,
			"the original's row that is left")
		// After a failover a worker ID rests for a day: its mark may have been higher.
		run(t, s, "UPDATE shardid_deployment SET oldest_copy = 1")
		check.Is(t, check.Err(s.registerStart(t.Context(), aStart("late", 6, now+3600+nodeRest))), model.ErrNoWorkerID,
			"it rests")
		check.Equal(t, register(t, s, aStart("late", 6, now+3601+nodeRest)).ID, 3, "a day later")
	})
}

// A worker ID whose user raises its mark at that moment is not given away.
func TestNodeChangedRow(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		node := register(t, s, aStart("a", 2, 1_800_000_000))
		for _, old := range []nodeRow{
			{ID: 1, Token: "a", UsedUntil: 1_800_003_599}, {ID: 1, Token: "b", UsedUntil: 1_800_003_600},
			{ID: 1, UsedUntil: 1_800_003_600},
		} {
			err := s.inTx(t.Context(), "test", func(tx *gorm.DB) error {
				return takeNode(tx, old, aStart("new", 2, 1_900_000_000))
			})
			check.Is(t, err, errRowChanged, old)
		}
		lease := model.Lease{WorkerID: int(node.ID), Owner: model.Owner{Token: "a"}, Reserved: 1_800_009_999_000}
		check.OK(t, check.Err(s.Nodes("host", 2).Renew(t.Context(), lease)))
	})
}

// WORKER_NODE as a registry: what a lease reserves is the mark of its row, which no release lowers, and the next
// start, as a repeated one, begins above it.
func TestNodes(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		nodes := s.Nodes(strings.Repeat("h", 65), 2)
		began := time.Now().Unix()
		lease, err := nodes.Acquire(t.Context(), model.Owner{Token: "a"})
		check.Must(t, err)
		if lease.WorkerID != 1 || lease.After < 1000*(began-1) || lease.After >= 1000*time.Now().Unix() {
			t.Errorf("%+v", lease)
		}
		row := text(t, s, "SELECT CONCAT(HOST_NAME, ' ', TYPE, ' ', LAUNCH_DATE) FROM WORKER_NODE")
		check.Equal(t, row, strings.Repeat("h", 64)+" 2 "+time.Unix(began, 0).Format(time.DateOnly))
		port := text(t, s, "SELECT PORT FROM WORKER_NODE")
		if !regexp.MustCompile(`^\d{13}-\d{1,5}$`).MatchString(port) {
			t.Errorf("port %q", port)
		}
		mark := time.Now().Unix() + 7200
		lease.Reserved = 1000*mark + 999
		check.OK(t, check.Err(nodes.Renew(t.Context(), lease)))
		lease.Reserved = lease.After
		check.OK(t, check.Err(nodes.Renew(t.Context(), lease)))
		check.OK(t, nodes.Release(t.Context(), lease))
		check.Equal(t, count(t, s, "SELECT USED_UNTIL FROM WORKER_NODE"), mark, "mark")
		again, err := nodes.Acquire(t.Context(), model.Owner{Token: "a"})
		if err != nil || again.After != 1000*mark {
			t.Errorf("again %+v, %v", again, err)
		}
		check.Is(t, check.Err(nodes.Acquire(t.Context(), model.Owner{Token: "b"})), model.ErrNoWorkerID,
			"its mark is ahead")
		run(t, s, "UPDATE WORKER_NODE SET USED_UNTIL = 1000")
		next, err := nodes.Acquire(t.Context(), model.Owner{Token: "b"})
		if err != nil || next.WorkerID != 1 || next.After < 1000*(began-1) {
			t.Errorf("next %+v, %v", next, err)
		}
		check.Is(t, check.Err(nodes.Renew(t.Context(), lease)), model.ErrLeaseLost, "taken over")
		run(t, s, "UPDATE WORKER_NODE SET TOKEN = NULL")
		check.Is(t, check.Err(nodes.Renew(t.Context(), model.Lease{WorkerID: 1})), model.ErrLeaseLost, "Baidu's row")
		run(t, s, "DELETE FROM WORKER_NODE")
		check.Is(t, check.Err(nodes.Renew(t.Context(), next)), model.ErrLeaseLost, "no row")
	})
}
