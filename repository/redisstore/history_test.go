//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// popUntilEmpty pops what is there and fails on an index in seen.
func popUntilEmpty(t *testing.T, s *redisstore.Store, seen map[int64]bool) (purged int64) {
	t.Helper()
	for {
		p := listtest.Pop(t, s, key(), 300)
		purged += p.Purged
		for _, index := range p.Indices {
			if seen[index] {
				t.Fatalf("index %d twice", index)
			}
			seen[index] = true
		}
		if len(p.Indices) == 0 {
			return purged
		}
	}
}

func TestRestartFromOldFile(t *testing.T) {
	for name, args := range map[string][]string{
		"RDB": nil,
		"AOF": {"--appendonly", "yes", "--appendfsync", "no"},
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.Redis(t, args...)
			s, c := openAt(t, server.Addr), server.Client()
			listtest.Fill(t, s, key(), 1, 5000)
			if name == "RDB" {
				do(t, c, "SAVE")
			}
			seen := map[int64]bool{}
			for _, index := range listtest.Pop(t, s, key(), 1000).Indices {
				seen[index] = true
			}
			req := request(t, s, 5001, 5100)
			server.Kill()
			server.Restart()
			var p model.Popped
			check.Eventually(t, "pop after the restart", func() (err error) {
				p, err = s.Pop(t.Context(), key(), 1)
				return err
			})
			// The AOF brings back the list as it was, or older: it is never served.
			if len(p.Indices) != 0 || p.Purged < 4000 {
				t.Fatalf("after the restart: %d indices, %d purged", len(p.Indices), p.Purged)
			}
			check.Is(t, s.Push(t.Context(), []model.PushRequest{req})[0], model.ErrLifeChanged, "of the life before")
			if st := listtest.State(t, s, key()); st.HighWater != 5000 || st.Len != 0 {
				t.Errorf("state %+v: the high-water mark must outlive the purge", st)
			}
			wantRefused(t, s, 5000, 6000, model.ErrNotAboveHighWater)
			listtest.Fill(t, s, key(), 5001, 6000)
			popUntilEmpty(t, s, seen)
			if len(seen) != 2000 {
				t.Errorf("%d different indices, want 2000", len(seen))
			}
		})
	}
}

func wantRefused(t *testing.T, s *redisstore.Store, first, last int64, want error) {
	t.Helper()
	if err := s.Push(t.Context(), []model.PushRequest{request(t, s, first, last)})[0]; !errors.Is(err, want) {
		t.Fatalf("push %d…%d: %v, want %v", first, last, err, want)
	}
}

// cut stops a replica from hearing its master, as a network split would.
func cut(t *testing.T, c *redis.Client) { do(t, c, "REPLICAOF", "127.0.0.1", "1") }

func TestPromotedReplica(t *testing.T) {
	master := testserver.Redis(t)
	replica := testserver.RedisReplica(t, master)
	s, after := openAt(t, master.Addr), openAt(t, replica.Addr)
	listtest.Fill(t, s, key(), 1, 5000)
	waitReplicated(t, master.Client(), replica.Client())
	cut(t, replica.Client())
	seen := map[int64]bool{}
	for _, index := range listtest.Pop(t, s, key(), 1000).Indices {
		seen[index] = true
	}
	wantAdvice(t, popErr(t, after), "READONLY", "master")
	do(t, replica.Client(), "REPLICAOF", "NO", "ONE")
	if purged := popUntilEmpty(t, after, seen); purged != 5000 {
		t.Errorf("%d purged, want 5000", purged)
	}
	listtest.Fill(t, after, key(), 5001, 6000)
	popUntilEmpty(t, after, seen)
}

func waitReplicated(t *testing.T, master, replica *redis.Client) {
	t.Helper()
	check.Eventually(t, "replication", func() error {
		a, errA := master.LLen(t.Context(), listName).Result()
		b, errB := replica.LLen(t.Context(), listName).Result()
		if a != b {
			return errors.Join(errors.New("not yet"), errA, errB)
		}
		return errors.Join(errA, errB)
	})
}

// A is demoted, B serves, A comes back with what it had: its run_id is the same.
func TestThereAndBack(t *testing.T) {
	a := testserver.Redis(t)
	s, c := openAt(t, a.Addr), a.Client()
	listtest.Fill(t, s, key(), 1, 5000)
	cut(t, c)
	wantAdvice(t, popErr(t, s), "READONLY")
	do(t, c, "REPLICAOF", "NO", "ONE")
	if p := listtest.Pop(t, s, key(), 100); len(p.Indices) != 0 || p.Purged != 5000 {
		t.Fatalf("after A→B→A: %+v", p)
	}
}

