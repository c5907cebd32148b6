//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestASilentServer: each call ends with its context, and without a deadline when an answer has taken too long.
func TestASilentServer(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	patient, hasty := single(server.Addr), single(server.Addr)
	patient.ReadTimeout, hasty.ReadTimeout = time.Hour, 50*time.Millisecond
	s := open(t, patient)
	listtest.Fill(t, s, key(), 1, 10)
	req := request(t, s, 11, 20)
	server.Pause()
	for name, call := range map[string]func(context.Context) error{
		"pop":   func(ctx context.Context) error { return check.Err(s.Pop(ctx, key(), 1)) },
		"state": func(ctx context.Context) error { return s.State(ctx, []model.ListKey{key()})[0].Err },
		"push":  func(ctx context.Context) error { return s.Push(ctx, []model.PushRequest{req})[0] },
		"check": s.Check,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			wantAdvice(t, call(ctx), "look whether Redis runs, is reachable")
		})
	}
	wantAdvice(t, popErr(t, open(t, hasty)), "look whether Redis runs, is reachable")
	server.Resume()
}

// TestAnOpenSlotStopsNothing: a reshard that was interrupted leaves a slot open for as long as nobody looks, to a node
// that owns no slot yet. Its lists continue, moved as a whole, in part or not at all.
func TestAnOpenSlotStopsNothing(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	setup := testserver.Cluster(t)
	slot := int(do(t, setup.Nodes[0].Client(), "CLUSTER", "KEYSLOT", listName).(int64))
	from, target := setup.Nodes[slot*3/16384], setup.Join()
	setSlot := func(on *testserver.RedisServer, args ...any) {
		do(t, on.Client(), append([]any{"CLUSTER", "SETSLOT", slot}, args...)...)
	}
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
	for name, moved := range map[string][]any{
		"nothing moved": nil, "the hash moved": {metaName}, "the list moved": {listName},
		"both moved": {metaName, listName},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range append(setup.Nodes, target) {
				setSlot(n, "STABLE")
				n.FlushAll()
			}
			last, given := int64(0), int64(0)
			popOrFill := func() error {
				p, err := s.Pop(t.Context(), key(), 1000)
				if err == nil && len(p.Indices) > 0 {
					check.Equal(t, p.Indices[0] > given, true, "index", p.Indices[0], "comes after", given)
					given = p.Indices[len(p.Indices)-1]
					return nil
				}
				st := s.Probe(t.Context(), []model.ListKey{key()})[0]
				last = max(last, st.HighWater) + 3000
				segment := model.Segment{First: last - 2999, Last: last}
				return errors.Join(errors.New("not yet"), err, st.Err,
					pushErr(t, s, model.PushRequest{Key: key(), Life: st.Life, Segment: segment, Cap: 1 << 40}))
			}
			check.Eventually(t, "fill", popOrFill)
			setSlot(target, "IMPORTING", from.NodeID(t))
			setSlot(from, "MIGRATING", target.NodeID(t))
			if moved != nil {
				host, port, _ := strings.Cut(target.Addr, ":")
				do(t, from.Client(), append([]any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}, moved...)...)
			}
			for range 12 { // the list gets empty several times
				check.Eventually(t, "pop and refill", popOrFill)
			}
			for _, n := range []*testserver.RedisServer{target, from} { // the reshard ends
				setSlot(n, "NODE", from.NodeID(t))
			}
			check.Eventually(t, "back", popOrFill)
		})
	}
}

