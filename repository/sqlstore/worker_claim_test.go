//go:build unix

package sqlstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
)

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
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
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
		if grant := granted("long ago", "d", "mysql 1", now+20_000, false); grant.After != 0 {
			t.Errorf("%+v", grant)
		}
		if n := count(t, s, "SELECT COUNT(*) FROM shardid_worker_claim"); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}

// Of many who ask different registries at once, those of one get through.
func TestWorkerClaimsRace(t *testing.T) {
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	for round := range 10 {
		run(t, s, "DELETE FROM shardid_worker_claim")
		var got [2]atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				_, err := s.ClaimWorker(t.Context(), model.WorkerClaim{
					Token: string(rune('a' + i)), Registry: []string{"mysql 1", "redis x 2"}[i%2], Until: time.Now().Add(time.Minute).UnixMilli(), Watched: true,
				})
				switch {
				case err == nil:
					got[i%2].Add(1)
				case !errors.Is(err, model.ErrRegistryInUse):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if one, two := got[0].Load(), got[1].Load(); one+two != 8 || one*two != 0 {
			t.Errorf("round %d: %d and %d got through", round, one, two)
		}
	}
}