func TestListsOfUnknownOrigin(t *testing.T) {
	server := testserver.SharedRedis(t)
	for name, damage := range map[string][]any{
		"meta evicted, or none":    {"DEL", metaName}, // as of the original service
		"history lost":             {"HDEL", metaName, "h"},
		"mark lost":                {"HDEL", metaName, "w"},
		"another server's history": {"HSET", metaName, "h", "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb"},
	} {
		for _, first := range []string{"pop", "state", "push"} {
			t.Run(name+", then "+first, func(t *testing.T) {
				server.FlushAll()
				s, c := openAt(t, server.Addr), server.Client()
				listtest.Fill(t, s, key(), 1, 1000)
				req := request(t, s, 1001, 1010)
				listtest.Pop(t, s, key(), 10)
				do(t, c, damage...)
				switch first {
				case "pop":
					if p := listtest.Pop(t, s, key(), 10); len(p.Indices) != 0 || p.Purged != 990 {
						t.Errorf("popped %+v", p)
					}
				case "state":
					if st := listtest.State(t, s, key()); st.Len != 0 || st.Purged != 990 {
						t.Errorf("state %+v", st)
					}
				default:
					// Allocated for the list that was lost, it may be below what
					// another one has held since.
					check.Is(t, s.Push(t.Context(), []model.PushRequest{req})[0], model.ErrLifeChanged)
					listtest.Fill(t, s, key(), 1011, 1020)
					listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 1011, 1020)
				}
			})
		}
	}
}

// A list of another type is somebody else's: an error, and nothing is removed.
func TestForeignKeys(t *testing.T) {
	server := testserver.SharedRedis(t)
	for name, test := range map[string]struct {
		set  []any
		word string
	}{
		"list is a string": {[]any{"SET", listName, "x"}, "WRONGTYPE"},
		"meta is a string": {[]any{"SET", metaName, "x"}, "WRONGTYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			server.FlushAll()
			s, c := openAt(t, server.Addr), server.Client()
			do(t, c, test.set...)
			other := model.ListKey{App: 3, Shard: 3}
			states := s.State(t.Context(), []model.ListKey{key(), other})
			wantAdvice(t, states[0].Err, test.word, "of its own")
			if states[1].Err != nil {
				t.Errorf("another list suffers: %v", states[1].Err)
			}
			wantAdvice(t, popErr(t, s), test.word)
			errs := s.Push(t.Context(), []model.PushRequest{
				{Key: key(), Life: states[1].Life, Segment: model.Segment{First: 1, Last: 9}, Cap: 9},
				{Key: other, Life: states[1].Life, Segment: model.Segment{First: 1, Last: 9}, Cap: 9},
			})
			wantAdvice(t, errs[0], test.word)
			if errs[1] != nil {
				t.Error(errs[1])
			}
			check.Equal(t, do(t, c, "GET", test.set[1]), "x", "the foreign key holds")
		})
	}
	t.Run("list holds words", func(t *testing.T) {
		server.FlushAll()
		s := openAt(t, server.Addr)
		listtest.Fill(t, s, key(), 1, 1)
		do(t, server.Client(), "RPUSH", listName, "two")
		wantAdvice(t, check.Err(s.Pop(context.Background(), key(), 2)), "something else writes")
	})
}

// A reshard that was interrupted leaves a slot open for as long as nobody looks, also while
// the cluster is scaled out, to a node that owns no slot yet and that lets nobody in but our
// user. Its lists go on: filled or empty, moved as a whole, in part or not at all. So do locks.
func TestAnOpenSlotStopsNothing(t *testing.T) {
	check.Deep(t)
	setup := testserver.Cluster(t)
	from := slotOf(t, setup, listName) * 3 / 16384
	t.Run("between nodes", func(t *testing.T) {
		openSlotStopsNoList(t, setup, setup.Nodes[from], setup.Nodes[(from+1)%3])
	})
	target := setup.Join()
	t.Run("to a new node", func(t *testing.T) { openSlotStopsNoList(t, setup, setup.Nodes[from], target) })
	t.Run("a lock", func(t *testing.T) { openSlotStopsNoLock(t, setup, target) })
}