// TestClusterWithoutOneMaster: a cluster that lost a master is unreachable, or serves a part, as it is set up, and
// recovers.
func TestClusterWithoutOneMaster(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	setup := testserver.Cluster(t)
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
	keys := make([]model.ListKey, 30)
	for i := range keys {
		keys[i] = model.ListKey{App: uint8(i)}
		listtest.Fill(t, s, keys[i], 1, 10)
	}
	become := func(what string, good func(err error, served int) bool) {
		t.Helper()
		check.Eventually(t, what, func() error {
			err, served := s.Check(t.Context()), 0
			for _, st := range s.State(t.Context(), keys) {
				if st.Err == nil {
					served++
				}
			}
			if !good(err, served) {
				return fmt.Errorf("%d lists are served, check: %w", served, err)
			}
			return nil
		})
	}
	setup.Nodes[1].Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // in which no second try ends
	defer cancel()
	served := 0
	for _, st := range s.Probe(ctx, keys) {
		if st.Err == nil {
			served++
		}
	}
	check.Equal(t, served > 0 && served < len(keys), true, "lists of the others, beside a silent master:", served)
	setup.Nodes[1].Resume()
	setup.Nodes[1].Kill()
	become("away", func(err error, served int) bool {
		return err != nil && !errors.Is(err, model.ErrPartlyAway) && served == 0
	})
	for _, i := range []int{0, 2} {
		do(t, setup.Nodes[i].Client(), "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	become("partly away", func(err error, served int) bool {
		return errors.Is(err, model.ErrPartlyAway) && served > 0 && served < len(keys)
	})
	setup.Nodes[1].Restart()
	setup.WaitOK()
	become("whole", func(err error, served int) bool { return err == nil && served == len(keys) })
	popped := 0
	for _, k := range keys {
		popped += len(listtest.Pop(t, s, k, 100).Indices)
		listtest.Fill(t, s, k, 11, 20)
	}
	check.Equal(t, popped > 0 && popped < 10*len(keys), true, "only the restarted node lost its lists:", popped)
}

// TestConfirm: a life is confirmed while those are there who say which server is the master, and not any more once the
// majority has stopped, though the server is there all the same.
func TestConfirm(t *testing.T) {
	confirmed := func(t *testing.T, o redisstore.Options, refusal string, lose ...*testserver.RedisServer) {
		m := of(t, o, "one").Marks()
		life, err := m.Life(t.Context())
		check.Must(t, err)
		got, err := m.Confirm(t.Context())
		check.Must(t, err)
		check.Equal(t, got, life, "confirmed")
		for _, server := range lose {
			server.Stop()
		}
		_, err = m.Confirm(t.Context())
		check.Has(t, fmt.Sprint(err), refusal)
		if len(lose) > 1 {
			again, err := m.Life(t.Context())
			check.Must(t, err)
			check.Equal(t, again, life, "it is there all the same")
		}
	}
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		server := testserver.Redis(t)
		confirmed(t, single(server.Addr), "connection refused", server)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		setup := testserver.Sentinel(t)
		twice := []string{setup.Addrs[0], strings.Replace(setup.Addrs[0], "127.0.0.1", "localhost", 1)} // and one vote
		o := redisstore.Options{Mode: "sentinel", Addrs: twice, MasterName: setup.MasterName}
		setup.Sentinels[2].Stop()
		last := redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName}
		check.OK(t, check.Err(of(t, last, "one").Marks().Confirm(t.Context())), "while the last one is away")
		confirmed(t, o, "no majority", setup.Sentinels[1:]...)
		check.Must(t, setup.Sentinels[0].Client().Do(t.Context(), "SENTINEL", "RESET", "*").Err())
		o.Addrs = []string{setup.Addrs[1], setup.Addrs[0]} // the one that is left knows no other
		check.Has(t, fmt.Sprint(check.Err(of(t, o, "one").Marks().Confirm(t.Context()))), "no majority")
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		setup := testserver.Cluster(t, "--cluster-node-timeout", "60000")
		page, err := os.ReadFile("../../docs/stores.md")
		check.Must(t, err)
		rules := regexp.MustCompile(`(?m)^ACL SETUSER shardid (reset on >change-me ~|\+cluster).*$`)
		for _, rule := range rules.FindAllString(string(page), -1) { // a user who may do no more
			var words []any
			for _, word := range strings.Fields(rule) {
				words = append(words, word)
			}
			for _, node := range setup.Nodes {
				do(t, node.Client(), words...)
			}
		}
		owner, err := setup.Client().MasterForKey(t.Context(), "id.gen.marks_{one}")
		check.Must(t, err)
		var others []*testserver.RedisServer
		for _, node := range setup.Nodes {
			if node.Addr != owner.Options().Addr {
				others = append(others, node)
			}
		}
		confirmed(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs, Username: "shardid",
			Password: "change-me"}, "no majority", others...)
	})
}
