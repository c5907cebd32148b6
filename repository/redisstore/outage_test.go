//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestPausedServerIsBoundedByContext(t *testing.T) {
	server := testserver.Redis(t)
	s := openAt(t, server.Addr)
	listtest.Fill(t, s, key(), 1, 10)
	req := request(t, s, 11, 20)
	server.Pause()
	for name, call := range map[string]func(context.Context) error{
		"pop":   func(ctx context.Context) error { _, err := s.Pop(ctx, key(), 1); return err },
		"state": func(ctx context.Context) error { return s.State(ctx, []model.ListKey{key()})[0].Err },
		"push":  func(ctx context.Context) error { return s.Push(ctx, []model.PushRequest{req})[0] },
		"check": s.Check,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			defer cancel()
			start := time.Now()
			wantAdvice(t, call(ctx), "no answer in time")
			if took := time.Since(start); took > 600*time.Millisecond {
				t.Errorf("took %v with a deadline of 150 ms", took)
			}
		})
	}
	start := time.Now()
	wantAdvice(t, popErr(t, s), "no answer in time")
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("took %v without a deadline", took)
	}
	server.Resume()
	// The pops above may have been executed by now: their indices are a gap.
	p := listtest.Pop(t, s, key(), 100)
	for i, index := range p.Indices {
		if i > 0 && index <= p.Indices[i-1] || index > 20 {
			t.Errorf("indices %v", p.Indices)
		}
	}
}

func TestSentinelFailover(t *testing.T) {
	check.Deep(t)
	setup := testserver.Sentinel(t)
	s := open(t, redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName})
	listtest.Fill(t, s, key(), 1, 1000)
	old := request(t, s, 1001, 1010)
	waitReplicated(t, setup.Master.Client(), setup.Replica.Client())
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 1, 100)
	setup.DownAfter(t, 500*time.Millisecond)
	setup.Master.Kill()
	setup.MasterAddr(t, setup.Master.Addr)
	check.Eventually(t, "the store follows", func() error { return s.Check(t.Context()) })
	if st := listtest.State(t, s, key()); st.Len != 0 || st.HighWater != 1000 {
		t.Errorf("after the failover: %+v", st)
	}
	check.Is(t, s.Push(t.Context(), []model.PushRequest{old})[0], model.ErrLifeChanged, "of the master before")
	listtest.Fill(t, s, key(), 1001, 1010)
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 1001, 1010)
}