func openSlotStopsNoLock(t *testing.T, setup *testserver.ClusterSetup, target *testserver.RedisServer) {
	slot := slotOf(t, setup, "id.gen.lock_1_2")
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
	openSlot(t, slot, setup.Nodes[slot*3/16384], target)
	for i, want := range []bool{true, false} {
		got, err := s.TryLock(t.Context(), []string{"1_2", fmt.Sprint("1_3", i)}, fmt.Sprint("token", i), time.Minute)
		if err != nil || got[0] != want || !got[1] {
			t.Errorf("try %d: %v, %v", i, got, err)
		}
	}
	check.OK(t, s.Unlock(t.Context(), []string{"1_2"}, "token0"))
	got, err := s.TryLock(t.Context(), []string{"1_2"}, "token2", time.Minute)
	if err != nil || !got[0] {
		t.Errorf("after the unlock: %v, %v", got, err)
	}
}

func slotOf(t *testing.T, setup *testserver.ClusterSetup, key string) int {
	t.Helper()
	return int(do(t, setup.Nodes[0].Client(), "CLUSTER", "KEYSLOT", key).(int64))
}

func nodeID(t *testing.T, n *testserver.RedisServer) string {
	t.Helper()
	return strings.TrimSpace(do(t, n.Client(), "CLUSTER", "MYID").(string))
}

func openSlot(t *testing.T, slot int, source, target *testserver.RedisServer) {
	t.Helper()
	do(t, target.Client(), "CLUSTER", "SETSLOT", slot, "IMPORTING", nodeID(t, source))
	do(t, source.Client(), "CLUSTER", "SETSLOT", slot, "MIGRATING", nodeID(t, target))
}

func openSlotStopsNoList(t *testing.T, setup *testserver.ClusterSetup, source, target *testserver.RedisServer) {
	slot := slotOf(t, setup, listName)
	for _, n := range []*testserver.RedisServer{setup.Nodes[0], setup.Nodes[1], setup.Nodes[2], target} {
		do(t, n.Client(), "ACL", "SETUSER", "bob", "on", ">"+secret, "~*", "+@all")
	}
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs, Username: "bob", Password: secret})
	move := func(keys ...any) {
		t.Helper()
		host, port, _ := strings.Cut(target.Addr, ":")
		do(t, source.Client(), append([]any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	for name, keys := range map[string][]any{
		"nothing moved":      nil,
		"the hash moved":     {metaName},
		"the list moved":     {listName},
		"both moved":         {metaName, listName},
		"the list was empty": nil,
		"no keys yet":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range append(setup.Nodes, target) {
				do(t, n.Client(), "CLUSTER", "SETSLOT", slot, "STABLE")
				n.FlushAll()
			}
			seen, next := map[int64]bool{}, int64(1)
			fill := func() error {
				st := s.Probe(t.Context(), []model.ListKey{key()})[0]
				if st.Err != nil {
					return st.Err
				}
				first := max(next, st.HighWater+1)
				next = first + 3000
				return s.Push(t.Context(), []model.PushRequest{{Key: key(), Life: st.Life, Segment: model.Segment{First: first, Last: next - 1}, Cap: 1 << 40}})[0]
			}
			pop := func() error {
				p, err := s.Pop(t.Context(), key(), 1000)
				if err == nil && len(p.Indices) == 0 {
					err = errors.New("nothing came")
				}
				for _, index := range p.Indices {
					if seen[index] {
						t.Errorf("index %d came twice", index)
					}
					seen[index] = true
				}
				return err
			}
			if name != "no keys yet" {
				check.Must(t, errors.Join(fill(), pop()))
			}
			for name == "the list was empty" && pop() == nil {
			}
			openSlot(t, slot, source, target)
			if keys != nil {
				move(keys...)
			}
			tries := 0
			for range 8 { // each empties the list
				check.Eventually(t, "pop and refill", func() error {
					tries++
					if pop() == nil {
						return nil
					}
					return fill()
				})
				for pop() == nil {
				}
			}
			if tries > 40 {
				t.Errorf("%d tries for 8 rounds", tries)
			}
			if len(seen) < 10_000 {
				t.Errorf("%d indices in all", len(seen))
			}
			for _, n := range []*testserver.RedisServer{target, source} { // the reshard ends
				do(t, n.Client(), "CLUSTER", "SETSLOT", slot, "NODE", nodeID(t, source))
			}
			check.Eventually(t, "back", func() error {
				if pop() == nil {
					return nil
				}
				_ = fill()
				return errors.New("not yet")
			})
		})
	}
}
