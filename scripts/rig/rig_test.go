package rig

import (
	"slices"
	"testing"

	"shardid/scripts/check"
)

// TestLedgerNotices: a ledger that sees nothing wrong would prove nothing.
func TestLedgerNotices(t *testing.T) {
	l := &Ledger{}
	l.Queue("me", 1, "alice", 1<<14|1, 5000<<14|1, 1<<60|1)
	l.Queue("me", 1, "hello", 1<<14|18<<8|1)
	l.Add("me", List{App: -2}, 1, 1<<62)
	l.Rise(0, 1, 2, 5)
	l.Rise(2, 3, 9)
	if l.Count() != 11 || l.Duplicates() != 0 || len(l.Problems()) != 0 || l.Last() != 1<<62 {
		t.Fatalf("%d IDs up to %d, %d duplicates, %v", l.Count(), l.Last(), l.Duplicates(), l.Problems())
	}
	if ids, gaps := l.OfQueue(); ids != 4 || gaps != 1<<46-3 {
		t.Errorf("%d of the queue, %d gaps", ids, gaps)
	}
	want := []int64{1, 1, 2, 3, 5, 9, 16385, 1<<14 | 18<<8 | 1, 5000<<14 | 1, 1<<60 | 1, 1 << 62}
	if got := l.IDs(); !slices.Equal(got, want) {
		t.Errorf("IDs %v", got)
	}
	blamed := 0
	for i, bad := range []func(){
		func() { l.Queue("me", 1, "alice", 5000<<14|1) }, func() { l.Queue("me", 1, "alice", 1<<60|1) },
		func() { l.Queue("me", 1, "alice", 3<<14|2) },
		func() { l.Queue("me", 1, "alice", 3<<14|1<<8|1) }, func() { l.Queue("me", 1, "alice", 1) },
		func() { l.Queue("me", 1, "alice", 0) },
		func() { l.Queue("me", 1, "alice", -1<<14|1) }, func() { l.Add("me", List{App: -2}, 1) },
		func() { l.Add("me", List{App: -2}, 0) },
		func() { l.Rise(0, 9) }, func() { l.Rise(7, 6) }, func() { l.Rise(-9, 0) }, func() { l.Rise(-9, -4) },
		func() { l.Complain("no") },
	} {
		bad()
		check.Equal(t, len(l.Problems()), blamed+1, i, l.Problems()[blamed:])
		blamed = len(l.Problems())
	}
	if l.Duplicates() != 4 || l.Count() != 12 {
		t.Errorf("%d duplicates, %d IDs", l.Duplicates(), l.Count())
	}
	other := &Ledger{}
	other.Queue("me", 1, "alice", 2<<14|1)
	other.Add("me", List{App: -3}, 1)
	check.Equal(t, l.Common(other), 0)
	other.Queue("me", 1, "alice", 5000<<14|1)
	other.Add("me", List{App: -2}, 1, 2, 1<<62)
	check.Equal(t, l.Common(other), 3)
}

func TestShardOf(t *testing.T) {
	for pass, want := range map[string]int64{"a": 33, "hello": 18, "张三": 41, "alice": 0, "polygenelubricants": 0} {
		check.Equal(t, ShardOf(pass), want, pass)
	}
	if pass := PassOf(18); ShardOf(pass) != 18 {
		t.Error(pass)
	}
}
