//go:build unix

package zkstore_test

import (
	"path"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
)

// javaLeaf is a node as Java Leaf wrote it in 2019.
const javaLeaf = `{"ip":"10.0.0.5","port":"8080","timestamp":1567733700834}`

// Java Leaf continues with our nodes: name, data, and no other node beside them.
func TestForeverIsLeafs(t *testing.T) {
	w, c, s := alone(t, zkstore.ModeForever)
	for i := range 2 {
		lease := workertest.Acquire(t, s, owner(i))
		at := path.Join(w.forever(), owner(i).Address+"-000000000"+string(rune('0'+i)))
		check.Equal(t, lease.WorkerID, i, "worker ID")
		for _, reported := range []int64{0, 1567733700834} {
			if got := decodeLeaf(t, w.read(c, at)); got != (leaf{owner(i).Address[:len("10.0.0.0")], "8080",
				reported}) {
				t.Errorf("%+v, want timestamp %d", got, reported)
			}
			lease.Reported = 1567733700834
			check.Must(t, check.Err(s.Renew(t.Context(), lease)))
		}
	}
	check.Equal(t, len(w.children(c, w.forever())), 2, "children")
}

// A node that Java Leaf has just written is alive; we wait until it is silent,
// and start above all it can have issued.
func TestForeverFollowsJavaLeaf(t *testing.T) {
	check.Deep(t)
	w, c, s := alone(t, zkstore.ModeForever)
	at := path.Join(w.forever(), "10.0.0.5:8080-0000000007")
	w.write(c, at, javaLeaf)
	java := model.Owner{Address: "10.0.0.5:8080", Identity: "ours", Token: "ours"}
	err := check.Err(s.Acquire(t.Context(), java))
	check.Is(t, err, model.ErrAddressTaken)
	check.Has(t, err.Error(), "worker ID 7 from 10.0.0.5:8080")
	var lease model.Lease // after 10 s: no clock of the server's can be set
	check.Eventually(t, "follow Java Leaf", func() (err error) {
		lease, err = s.Acquire(t.Context(),
			java)
		return err
	})
	if lease.WorkerID != 7 || lease.After != 1567733700834+10*second || lease.KeptSince != 0 {
		t.Errorf("%+v", lease)
	}
	check.Equal(t, decodeLeaf(t, w.read(c, at)).Timestamp, 1567733700834, "its report")
	lease = workertest.Renew(t, s, lease, 1567733800000, lease.ServerTime+hour)

	// Java Leaf comes back to its address: it cannot know that it is ours.
	w.write(c, at, strings.Replace(javaLeaf, "1567733700834", "1567733900000", 1))
	check.Is(t, check.Err(s.Renew(t.Context(), lease)), model.ErrLeaseLost, "renewed beside Java Leaf")
	check.Is(t, check.Err(s.Acquire(t.Context(), java)), model.ErrAddressTaken, "taken from a live Java Leaf")
}

// What creates whose answers were lost left at an address is used by the next owners
// there.
func TestForeverLeftNodes(t *testing.T) {
	w, c, s := alone(t, zkstore.ModeForever)
	for _, number := range []string{"3", "5"} {
		w.write(c, path.Join(w.forever(), "10.0.0.5:8080-000000000"+number),
			strings.Replace(javaLeaf, "1567733700834", "0", 1))
	}
	for i, want := range []int{3, 5} {
		if lease := workertest.Acquire(t, s, model.Owner{Address: "10.0.0.5:8080", Token: string(rune('a' +
			i))}); lease.WorkerID != want {
			t.Errorf("worker ID %d, want %d", lease.WorkerID, want)
		}
	}
	check.Equal(t, len(w.children(c, w.forever())), 2, "nodes")
}

// An owner that comes from another address takes its node along, with Leaf's fields in
// it: a Java Leaf that is given the old address gets a number of its own, and none
// appears twice.
func TestForeverMoves(t *testing.T) {
	w, c, s := alone(t, zkstore.ModeForever)
	o := owner(0)
	lease := workertest.Acquire(t, s, o)
	lease = workertest.Renew(t, s, lease, lease.ServerTime, lease.ServerTime+hour)
	o.Token, o.Address = "reborn", "10.7.7.7:8080"
	moved := workertest.Acquire(t, s, o)
	at := path.Join(w.forever(), "10.7.7.7:8080-0000000000")
	if moved.WorkerID != 0 || moved.After != lease.Reserved {
		t.Errorf("%+v", moved)
	}
	check.Is(t, check.Err(s.Renew(t.Context(), workertest.With(lease, lease.Reserved, lease.Expires))),
		model.ErrLeaseLost,
		"the life before renews")
	moved.Reported = 1567733700834
	check.Must(t, check.Err(s.Renew(t.Context(), moved)))
	check.Equal(t, decodeLeaf(t, w.read(c, at)), (leaf{"10.7.7.7", "8080", 1567733700834}))
	name, err := c.Create(path.Join(w.forever(), owner(0).Address+"-"), []byte(javaLeaf), zk.FlagSequence,
		zk.WorldACL(zk.PermAll))
	if err != nil || strings.HasSuffix(name, "-0000000000") {
		t.Errorf("Java Leaf has %s: %v", name, err)
	}
	check.Equal(t, len(w.children(c, w.forever())), 2, "nodes")
}

// A node or a record that cannot be read is no free worker ID.
func TestForeverForeignNode(t *testing.T) {
	for name, rubbish := range map[string][2]string{
		"Leaf's node": {"rubbish", "{}"}, "our record": {javaLeaf, "rubbish"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, s := alone(t, zkstore.ModeForever)
			at := path.Join(w.forever(), owner(0).Address+"-0000000000")
			w.write(c, at, rubbish[0])
			w.write(c, path.Join(at, "shardid"), rubbish[1])
			wantAdvice(t, check.Err(s.Acquire(t.Context(), owner(0))), "snowflake.name", "0000000000")
		})
	}
}

// With a chroot everything lies below it, made where it is missing, and nothing beside it.
func TestChroot(t *testing.T) {
	eachMode(t, func(t *testing.T, w world, mode string) {
		chroot := "/of-" + w.name
		s := w.open(zkstore.Options{Mode: mode, Addrs: []string{w.addr, w.addr + chroot + "/deep"}})
		lease := workertest.Acquire(t, s, owner(0))
		workertest.Renew(t, s, lease, lease.After+second, lease.After+second)
		c := w.client()
		check.Equal(t, len(w.children(c, w.root()))+len(w.children(c, w.locks())), 0, "nodes beside the chroot")
		check.Equal(t, len(w.children(c, chroot+"/deep"+w.root())), 1, "nodes below it")
	})
}
