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
func leaf(s *redisstore.Store, w redisstore.WorkersOptions) *redisstore.Workers {
	w.Name, w.TTL = "leaf", time.Minute
	return s.Workers(w)
}

// workersAt is the registry over a store of its own.
func workersAt(t testing.TB, o redisstore.Options, w redisstore.WorkersOptions) *redisstore.Workers {
	t.Helper()
	return leaf(open(t, o), w)
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

// TestWorkerIDsInOrder: the smallest free one comes first, unless its bounds make the owner wait; and each lease ends
// by itself.
func TestWorkerIDsInOrder(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	w := workersAt(t, o, redisstore.WorkersOptions{})
	leases := make([]model.Lease, 4)
	for i := range leases {
		o := owner(i)
		if i == 3 {
			o.Identity = "0" // as a time is that is not known
		}
		leases[i] = workertest.Acquire(t, w, o)
		if leases[i].WorkerID != i || leases[i].After != 0 {
			t.Fatalf("owner %d: %+v", i, leases[i])
		}
	}
	for i := range leases {
		leases[i] = renew(t, w, leases[i], 1000, int64(4-i)*3_600_000)
	}
	for _, id := range []int{1, 2} {
		expire(t, c, id)
	}
	if got := workertest.Acquire(t, w, owner(10)); got.WorkerID != 4 || got.After != 0 {
		t.Errorf("worker ID %d after %d, want 4: it can be used at once", got.WorkerID, got.After)
	}
	for id := 5; id < model.SnowflakeWorkers; id++ {
		do(t, c, "SET", fmt.Sprint(leaseName, id), "somebody")
	}
	got := workertest.Acquire(t, w, owner(11))
	if got.WorkerID != 2 || got.After != leases[2].Expires {
		t.Errorf("worker ID %d after %d, want 2: its bounds pass first", got.WorkerID, got.After)
	}
	do(t, c, "SET", leaseName+"1", "somebody")
	check.Is(t, check.Err(w.Acquire(t.Context(), owner(12))), model.ErrNoWorkerID)
	check.Equal(t, workertest.Acquire(t, w, owner(10)).WorkerID, 4, "the worker ID of a repeated call")
	// A report of more than a minute ago says nothing, nor does one of an owner before, or none.
	do(t, c, "HSET", workersName, "7", "0 0 5 1 - long-ago:1", "8", fmt.Sprintf("0 0 0 %d - silent:1", got.ServerTime))
	peers, err := w.Peers(t.Context())
	check.Must(t, err)
	for _, peer := range peers {
		check.Equal(t, peer.WorkerID == 0 || peer.WorkerID == 1 || peer.WorkerID == 3, true, peer)
	}
	check.Equal(t, len(peers), 3, "reports")
	for _, change := range []func(){func() {}, func() { renew(t, w, got, 0, 0) }} {
		change()
		left := c.PTTL(t.Context(), leaseName+"2").Val()
		check.Equal(t, left > 30*time.Second && left <= time.Minute, true, "the lease lasts", left)
		do(t, c, "PEXPIRE", leaseName+"2", 30_000)
	}
}

// TestWorkerAcks: nobody has to say how many replicas there are. One server alone is believed; once it was seen with
// replicas, a majority has to confirm, and it is not enough that the replicas have left. The number is the registry's,
// so an instance that comes later knows it too; an explicit one overrides it. What was not confirmed is no loss: the
// same calls go on when the replica is back.
func TestWorkerAcks(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	at := func(acks int) *redisstore.Workers {
		return workersAt(t, single(master.Addr), redisstore.WorkersOptions{Acks: acks})
	}
	w := at(-1)
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
	for _, acks := range []int{-1, 1} {
		err := check.Err(at(acks).Renew(t.Context(), lease))
		wantAdvice(t, err, "0 of 1", "bring the replicas back", "HSET id.gen.workers_{NAME} r")
		check.Equal(t, errors.Is(err, model.ErrLeaseLost), false, "it is lost", err)
	}
	for range 2 { // a repeated call asks anew
		wantAdvice(t, check.Err(at(1).Acquire(t.Context(), owner(1))), "0 of 1")
	}
	replica.Resume()
	again()
	check.Equal(t, soon(t, w, owner(1)).WorkerID, 1, "the worker ID of the call that was not confirmed")
	wantAdvice(t, check.Err(at(2).Renew(t.Context(), lease)), "1 of 2")
	do(t, replica.Client(), "REPLICAOF", "NO", "ONE") // as when it takes over
	say(t, master.Client(), "connected_slaves:0")
	wantAdvice(t, check.Err(w.Renew(t.Context(), lease)), "0 of 1")
	wantAdvice(t, check.Err(at(-1).Acquire(t.Context(), owner(2))), "0 of 1")
	check.OK(t, check.Err(at(0).Renew(t.Context(), lease)), "nobody has to confirm")
}

func TestWorkersArguments(t *testing.T) {
	t.Parallel()
	o, _ := lend(t)
	s := open(t, o)
	good := leaf(s, redisstore.WorkersOptions{})
	lease := workertest.Acquire(t, good, owner(0))
	negative, late, far := lease, lease, lease
	negative.Reserved, late.Expires, far.WorkerID = -1, 1<<49, 1024
	var errs []error
	for _, bad := range []model.Lease{negative, late, far} {
		errs = append(errs, check.Err(good.Renew(t.Context(), bad)), good.Release(t.Context(), bad))
	}
	for _, o := range []model.Owner{
		{Address: "a"}, {Token: "t"}, {Address: "a b", Token: "t"}, {Address: "a", Token: "t", Identity: "\n"},
	} {
		errs = append(errs, check.Err(good.Acquire(t.Context(), o)))
	}
	for _, o := range []redisstore.WorkersOptions{
		{}, {Name: "a}b"}, {Name: "a b"}, {Name: "a", TTL: -1}, {Name: "a", TTL: 1}, {Name: "a", Workers: 1025},
	} {
		w := s.Workers(o)
		errs = append(errs, check.Err(w.Acquire(t.Context(), owner(0))), check.Err(w.Peers(t.Context())))
	}
	for i, err := range errs {
		_, store := errors.AsType[*model.StoreError](err)
		check.Equal(t, store, true, i, err)
		check.Is(t, err, model.ErrInvalidArgument, i)
	}
	other := workertest.Acquire(t, s.Workers(redisstore.WorkersOptions{Name: "other"}), owner(1))
	check.Equal(t, other.WorkerID, 0, "the worker ID of another name")
	workertest.Few(t, 3, func(t *testing.T) workertest.Registry {
		return open(t, o).Workers(redisstore.WorkersOptions{Name: "few", Workers: 3})
	})
}
