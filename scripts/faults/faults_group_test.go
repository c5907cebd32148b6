//go:build unix

package faults

import (
	"time"

	"shardid/scripts/testserver"
)

// startGroup starts the database as a group that does without a lost node after 5 s, and not 21, until that
// one has been started again.
func (w *world) startGroup() {
	w.t.Helper()
	w.group = testserver.Group(w.t)
	for _, n := range w.group.Nodes {
		w.sql = openSQL(w.t, n.DSN(""))
		w.exec("SET GLOBAL group_replication_member_expel_timeout = 0")
	}
}

// withoutPrimary breaks the primary of the group, which goes on with another one. In the end what was
// broken is mended and joins again.
func withoutPrimary(breaks func(*world, *testserver.MariaDBServer) (mend func())) func(*world) {
	return func(w *world) {
		old := w.group.Primary()
		begun := time.Now()
		mend := breaks(w, old)
		if mend == nil {
			return
		}
		next := w.group.AnotherPrimary(old)
		w.note("another primary after %v", time.Since(begun).Round(10*time.Millisecond))
		w.sql = openSQL(w.t, next.DSN(w.database))
		w.later(func() {
			mend()
			w.group.Rejoin(old)
		})
		w.linger(4 * time.Second)
	}
}

func killed(_ *world, n *testserver.MariaDBServer) (mend func()) {
	n.Kill()
	return func() {}
}

// startedOutside: the node takes writes that nobody else has, until it joins.
func startedOutside(_ *world, n *testserver.MariaDBServer) (mend func()) {
	n.Kill()
	n.Restart()
	return func() {}
}

func frozen(_ *world, n *testserver.MariaDBServer) (mend func()) {
	n.Pause()
	return n.Resume
}

// cutOff: the node hears no other, and still answers everybody else.
func cutOff(w *world, n *testserver.MariaDBServer) (mend func()) {
	if !w.group.CanCut() {
		w.note("no right to make networks: not cut")
		return nil
	}
	return w.group.Cut(n)
}

func primarySwitched(w *world) {
	w.group.Switch()
	w.sql = openSQL(w.t, w.group.Primary().DSN(w.database))
	w.linger(2 * time.Second)
}
