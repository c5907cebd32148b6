//go:build unix

package redisstore_test

import (
	"errors"
	"testing"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/scripts/testserver"
)

// TestWorkersEmptied: Redis restarts without data. What was held is lost, and
// the new lease tells from when on it is not.
func TestWorkersEmptied(t *testing.T) {
	server := testserver.Redis(t)
	w := workersAt(t, single(server.Addr), redisstore.WorkersOptions{})
	lease := renew(t, w, acquire(t, w, owner(0)), 1000, 3_600_000)
	server.Kill()
	server.Restart()
	wantLost(t, w, lease)
	again := soon(t, w, owner(1))
	if again.KeptSince != again.ServerTime || again.KeptSince <= lease.ServerTime {
		t.Errorf("kept since %d, now %d", again.KeptSince, again.ServerTime)
	}
	if renewed := renew(t, w, again, 1000, 2000); renewed.KeptSince != again.KeptSince || renewed.ServerTime < again.ServerTime {
		t.Errorf("kept since %d, now %d", renewed.KeptSince, renewed.ServerTime)
	}
	wantLost(t, w, lease)
}

// wantDropped wants that the lease does not count on the present timeline, which
// is younger than it, and that the bounds which are known do.
func wantDropped(t *testing.T, w *redisstore.Workers, lease model.Lease, expires int64) {
	t.Helper()
	wantLost(t, w, lease)
	other := owner(1)
	next := soon(t, w, other)
	if next.WorkerID != lease.WorkerID || next.After < expires {
		t.Errorf("another got %d after %d, want %d after %d", next.WorkerID, next.After, lease.WorkerID, expires)
	}
	if next.KeptSince <= lease.ServerTime || next.KeptSince > next.ServerTime {
		t.Errorf("kept since %d, with a lease of %d lost", next.KeptSince, lease.ServerTime)
	}
	wantLost(t, w, lease)
	if back := acquire(t, w, owner(0)); back.WorkerID == next.WorkerID {
		t.Errorf("both have worker ID %d", back.WorkerID)
	}
	renew(t, w, next, 1000, 2000)
}

func TestWorkersFromOldFile(t *testing.T) {
	for name, args := range map[string][]string{
		"RDB": nil,
		"AOF": {"--appendonly", "yes", "--appendfsync", "always"},
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.Redis(t, args...)
			w := workersAt(t, single(server.Addr), redisstore.WorkersOptions{})
			lease := renew(t, w, acquire(t, w, owner(0)), -3_600_000, -60_000)
			do(t, server.Client(), "SAVE")
			server.Kill()
			server.Restart()
			wantDropped(t, w, lease, lease.Expires)
		})
	}
}

// TestWorkersThereAndBack: A is demoted, B serves, A comes back with the lease
// it knew and nobody renewed.
func TestWorkersThereAndBack(t *testing.T) {
	a := testserver.Redis(t)
	w := workersAt(t, single(a.Addr), redisstore.WorkersOptions{})
	lease := renew(t, w, acquire(t, w, owner(0)), -3_600_000, -60_000)
	cut(t, a.Client())
	_, err := w.Renew(t.Context(), lease)
	wantAdvice(t, err, "READONLY")
	if errors.Is(err, model.ErrLeaseLost) {
		t.Errorf("a replica does not know: %v", err)
	}
	do(t, a.Client(), "REPLICAOF", "NO", "ONE")
	wantDropped(t, w, lease, lease.Expires)
}

// TestWorkersFailOver: the replica has an older bound than the master it
// replaces, and says since when it can be trusted.
func TestWorkersFailOver(t *testing.T) {
	a := testserver.Redis(t)
	b := testserver.RedisReplica(t, a)
	w, after := workersAt(t, single(a.Addr), redisstore.WorkersOptions{Acks: 1}), workersAt(t, single(b.Addr), redisstore.WorkersOptions{})
	lease := renew(t, w, soon(t, w, owner(0)), -3_600_000, -60_000)
	cut(t, b.Client())
	do(t, b.Client(), "REPLICAOF", "NO", "ONE")
	wantDropped(t, after, lease, lease.Expires)
	// The old master has lost its replica: it renews nothing.
	_, err := w.Renew(t.Context(), lease)
	wantAdvice(t, err, "too few replicas have confirmed: 0 of 1", "replicas")
}

// TestWorkersHashLost: without its hash a lease is not worth more than one of
// another history.
func TestWorkersHashLost(t *testing.T) {
	server := testserver.SharedRedis(t)
	for name, damage := range map[string][]any{
		"hash evicted": {"DEL", workersName},
		"history lost": {"HDEL", workersName, "h"},
		"since lost":   {"HDEL", workersName, "e"},
	} {
		t.Run(name, func(t *testing.T) {
			server.FlushAll()
			w := workersAt(t, single(server.Addr), redisstore.WorkersOptions{})
			lease := renew(t, w, acquire(t, w, owner(0)), 1000, 2000)
			do(t, server.Client(), damage...)
			wantLost(t, w, lease)
			next := acquire(t, w, owner(1))
			if next.KeptSince != next.ServerTime {
				t.Errorf("kept since %d, now %d", next.KeptSince, next.ServerTime)
			}
			wantLost(t, w, lease)
			if err := w.Release(t.Context(), lease); err != nil {
				t.Error(err)
			}
			renew(t, w, next, 1000, 2000)
		})
	}
}
