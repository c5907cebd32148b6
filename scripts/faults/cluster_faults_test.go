//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"shardid/scripts/rig"
)

// clusterGrows: a fourth master joins with a replica, takes slots over, and gives them up again. In between it has
// none yet, slots move with the keys in them, one key or some at a time, and it is killed while it imports.
func clusterGrows(w *world) {
	c := w.site.(*cluster)
	var masters []*node
	for _, p := range c.all {
		masters = append(masters, p.leader())
	}
	fourth := newNode(w.t, c.setup.Join())
	second := newNode(w.t, c.setup.Replica(fourth.RedisServer))
	w.everyList("a master has no slot")
	var moved []int64
	for i, from := range masters {
		for n, slot := range from.used("*") {
			if n%4 == i {
				w.moveSlot(slot, from, fourth, masters)
				moved = append(moved, slot)
			}
		}
	}
	w.note("%d slots moved", len(moved))
	w.everyList("slots have moved")

	half := map[int64]*node{} // slots of which some keys are with the fourth
	for _, from := range masters {
		for _, kind := range []string{listKeys, sectionKeys} {
			for _, slot := range from.used(kind)[:2] {
				half[slot] = from
				w.openSlot(slot, from, fourth)
				w.someKeys(slot, from, fourth)
			}
		}
	}
	w.until("the replica has all", (&pair{nodes: [2]*node{fourth, second}}).inSync)
	fourth.Kill()
	w.until("the replica leads", second.leads)
	for slot, from := range half { // until then the cluster sends callers to the one that was killed
		from.do("CLUSTER", "SETSLOT", slot, "STABLE")
	}
	w.everyList("a master was killed while it imported")
	fourth.Restart()
	w.until("the killed master follows", (&pair{nodes: [2]*node{second, fourth}}).inSync)
	for slot, from := range half { // the one that took over has keys of theirs, which are old
		w.moveSlot(slot, from, second, masters)
		moved = append(moved, slot)
	}
	for n, slot := range moved {
		w.moveSlot(slot, second, masters[n%len(masters)], masters)
	}
	w.everyList("all slots are back")
	for _, gone := range []*node{fourth, second} {
		id := gone.NodeID(w.t)
		gone.Kill()
		for _, p := range c.all {
			p.nodes[0].do("CLUSTER", "FORGET", id)
			p.nodes[1].do("CLUSTER", "FORGET", id)
		}
	}
}

// everyList returns when each list of an app has IDs.
func (w *world) everyList(when string) {
	w.t.Helper()
	for shard := range int64(64) {
		w.until(fmt.Sprintf("%s: list %d has IDs", when, shard), func() error {
			return w.ask(context.Background(), w.procs[int(shard)%len(w.procs)], mode{app: 1}, rig.PassOf(shard), 1)
		})
	}
}

// used are the slots of a master that have keys of a kind.
func (n *node) used(kind string) (slots []int64) {
	n.t.Helper()
	for _, key := range n.keys(kind) {
		slots = append(slots, n.do("CLUSTER", "KEYSLOT", key).(int64))
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// openSlot lets a slot move.
func (w *world) openSlot(slot int64, from, to *node) {
	w.t.Helper()
	to.do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.NodeID(w.t))
	from.do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.NodeID(w.t))
}

// someKeys moves a key of a slot, or up to three, and says whether there were any. Where the target has one
// already, an operator trusts the source, or the target.
func (w *world) someKeys(slot int64, from, to *node) bool {
	w.t.Helper()
	keys := from.do("CLUSTER", "GETKEYSINSLOT", slot, 1+slot%3).([]any)
	host, port, err := net.SplitHostPort(to.Addr)
	w.must(err)
	migrate := []any{"MIGRATE", host, port, "", 0, 5000}
	if from.c.Do(context.Background(), append(append(migrate, "KEYS"), keys...)...).Err() == nil {
		return len(keys) > 0
	}
	for _, key := range keys { // one that has moved meanwhile is no key here
		if slot%2 == 0 {
			_ = from.c.Do(context.Background(), append(slices.Clone(migrate), "REPLACE", "KEYS", key)...).Err()
		} else {
			_ = from.c.Do(context.Background(), "DEL", key).Err()
		}
	}
	return len(keys) > 0
}

// moveSlot moves a slot with its keys, as redis-cli does, and tells all masters.
func (w *world) moveSlot(slot int64, from, to *node, masters []*node) {
	w.t.Helper()
	w.openSlot(slot, from, to)
	w.until(fmt.Sprintf("slot %d has moved", slot), func() error {
		if w.someKeys(slot, from, to) {
			return errors.New("there are keys")
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // that callers meet an open slot
	for _, n := range append([]*node{to, from}, masters...) {
		err := n.c.Do(context.Background(), "CLUSTER", "SETSLOT", slot, "NODE", to.NodeID(w.t)).Err()
		if err != nil && !strings.Contains(err.Error(), "only with masters") { // one without slots becomes a replica
			w.t.Fatal(err)
		}
	}
}
