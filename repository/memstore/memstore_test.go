package memstore_test

import (
	"runtime"
	"testing"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/memstore"
	"shardid/repository/sequencetest"
)

func TestContract(t *testing.T) {
	listtest.Run(t, func(*testing.T) listtest.Store { return memstore.New() })
}

func TestSequencesContract(t *testing.T) {
	sequencetest.Run(t, func(*testing.T) sequencetest.Store { return memstore.NewSequences() })
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
