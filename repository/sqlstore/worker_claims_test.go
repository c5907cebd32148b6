//go:build unix

package sqlstore

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// Claims keep those apart who ask different registries, and nobody else.
func TestWorkerClaims(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		now := time.Now().UnixMilli()
		claim := func(token, registry string, until int64, watched bool) (model.ClaimGrant, error) {
			return s.ClaimWorker(t.Context(), model.WorkerClaim{Token: token, Registry: registry, WorkerID: 7,
				Until: until, Watched: watched})
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
			if !errors.As(err, &use) || !errors.Is(err, model.ErrRegistryInUse) || use.Registry == registry ||
				use.Mine != registry || use.WorkerID != 7 {
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
				Token: string(rune('a' + i)), Registry: []string{"mysql 1", "redis x 2"}[i%2],
				Until: time.Now().Add(time.Minute).UnixMilli(), Watched: true,
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

// A table of worker IDs that is restored alone lacks instances, or is older than they are:
// the claims, in another table, say how far they may have come.
func TestWorkersRestoredAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		for what, restore := range map[string]string{
			"without the row": "DELETE FROM leaf_workerid_alloc WHERE ip_port = '10.0.0.2:1'",
			"with an older row": "UPDATE leaf_workerid_alloc SET token = 'old', identity = 'old', " +
				"reserved_until = 1, expires_at = 1, claimed_at = 0 WHERE ip_port = '10.0.0.2:1'",
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
			claim := model.WorkerClaim{Token: "lives", Registry: lease.Registry, WorkerID: lease.WorkerID,
				Until: lease.Expires + model.ClaimAhead.Milliseconds()}
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
