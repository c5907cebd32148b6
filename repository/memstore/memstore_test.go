package memstore_test

import (
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	listtest.Run(t, func(*testing.T) listtest.Store { return memstore.New() })
}

func TestEachStoreHasItsHistory(t *testing.T) {
	key := model.ListKey{App: 1}
	a, b := listtest.State(t, memstore.New(), key), listtest.State(t, memstore.New(), key)
	if a.Life == b.Life || len(a.Life) < 20 {
		t.Errorf("lives %q and %q", a.Life, b.Life)
	}
}

func TestLockHoldsExactlyItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, names := memstore.New(), []string{"1_1"}
		got, _ := s.TryLock(t.Context(), names, "alice", time.Minute)
		time.Sleep(time.Minute - 1)
		early, _ := s.TryLock(t.Context(), names, "bob", time.Minute)
		time.Sleep(time.Nanosecond)
		late, _ := s.TryLock(t.Context(), names, "bob", time.Minute)
		if !got[0] || early[0] || !late[0] {
			t.Errorf("taken %v, a moment early %v, in time %v", got, early, late)
		}
	})
}

func TestMemoryGrowsWithSegmentsNotIndices(t *testing.T) {
	s, key := memstore.New(), model.ListKey{App: 1}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range int64(1000) {
		listtest.Fill(t, s, key, i*1_000_000+1, (i+1)*1_000_000)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("10^9 indices in 1000 segments take %d bytes", grown)
	}
	listtest.Expect(t, listtest.Pop(t, s, key, 10_000).Indices, 1, 10_000)
}

func BenchmarkPop(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s, key := memstore.New(), model.ListKey{App: 1}
			listtest.Fill(b, s, key, 1, int64(b.N*n)+1)
			b.ReportAllocs()
			for b.Loop() {
				if p, _ := s.Pop(b.Context(), key, n); len(p.Indices) == 0 {
					mark := listtest.State(b, s, key).HighWater
					listtest.Fill(b, s, key, mark+1, mark+1_000_000)
				}
			}
		})
	}
}
