//go:build unix

package e2e_test

import (
	"testing"
	"time"
)

// TestE2EBothStoresDieUnderLoad: kill -9 of either store, and a Redis emptied by
// hand, cost callers a refusal at most, and no ID comes twice.
func TestE2EBothStoresDieUnderLoad(t *testing.T) {
	story(t)
	s := privateStores(t)
	l := &load{apps: []int64{1}, books: &ledger{},
		trouble: func(a answer, err error) bool { return err == nil && comeAgain(a) }}
	for range 2 {
		d := serve(t, s.settings())
		eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
		l.replicas = append(l.replicas, d)
	}
	l.start(t, 32)
	for range 3 {
		l.reach(t, l.books.Count()+10_000)
		s.redis.Kill()
		time.Sleep(300 * time.Millisecond)
		s.redis.Restart()
		l.reach(t, l.books.Count()+10_000)
		s.db.Kill()
		s.db.Restart()
		l.reach(t, l.books.Count()+10_000)
		s.redis.FlushAll()
	}
	l.reach(t, l.books.Count()+10_000)
	l.stop()
	l.books.Settle(t)
	t.Logf("%d of %d requests were refused", l.refused.Load(), l.requests.Load())
}