// A push follows a slot that has moved. What was allocated for the list at the other node is refused there.
func TestMovedSlot(t *testing.T) {
	check.Deep(t)
	setup := testserver.Cluster(t)
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
	old := request(t, s, 1, 10)
	c := setup.Nodes[0].Client()
	slot := do(t, c, "CLUSTER", "KEYSLOT", listName).(int64)
	from := int(slot * 3 / 16384)
	to := (from + 1) % 3
	id := func(i int) string {
		return strings.TrimSpace(do(t, setup.Nodes[i].Client(), "CLUSTER", "MYID").(string))
	}
	// A node that imports a slot gets a higher epoch with it, so that no late message takes it back.
	do(t, setup.Nodes[to].Client(), "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	for _, i := range []int{to, from, 3 - from - to} {
		do(t, setup.Nodes[i].Client(), "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
	check.Eventually(t, "the push follows", func() error { // once the nodes agree whose the slot is
		if err := s.Push(t.Context(), []model.PushRequest{old})[0]; !errors.Is(err, model.ErrLifeChanged) {
			return fmt.Errorf("push: %w", err)
		}
		return nil
	})
	listtest.Fill(t, s, key(), 11, 20)
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 11, 20)
}

func TestClusterWithoutOneMaster(t *testing.T) {
	check.Deep(t)
	setup := testserver.Cluster(t)
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
	keys := make([]model.ListKey, 30)
	for i := range keys {
		keys[i] = model.ListKey{App: uint8(i)}
		listtest.Fill(t, s, keys[i], 1, 10)
	}
	setup.Nodes[1].Kill()
	check.Eventually(t, "the cluster to be down", func() error {
		for _, st := range s.State(t.Context(), keys) {
			if st.Err == nil {
				return errors.New("a list is still served")
			}
			wantAdvice(t, st.Err, "state")
		}
		return nil
	})
	check.Eventually(t, "all of it to be away", func() error {
		err := s.Check(t.Context())
		if wantAdvice(t, err, "check"); errors.Is(err, model.ErrPartlyAway) {
			return err
		}
		return nil
	})
	for _, i := range []int{0, 2} {
		do(t, setup.Nodes[i].Client(), "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	check.Eventually(t, "a part of it to serve", func() error {
		if err := s.Check(t.Context()); !errors.Is(err, model.ErrPartlyAway) {
			return fmt.Errorf("check: %w", err)
		}
		served := 0
		for _, st := range s.State(t.Context(), keys) {
			if st.Err == nil {
				served++
			}
		}
		if served == 0 || served == len(keys) {
			return fmt.Errorf("%d lists are served", served)
		}
		return nil
	})
	setup.Nodes[1].Restart()
	setup.WaitOK()
	check.Eventually(t, "recover", func() error {
		err := s.Check(t.Context())
		for _, st := range s.State(t.Context(), keys) {
			err = errors.Join(err, st.Err)
		}
		return err
	})
	served := 0
	for _, k := range keys {
		served += len(listtest.Pop(t, s, k, 100).Indices)
	}
	if served == 0 || served == 10*len(keys) {
		t.Errorf("%d indices served: the restarted node lost its lists, the others did not", served)
	}
	for _, k := range keys {
		listtest.Fill(t, s, k, 11, 20)
	}
}

// A master that is gone answers no MOVED: its slots must be looked for.
func TestMasterGoneForGood(t *testing.T) {
	check.Deep(t)
	setup := testserver.Cluster(t)
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
	var k model.ListKey // a list of node 1
	for slot := int64(-1); slot < 5462 || slot > 10_921; k.Shard++ {
		slot = do(t, setup.Nodes[0].Client(), "CLUSTER", "KEYSLOT", nameOf(model.ListKey{Shard: k.Shard + 1})).(int64)
	}
	listtest.Fill(t, s, k, 1, 10)
	do(t, setup.Nodes[1].Client(), "FLUSHALL")
	for _, node := range setup.Nodes {
		do(t, node.Client(), "CLUSTER", "DELSLOTSRANGE", 5461, 10_921)
	}
	do(t, setup.Nodes[0].Client(), "CLUSTER", "ADDSLOTSRANGE", 5461, 10_921)
	do(t, setup.Nodes[0].Client(), "CLUSTER", "BUMPEPOCH")
	setup.Nodes[1].Kill()
	check.Eventually(t, "node 2 to know", func() error {
		if info := do(t, setup.Nodes[2].Client(), "CLUSTER", "INFO").(string); !strings.Contains(info, "cluster_slots_assigned:16384") {
			return errors.New(info)
		}
		return nil
	})
	took := eventually(t, "follow", func() error {
		st := s.State(t.Context(), []model.ListKey{k})[0]
		if st.Err != nil {
			return st.Err
		}
		return s.Push(t.Context(), []model.PushRequest{{Key: k, Life: st.Life,
			Segment: model.Segment{First: st.HighWater + 1, Last: st.HighWater + 10}, Cap: 1000}})[0]
	})
	if took > 5*time.Second {
		t.Errorf("followed after %v", took)
	}
}

// confirmed wants that a life is confirmed while all servers are there, and not any more
// once those that lose have stopped.
func confirmed(t *testing.T, opts redisstore.Options, lose ...*testserver.RedisServer) {
	t.Helper()
	s, err := redisstore.New(opts)
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.SetDeployment("one")
	life, err := s.Marks().Life(t.Context())
	check.Must(t, err)
	got, err := s.Marks().Confirm(t.Context())
	check.Must(t, err)
	check.Equal(t, got, life, "confirmed")
	for _, server := range lose {
		server.Stop()
	}
	if got, err := s.Marks().Confirm(t.Context()); err == nil || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("without a majority: %q, %v", got, err)
	}
	again, err := s.Marks().Life(t.Context())
	check.Must(t, err)
	check.Equal(t, again, life, "it is there all the same")
}

func TestConfirmSentinel(t *testing.T) {
	setup := testserver.Sentinel(t)
	opts := redisstore.Options{Mode: redisstore.ModeSentinel, Addrs: setup.Addrs[:1], MasterName: setup.MasterName}
	confirmed(t, opts, setup.Sentinels[1], setup.Sentinels[2])
}

// The slot of marks_{one} is owned by the node that stays.
func TestConfirmCluster(t *testing.T) {
	setup := testserver.Cluster(t, "--cluster-node-timeout", "60000")
	client := setup.Client()
	owner, err := client.MasterForKey(t.Context(), "id.gen.marks_{one}")
	check.Must(t, err)
	var others []*testserver.RedisServer
	for _, node := range setup.Nodes {
		if node.Addr != owner.Options().Addr {
			others = append(others, node)
		}
	}
	check.Equal(t, len(others), 2, "other nodes")
	confirmed(t, redisstore.Options{Mode: redisstore.ModeCluster, Addrs: setup.Addrs}, others...)
}

func TestConfirmSingle(t *testing.T) {
	server := testserver.Redis(t)
	s := of(t, server, "one")
	life, err := s.Marks().Confirm(t.Context())
	check.Must(t, err)
	server.Stop()
	check.Equal(t, check.Err(s.Marks().Confirm(t.Context())) != nil, true, "no server: an error")
	server.Restart()
	check.Eventually(t, "another life", func() error { _, err := s.Marks().Confirm(t.Context()); return err })
	again, err := s.Marks().Confirm(t.Context())
	if err != nil || again == life {
		t.Errorf("%q, then %q, %v", life, again, err)
	}
}
