//go:build unix

package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

const (
	workersName = "id.gen.workers_{leaf}"
	leaseName   = "id.gen.worker_{leaf}_"
)

// workersAt is the registry over a store of its own.
func workersAt(t testing.TB, o redisstore.Options, w redisstore.WorkersOptions) *redisstore.Workers {
	t.Helper()
	w.Name = "leaf"
	if w.TTL == 0 {
		w.TTL = time.Minute // no test is meant to wait for it
	}
	return open(t, o).Workers(w)
}

func single(addr string) redisstore.Options {
	return redisstore.Options{Mode: "single", Addrs: []string{addr}}
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

// backend is what the contract test needs to know about Redis.
func backend(o redisstore.Options, w redisstore.WorkersOptions, c redis.UniversalClient, full bool) workertest.Backend {
	newRegistry := func(t *testing.T) workertest.Registry { return workersAt(t, o, w) }
	b := workertest.Backend{
		New: newRegistry,
		Max: model.SnowflakeWorkers,
		Lapse: func(t *testing.T, _ workertest.Registry, lease model.Lease) {
			expire(t, c, lease.WorkerID)
		},
	}
	if full {
		b.Fill = func(t *testing.T) { workertest.Fill(t, newRegistry, 0, model.SnowflakeWorkers) }
	}
	return b
}

func TestWorkersSingle(t *testing.T) {
	server := testserver.SharedRedis(t)
	workertest.Run(t, func(t *testing.T) workertest.Backend {
		server.FlushAll()
		return backend(single(server.Addr), redisstore.WorkersOptions{}, server.Client(), true)
	})
}

func TestWorkersSentinel(t *testing.T) {
	setup := testserver.Sentinel(t)
	o := redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName}
	soon(t, workersAt(t, o, redisstore.WorkersOptions{Acks: 1}), owner(0))
	workertest.Run(t, func(t *testing.T) workertest.Backend {
		setup.Master.FlushAll()
		return backend(o, redisstore.WorkersOptions{Acks: 1}, setup.Master.Client(), false)
	})
}

func TestWorkersCluster(t *testing.T) {
	setup := testserver.Cluster(t)
	o := redisstore.Options{Mode: "cluster", Addrs: setup.Addrs}
	fresh := func(t *testing.T) workertest.Backend {
		for _, node := range setup.Nodes {
			node.FlushAll()
		}
		return backend(o, redisstore.WorkersOptions{}, setup.Client(), false)
	}
	workertest.Run(t, fresh)
	t.Run("confirmed by nobody", func(t *testing.T) { // no node has a replica
		fresh(t)
		_, err := workersAt(t, o, redisstore.WorkersOptions{Acks: 1}).Acquire(t.Context(), owner(0))
		wantAdvice(t, err, "0 of 1")
		check.Equal(t, workertest.Acquire(t, workersAt(t, o, redisstore.WorkersOptions{}), owner(0)).WorkerID, 0, "worker ID")
	})
}

func owner(i int) model.Owner { return workertest.Owner(i) }

// renew stores bounds so many ms after the registry's clock.
func renew(t testing.TB, w *redisstore.Workers, lease model.Lease, reserved, expires int64) model.Lease {
	t.Helper()
	lease.Reserved, lease.Expires, lease.Reported = lease.ServerTime+reserved, lease.ServerTime+expires, lease.ServerTime
	got, err := w.Renew(t.Context(), lease)
	check.Must(t, err)
	return got
}

// soon acquires once the server is there again, or a new replica has confirmed
// for the first time, which takes a second.
func soon(t testing.TB, w *redisstore.Workers, o model.Owner) (lease model.Lease) {
	t.Helper()
	check.Eventually(t, "acquire", func() (err error) {
		lease, err = w.Acquire(t.Context(), o)
		return err
	})
	return lease
}

