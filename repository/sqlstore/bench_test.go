//go:build unix

package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// BenchmarkAllocate: segments per second, one list or 64 of one app in a
// transaction, by one caller and by 8.
func BenchmarkAllocate(b *testing.B) {
	onEach(b, func(b *testing.B, s *Store) {
		for id := range uint8(8) {
			provision(b, s, app(id))
		}
		for _, n := range []int{1, 64} {
			take := func(caller int64) error {
				keys := make([]model.ListKey, n)
				for i := range keys {
					keys[i] = key(uint8(caller%8), uint8(i))
				}
				var failed error
				for _, got := range s.Allocate(context.Background(), ask(keys...)) {
					failed = cmp.Or(failed, got.Err)
				}
				return failed
			}
			perSecond(b, fmt.Sprintf("rows=%d", n), n, 1, take)
			perSecond(b, fmt.Sprintf("rows=%d/callers=8", n), n, 8, take)
		}
	})
}

// BenchmarkAllocateTag: segments per second of one tag, by one caller and by 8,
// and of 8 tags by 8 callers.
func BenchmarkAllocateTag(b *testing.B) {
	onEach(b, func(b *testing.B, s *Store) {
		for i := range 8 {
			addTag(b, s, fmt.Sprint("tag", i), 1000)
		}
		for _, c := range []struct {
			tags    int64
			callers int
		}{{1, 1}, {1, 8}, {8, 8}} {
			perSecond(b, fmt.Sprintf("tags=%d/callers=%d", c.tags, c.callers), 1, c.callers, func(caller int64) error {
				return check.Err(s.AllocateTag(context.Background(), model.TagRequest{Tag: fmt.Sprint("tag", caller%c.tags)}))
			})
		}
	})
}

func onEach(b *testing.B, bench func(b *testing.B, s *Store)) {
	for name, opts := range map[string]Options{
		"MariaDB": {Driver: MySQL, DSN: testserver.SharedMariaDB(b).NewDatabase(b)},
		"SQLite":  {Driver: SQLite, DSN: filepath.Join(b.TempDir(), "shardid.db")},
	} {
		s := openMigrated(b, opts)
		b.Run(name, func(b *testing.B) { bench(b, s) })
	}
}

// perSecond has callers take n segments each time.
func perSecond(b *testing.B, name string, n, callers int, take func(caller int64) error) {
	b.Run(name, func(b *testing.B) {
		var next atomic.Int64
		b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
		each := func(more func() bool) {
			for caller := next.Add(1); more(); {
				check.OK(b, take(caller))
			}
		}
		if callers == 1 {
			each(b.Loop)
		} else {
			b.RunParallel(func(pb *testing.PB) { each(pb.Next) })
		}
		b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "segments/s")
	})
}

// BenchmarkLoad reads all 16,384 lists.
func BenchmarkLoad(b *testing.B) {
	s := openMigrated(b, Options{Driver: MySQL, DSN: testserver.SharedMariaDB(b).NewDatabase(b)})
	for id := range model.Apps {
		provision(b, s, app(uint8(id)))
	}
	for b.Loop() {
		if lists, err := s.Load(context.Background()); err != nil || len(lists) != model.Apps*model.Shards {
			b.Fatal(len(lists), err)
		}
	}
}

// BenchmarkTags reads 100,000 tags in parts.
func BenchmarkTags(b *testing.B) {
	s := openMigrated(b, Options{Driver: MySQL, DSN: testserver.SharedMariaDB(b).NewDatabase(b)})
	addTags(b, s, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if tags, err := s.Tags(context.Background()); err != nil || len(tags) != 100_000 {
			b.Fatal(len(tags), err)
		}
	}
}
