//go:build unix

package zkstore_test

import (
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func (w world) locks() string { return path.Join("/lock", w.name) }

// The smallest free worker ID, among nodes that are nothing but numbers.
func TestEphemeralSmallest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, s := w.client(), w.mode(zkstore.ModeEphemeral)
	var leases []model.Lease
	for i := range 4 {
		leases = append(leases, acquire(t, s, owner(i)))
	}
	for _, i := range []int{2, 1} {
		check.Must(t, s.Release(t.Context(), leases[i]))
	}
	if next := acquire(t, s, owner(9)); next.WorkerID != 1 {
		t.Errorf("worker ID %d, want 1", next.WorkerID)
	}
	names := w.children(c, w.root())
	slices.Sort(names)
	if !slices.Equal(names, []string{"0", "1", "3"}) {
		t.Errorf("nodes %v", names)
	}
	decodeLeaf(t, w.read(c, path.Join(w.root(), "0")))
}

// A session that ended is a lost lease. The process takes a worker ID anew, above
// what it had reserved.
func TestEphemeralSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.mode(zkstore.ModeEphemeral)
	lease := acquire(t, s, owner(0))
	reserved := lease.ServerTime + hour
	lease = renew(t, s, lease, reserved, reserved+second)
	w.expire(s)
	other := w.mode(zkstore.ModeEphemeral)
	if next := acquire(t, other, owner(1)); next.WorkerID != 0 || next.After != reserved+second {
		t.Errorf("the next is %+v", next)
	}
	s.mend()
	eventually(t, "learn of it", func() error {
		_, err := s.Renew(t.Context(), lease)
		if errors.Is(err, model.ErrLeaseLost) {
			return nil
		}
		return errors.Join(err, errors.New("not lost"))
	})
	check.Equal(t, acquire(t, s, owner(0)).WorkerID, 1, "again")
}

// A process that has a new session while its old one has not ended yet keeps its
// worker ID, above what it had reserved.
func TestEphemeralNewSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.mode(zkstore.ModeEphemeral)
	lease := acquire(t, old, owner(0))
	reserved := lease.ServerTime + second
	lease = renew(t, old, lease, reserved, reserved+hour)
	s := w.mode(zkstore.ModeEphemeral)
	check.Is(t, check.Err(s.Renew(t.Context(), lease)), model.ErrLeaseLost, "renewed in another session")
	next := acquire(t, s, owner(0))
	if next.WorkerID != 0 || next.After != reserved {
		t.Errorf("%+v", next)
	}
	if err := old.Close(); err != nil { // its session takes nothing along
		t.Fatal(err)
	}
	renew(t, s, next, reserved+second, reserved+hour)
}

// The server stands still for longer than a session lasts: the worker ID is lost
// or not, but nobody keeps one that another has.
func TestEphemeralServerPauses(t *testing.T) {
	t.Parallel()
	server := testserver.ZooKeeper(t)
	w := world{t, server.Addr(), "pause"}
	s := w.open(zkstore.Options{Mode: zkstore.ModeEphemeral, SessionTimeout: time.Second})
	lease := held(t, s)
	server.Pause()
	time.Sleep(2 * time.Second)
	server.Resume()
	var now model.Lease
	eventually(t, "go on", func() (err error) {
		if now, err = s.Renew(t.Context(), lease); errors.Is(err, model.ErrLeaseLost) {
			now, err = s.Acquire(t.Context(), owner(0))
		}
		return err
	})
	if now.WorkerID != 0 || now.After != lease.After && now.After != 1000 {
		t.Errorf("%+v", now)
	}
	other := acquire(t, w.mode(zkstore.ModeEphemeral), owner(1))
	if _, err := s.Renew(t.Context(), now); err == nil && other.WorkerID == now.WorkerID {
		t.Errorf("%+v, and before %+v", other, now)
	}
}

// held acquires and renews. Its session is so short that a busy machine may lose
// it in between.
func held(t *testing.T, s instance) (lease model.Lease) {
	t.Helper()
	eventually(t, "hold a worker ID", func() (err error) {
		if lease, err = s.Acquire(t.Context(), owner(0)); err == nil {
			lease, err = s.Renew(t.Context(), with(lease, 1000, 2000))
		}
		return err
	})
	return lease
}

// Whoever holds the queue up is taken out of it.
func TestEphemeralQueueHeldUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, s := w.client(), w.mode(zkstore.ModeEphemeral)
	w.write(c, path.Join(w.locks(), "clock"), "")
	_, err := c.Create(path.Join(w.locks(), "lock-"), nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	w.allow(err)
	start := time.Now()
	acquire(t, s, owner(0))
	if took := time.Since(start); took < 4*time.Second {
		t.Errorf("it waited %v for the one before", took)
	}
	acquire(t, s, owner(1))
	for _, name := range w.children(c, w.locks()) {
		if name[0] == 'l' {
			t.Errorf("%s is left", name)
		}
	}
}

// Removed by hand, the worker ID is lost, and another comes.
func TestEphemeralRemovedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, s := w.client(), w.mode(zkstore.ModeEphemeral)
	lease := renew(t, s, acquire(t, s, owner(0)), 1000, 2000)
	w.allow(c.Delete(lease.Node, -1))
	check.Is(t, check.Err(s.Renew(t.Context(), lease)), model.ErrLeaseLost, "renewed")
	if next := acquire(t, s, owner(0)); next.WorkerID != 0 || next.After != 1000 {
		t.Errorf("%+v", next)
	}
}
