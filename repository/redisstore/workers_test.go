//go:build unix

package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// leaf is the registry "leaf" of a store. Its leases last a minute: no test is meant to wait for that.
func leaf(s *redisstore.Store) *redisstore.Workers {
	return s.Workers(redisstore.WorkersOptions{Name: "leaf", TTL: time.Minute, Workers: model.SnowflakeWorkers})
}

// workersAt is the registry over a store of its own.
func workersAt(t testing.TB, o redisstore.Options) *redisstore.Workers {
	t.Helper()
	return leaf(open(t, o))
}

// expire ends a lease as its TTL does.
func expire(t testing.TB, c redis.UniversalClient, id int) {
	t.Helper()
	do(t, c, "PEXPIRE", fmt.Sprint(leaseName, id), 1)
	check.Eventually(t, "expire", func() error {
		if n := do(t, c, "EXISTS", fmt.Sprint(leaseName, id)); n != int64(0) {
			return errors.New("still there")
		}
		return nil
	})
}

func owner(i int) model.Owner { return workertest.Owner(i) }

// bounded is the lease as its owner sends it for storing bounds so many ms after the registry's clock.
func bounded(lease model.Lease, reserved, expires int64) model.Lease {
	lease.Reserved, lease.Expires = lease.ServerTime+reserved, lease.ServerTime+expires
	lease.Reported = lease.ServerTime
	return lease
}

func renew(t testing.TB, w *redisstore.Workers, lease model.Lease, reserved, expires int64) model.Lease {
	t.Helper()
	got, err := w.Renew(t.Context(), bounded(lease, reserved, expires))
	check.Must(t, err)
	return got
}

// soon acquires once a new replica has confirmed for the first time, which takes a second.
func soon(t testing.TB, w *redisstore.Workers, o model.Owner) (lease model.Lease) {
	t.Helper()
	check.Eventually(t, "acquire", func() (err error) {
		lease, err = w.Acquire(t.Context(), o)
		return err
	})
	return lease
}

// TestWorkersEnd: a lease ends by itself, and a renewal lengthens it. A report of more than a minute ago says nothing,
// nor does one of an owner before, or none. What nobody can hold is lost, and names have worker IDs of their own.
func TestWorkersEnd(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	s := open(t, o)
	w := leaf(s)
	lease := workertest.Acquire(t, w, owner(0))
	for _, change := range []func(){func() {}, func() { lease = renew(t, w, lease, 0, 0) }} {
		change()
		left := c.PTTL(t.Context(), leaseName+"0").Val()
		check.Equal(t, left > 30*time.Second && left <= time.Minute, true, "the lease lasts", left)
		do(t, c, "PEXPIRE", leaseName+"0", 30_000)
	}
	silent := fmt.Sprintf("0 0 0 %d - silent:1", lease.ServerTime)
	do(t, c, "HSET", workersName, "7", "0 0 5 1 - long-ago:1", "8", silent)
	peers, err := w.Peers(t.Context())
	check.Must(t, err)
	check.Equal(t, len(peers) == 1 && peers[0].WorkerID == 0, true, peers)

	words := owner(1)
	words.Identity = "two words"
	check.Is(t, check.Err(w.Acquire(t.Context(), words)), model.ErrInvalidArgument)
	far := lease
	far.WorkerID = model.SnowflakeWorkers
	workertest.WantLost(t, w, far)
	few := redisstore.WorkersOptions{Name: "few", TTL: time.Minute, Workers: 3}
	workertest.Few(t, few.Workers, func(t *testing.T) workertest.Registry { return open(t, o).Workers(few) })
}

// TestWorkersAreConfirmed: nobody has to say how many replicas there are. One server alone is believed; once it was
// seen with replicas, a majority has to confirm, and it is not enough that the replicas have left. The number is the
// registry's, so an instance that comes later knows it too. What was not confirmed is no loss: the same calls continue
// when the replica is back.
func TestWorkersAreConfirmed(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	w := workersAt(t, single(master.Addr))
	check.Must(t, check.Err(w.Renew(t.Context(), workertest.Acquire(t, w, owner(0)))))
	replica := testserver.RedisReplica(t, master)
	say(t, master.Client(), "state=online")
	lease := soon(t, w, owner(0)) // the first replica makes another replication ID
	again := func() {
		check.Eventually(t, "renew", func() error { return check.Err(w.Renew(t.Context(), lease)) })
	}
	again()
	check.Equal(t, do(t, master.Client(), "HGET", workersName, "r"), "1", "replicas were seen")
	replica.Pause()
	err := check.Err(w.Renew(t.Context(), lease))
	wantAdvice(t, err, "0 of 1", "bring the replicas back", "HSET id.gen.workers_{NAME} r")
	check.Equal(t, errors.Is(err, model.ErrLeaseLost), false, "it is lost", err)
	for range 2 { // a repeated call asks anew
		wantAdvice(t, check.Err(w.Acquire(t.Context(), owner(1))), "0 of 1")
	}
	replica.Resume()
	again()
	check.Equal(t, soon(t, w, owner(1)).WorkerID, 1, "the worker ID of the call that was not confirmed")
	do(t, replica.Client(), "REPLICAOF", "NO", "ONE") // as when it takes over
	say(t, master.Client(), "connected_slaves:0")
	wantAdvice(t, check.Err(w.Renew(t.Context(), lease)), "0 of 1")
	wantAdvice(t, check.Err(workersAt(t, single(master.Addr)).Acquire(t.Context(), owner(2))), "0 of 1")
	do(t, master.Client(), "HSET", workersName, "r", 0) // as the advice says
	check.OK(t, check.Err(w.Renew(t.Context(), lease)), "nobody has to confirm")
}
