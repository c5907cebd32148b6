//go:build unix

package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// A reshard that was interrupted leaves a slot open for as long as nobody looks. Its
// lists go on: filled or empty, moved as a whole, in part or not at all.
func TestAnOpenSlotStopsNoList(t *testing.T) {
	setup := testserver.Cluster(t)
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
	slot := do(t, setup.Nodes[0].Client(), "CLUSTER", "KEYSLOT", listName).(int64)
	from := int(slot * 3 / 16384)
	source, target := setup.Nodes[from], setup.Nodes[(from+1)%3]
	id := func(n *testserver.RedisServer) string {
		return strings.TrimSpace(do(t, n.Client(), "CLUSTER", "MYID").(string))
	}
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
			for _, n := range setup.Nodes {
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
				return s.Push(t.Context(), []model.PushRequest{{Key: key(), History: st.History, Segment: model.Segment{First: first, Last: next - 1}, Cap: 1 << 40}})[0]
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
			do(t, target.Client(), "CLUSTER", "SETSLOT", slot, "IMPORTING", id(source))
			do(t, source.Client(), "CLUSTER", "SETSLOT", slot, "MIGRATING", id(target))
			if keys != nil {
				move(keys...)
			}
			tries := 0
			for range 8 { // each empties the list
				eventually(t, "pop and refill", func() error {
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
				do(t, n.Client(), "CLUSTER", "SETSLOT", slot, "NODE", id(source))
			}
			eventually(t, "back", func() error {
				if pop() == nil {
					return nil
				}
				_ = fill()
				return errors.New("not yet")
			})
		})
	}
}