// TestWorkerIDsInOrder: the smallest free one comes first, unless its bounds
// make the owner wait.
func TestWorkerIDsInOrder(t *testing.T) {
	server := emptied(t)
	w := workersAt(t, single(server.Addr), redisstore.WorkersOptions{})
	leases := make([]model.Lease, 4)
	for i := range leases {
		leases[i] = workertest.Acquire(t, w, owner(i))
		if leases[i].WorkerID != i || leases[i].After != 0 {
			t.Fatalf("owner %d: %+v", i, leases[i])
		}
		leases[i] = renew(t, w, leases[i], 1000, int64(4-i)*3_600_000)
	}
	for _, id := range []int{1, 2} {
		expire(t, server.Client(), id)
	}
	if got := workertest.Acquire(t, w, owner(10)); got.WorkerID != 4 || got.After != 0 {
		t.Errorf("worker ID %d after %d, want 4: it can be used at once", got.WorkerID, got.After)
	}
	for id := 5; id < model.SnowflakeWorkers; id++ {
		do(t, server.Client(), "SET", fmt.Sprint(leaseName, id), "somebody")
	}
	if got := workertest.Acquire(t, w, owner(11)); got.WorkerID != 2 || got.After != leases[2].Expires {
		t.Errorf("worker ID %d after %d, want 2: its bounds pass first", got.WorkerID, got.After)
	}
	do(t, server.Client(), "SET", fmt.Sprint(leaseName, 1), "somebody")
	check.Is(t, check.Err(w.Acquire(t.Context(), owner(12))), model.ErrNoWorkerID)
	if got := workertest.Acquire(t, w, owner(10)); got.WorkerID != 4 {
		t.Errorf("a repeated call got %d, want 4", got.WorkerID)
	}
}

// TestWorkerLeaseRunsOut: a silent holder loses its worker ID by the TTL alone.
func TestWorkerLeaseRunsOut(t *testing.T) {
	server := emptied(t)
	silent := workersAt(t, single(server.Addr), redisstore.WorkersOptions{TTL: 300 * time.Millisecond})
	lease := renew(t, silent, workertest.Acquire(t, silent, owner(0)), -3_600_000, -60_000)
	w := workersAt(t, single(server.Addr), redisstore.WorkersOptions{})
	next := model.Lease{WorkerID: -1}
	for i := 1; next.WorkerID != lease.WorkerID; i++ {
		if next = workertest.Acquire(t, w, owner(i)); i == 1000 {
			t.Fatal("never free")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if next.After < lease.Expires {
		t.Errorf("After %d, want %d", next.After, lease.Expires)
	}
	workertest.WantLost(t, silent, lease)
	if ttl := do(t, server.Client(), "PTTL", leaseName+"0").(int64); ttl < 30_000 || ttl > 60_000 {
		t.Errorf("the lease lasts %d ms, want a minute", ttl)
	}
	do(t, server.Client(), "PEXPIRE", leaseName+"0", 30_000)
	renew(t, w, next, 0, 0)
	if ttl := do(t, server.Client(), "PTTL", leaseName+"0").(int64); ttl <= 30_000 {
		t.Errorf("renewed, the lease lasts %d ms, want a minute", ttl)
	}
}

// TestWorkerAcks: with a replica that stands still nothing counts, and the same
// calls go on when it is back.
func TestWorkerAcks(t *testing.T) {
	check.Deep(t)
	master := testserver.Redis(t)
	replica := testserver.RedisReplica(t, master)
	w := workersAt(t, single(master.Addr), redisstore.WorkersOptions{Acks: 1})
	lease := soon(t, w, owner(0)) // by text: the scripts are not known yet
	replica.Pause()
	sent := lease
	sent.Reserved, sent.Expires = lease.ServerTime+1000, lease.ServerTime+2000
	start := time.Now()
	_, err := w.Renew(t.Context(), sent)
	wantAdvice(t, err, "0 of 1", "bring the replicas back")
	if errors.Is(err, model.ErrLeaseLost) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	for range 2 { // a repeated call asks anew
		wantAdvice(t, check.Err(w.Acquire(t.Context(), owner(1))), "0 of 1")
	}
	replica.Resume()
	check.Eventually(t, "renew", func() error {
		_, err := w.Renew(t.Context(), sent)
		return err
	})
	if again := soon(t, w, owner(1)); again.WorkerID != 1 {
		t.Errorf("worker ID %d, want the 1 of the call that was not confirmed", again.WorkerID)
	}
	two := workersAt(t, single(master.Addr), redisstore.WorkersOptions{Acks: 2})
	wantAdvice(t, check.Err(two.Renew(t.Context(), sent)), "1 of 2")
}

// TestWorkerAcksByThemselves: nobody has to say how many replicas there are. One server
// alone is believed; once it was seen with replicas, a majority has to confirm, and it
// is not enough that the replicas have left. The number is the registry's, so an
// instance that comes later knows it too; an explicit one overrides it.
func TestWorkerAcksByThemselves(t *testing.T) {
	master := testserver.Redis(t)
	auto := redisstore.WorkersOptions{Acks: -1}
	w := workersAt(t, single(master.Addr), auto)
	alone := workertest.Acquire(t, w, owner(0))
	check.Must(t, check.Err(w.Renew(t.Context(), alone)))
	replica := testserver.RedisReplica(t, master)
	info := func(want string) {
		t.Helper()
		check.Eventually(t, want, func() error {
			if info := do(t, master.Client(), "INFO", "replication").(string); !strings.Contains(info, want) {
				return errors.New("not yet")
			}
			return nil
		})
	}
	info("state=online")
	lease := soon(t, w, owner(0)) // the first replica makes another replication ID
	check.Eventually(t, "renew", func() error { _, err := w.Renew(t.Context(), lease); return err })
	check.Equal(t, do(t, master.Client(), "HGET", workersName, "r"), "1", "replicas were seen")
	replica.Pause()
	_, err := w.Renew(t.Context(), lease)
	wantAdvice(t, err, "0 of 1", "worker.redis_acks")
	replica.Resume()
	check.Eventually(t, "renew", func() error { _, err := w.Renew(t.Context(), lease); return err })
	do(t, replica.Client(), "REPLICAOF", "NO", "ONE") // as when it takes over
	info("connected_slaves:0")
	wantAdvice(t, check.Err(w.Renew(t.Context(), lease)), "0 of 1")
	wantAdvice(t, check.Err(workersAt(t, single(master.Addr), auto).Acquire(t.Context(), owner(1))), "0 of 1")
	if _, err := workersAt(t, single(master.Addr), redisstore.WorkersOptions{}).Renew(t.Context(), lease); err != nil {
		t.Errorf("nobody has to confirm: %v", err)
	}
}

// TestWorkerRepliesLost: a call whose answer never came is repeated, by the
// client or by the caller, and gives no second worker ID.
func TestWorkerRepliesLost(t *testing.T) {
	at := singleSite(t)
	w := workersAt(t, at.options, redisstore.WorkersOptions{})
	workertest.Acquire(t, w, owner(9))
	at.loses.Store(1 << 30)
	wantAdvice(t, check.Err(w.Acquire(t.Context(), owner(0))), "acquire")
	at.loses.Store(0)
	lease := workertest.Acquire(t, w, owner(0))
	if lease.WorkerID != 1 {
		t.Errorf("worker ID %d, want 1", lease.WorkerID)
	}
	at.loses.Store(1 << 30)
	if err := w.Release(t.Context(), lease); err == nil {
		t.Error("released without a reply")
	}
	at.loses.Store(0)
	check.OK(t, w.Release(t.Context(), lease))
}

func TestWorkersForeignContent(t *testing.T) {
	server := testserver.SharedRedis(t)
	for name, damage := range map[string][]any{
		"entry is a word":     {"HSET", workersName, "0", "yes"},
		"entry is negative":   {"HSET", workersName, "0", "-1 0 1 0 - a"},
		"hash is a string":    {"SET", workersName, "x"},
		"another hash's time": {"HSET", workersName, "e", "long ago"},
	} {
		t.Run(name, func(t *testing.T) {
			server.FlushAll()
			w := workersAt(t, single(server.Addr), redisstore.WorkersOptions{})
			lease := renew(t, w, workertest.Acquire(t, w, owner(0)), 1000, 2000)
			if damage[0] == "SET" {
				do(t, server.Client(), "DEL", workersName)
			}
			do(t, server.Client(), damage...)
			if got, err := w.Acquire(t.Context(), owner(0)); err == nil {
				t.Errorf("acquired %+v", got)
			}
			if got, err := w.Renew(t.Context(), lease); err == nil {
				t.Errorf("renewed %+v", got)
			}
		})
	}
}

func TestWorkersArguments(t *testing.T) {
	server := emptied(t)
	s := openAt(t, server.Addr)
	good := s.Workers(redisstore.WorkersOptions{Name: "leaf"})
	lease := workertest.Acquire(t, good, owner(0))
	negative, late, far := lease, lease, lease
	negative.Reserved, late.Expires, far.WorkerID = -1, 1<<49, 1024
	for _, bad := range []model.Lease{negative, late, far} {
		wantInvalid(t, check.Err(good.Renew(t.Context(), bad)))
		wantInvalid(t, good.Release(t.Context(), bad))
	}
	for _, o := range []model.Owner{{Address: "a"}, {Token: "t"}, {Address: "a b", Token: "t"}, {Address: "a", Token: "t", Identity: "\n"}} {
		wantInvalid(t, check.Err(good.Acquire(t.Context(), o)))
	}
	for _, o := range []redisstore.WorkersOptions{{}, {Name: "a}b"}, {Name: "a b"}, {Name: "a", TTL: -1}, {Name: "a", TTL: 1}} {
		wantInvalid(t, check.Err(s.Workers(o).Acquire(t.Context(), owner(0))))
		wantInvalid(t, check.Err(s.Workers(o).Peers(t.Context())))
	}
	other := workertest.Acquire(t, s.Workers(redisstore.WorkersOptions{Name: "other"}), owner(1))
	check.Equal(t, other.WorkerID, 0, "the worker ID of another name")
}

func wantInvalid(t testing.TB, err error) {
	t.Helper()
	var store *model.StoreError
	if !errors.As(err, &store) || !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("got %v, want a StoreError with ErrInvalidArgument", err)
	}
}

// TestWorkersACL: what the advice names is enough.
func TestWorkersACL(t *testing.T) {
	server := testserver.Redis(t)
	rules := []any{"ACL", "SETUSER", "bob", "reset", "on", ">" + secret, "~id.gen.*", "-@all"}
	do(t, server.Client(), rules...)
	o := redisstore.Options{Mode: "single", Addrs: []string{server.Addr}, Username: "bob", Password: secret}
	_, err := workersAt(t, o, redisstore.WorkersOptions{}).Acquire(t.Context(), owner(0))
	wantAdvice(t, err, "NOPERM", "+mget", "+hgetall")
	_, advised, _ := strings.Cut(err.Error(), "ACL SETUSER <user> ~id.gen.* ")
	advised, _, _ = strings.Cut(advised, " (+cluster)")
	for _, right := range strings.Fields(advised) {
		rules = append(rules, right)
	}
	do(t, server.Client(), rules...)
	w := workersAt(t, o, redisstore.WorkersOptions{})
	lease := renew(t, w, workertest.Acquire(t, w, owner(0)), 1000, 2000)
	_, err = w.Peers(t.Context())
	check.OK(t, errors.Join(err, w.Release(t.Context(), lease)))
	_, err = workersAt(t, o, redisstore.WorkersOptions{Acks: 1}).Acquire(t.Context(), owner(0))
	wantAdvice(t, err, "0 of 1")
}

// TestWorkersEmptied: Redis restarts without data. What was held is lost, and
// the new lease tells from when on it is not.
func TestWorkersEmptied(t *testing.T) {
	server := testserver.Redis(t)
	w := workersAt(t, single(server.Addr), redisstore.WorkersOptions{})
	lease := renew(t, w, workertest.Acquire(t, w, owner(0)), 1000, 3_600_000)
	server.Kill()
	server.Restart()
	workertest.WantLost(t, w, lease)
	again := soon(t, w, owner(1))
	if again.KeptSince != again.ServerTime || again.KeptSince <= lease.ServerTime {
		t.Errorf("kept since %d, now %d", again.KeptSince, again.ServerTime)
	}
	if renewed := renew(t, w, again, 1000, 2000); renewed.KeptSince != again.KeptSince || renewed.ServerTime < again.ServerTime {
		t.Errorf("kept since %d, now %d", renewed.KeptSince, renewed.ServerTime)
	}
	workertest.WantLost(t, w, lease)
}

// wantDropped wants that the lease does not count in the present life, which
// is younger than it, and that the bounds which are known do.
func wantDropped(t *testing.T, w *redisstore.Workers, lease model.Lease, expires int64) {
	t.Helper()
	workertest.WantLost(t, w, lease)
	other := owner(1)
	next := soon(t, w, other)
	if next.WorkerID != lease.WorkerID || next.After < expires {
		t.Errorf("another got %d after %d, want %d after %d", next.WorkerID, next.After, lease.WorkerID, expires)
	}
	if next.KeptSince <= lease.ServerTime || next.KeptSince > next.ServerTime {
		t.Errorf("kept since %d, with a lease of %d lost", next.KeptSince, lease.ServerTime)
	}
	workertest.WantLost(t, w, lease)
	if back := workertest.Acquire(t, w, owner(0)); back.WorkerID == next.WorkerID {
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
			lease := renew(t, w, workertest.Acquire(t, w, owner(0)), -3_600_000, -60_000)
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
	lease := renew(t, w, workertest.Acquire(t, w, owner(0)), -3_600_000, -60_000)
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
	wantAdvice(t, check.Err(w.Renew(t.Context(), lease)), "too few replicas have confirmed: 0 of 1", "replicas")
}

// TestWorkersHashLost: without its hash a lease is not worth more than one of
// another life.
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
			lease := renew(t, w, workertest.Acquire(t, w, owner(0)), 1000, 2000)
			do(t, server.Client(), damage...)
			workertest.WantLost(t, w, lease)
			next := workertest.Acquire(t, w, owner(1))
			check.Equal(t, next.KeptSince, next.ServerTime, "kept since")
			workertest.WantLost(t, w, lease)
			check.OK(t, w.Release(t.Context(), lease))
			renew(t, w, next, 1000, 2000)
		})
	}
}
