//go:build unix

package sqlstore

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"shardid/model"
	"shardid/scripts/testserver"
)

// BenchmarkAllocate: segments per second, one list or 64 of one app in a
// transaction, by one caller and by 8.
func BenchmarkAllocate(b *testing.B) {
	for name, opts := range map[string]Options{
		"MariaDB": {Driver: MySQL, DSN: testserver.SharedMariaDB(b).NewDatabase(b)},
		"SQLite":  {Driver: SQLite, DSN: filepath.Join(b.TempDir(), "shardid.db")},
	} {
		s := openMigrated(b, opts)
		for id := range uint8(8) {
			provision(b, s, app(id))
		}
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/rows=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					take(b, s, 0, n)
				}
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "segments/s")
			})
			b.Run(fmt.Sprintf("%s/rows=%d/callers=8", name, n), func(b *testing.B) {
				b.SetParallelism(4) // of 2 cores
				var ids = make(chan uint8, 1)
				ids <- 0
				b.RunParallel(func(pb *testing.PB) {
					id := <-ids
					ids <- (id + 1) % 8
					for pb.Next() {
						take(b, s, id, n)
					}
				})
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "segments/s")
			})
		}
	}
}

func take(b *testing.B, s *Store, id uint8, n int) {
	keys := make([]model.ListKey, n)
	for i := range keys {
		keys[i] = key(id, uint8(i))
	}
	for _, got := range s.Allocate(context.Background(), ask(keys...)) {
		if got.Err != nil {
			b.Error(got.Err)
		}
	}
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

// BenchmarkAllocateTag: segments per second of one tag, by one caller and by 8,
// and of 8 tags by 8 callers.
func BenchmarkAllocateTag(b *testing.B) {
	for name, opts := range map[string]Options{
		"MariaDB": {Driver: MySQL, DSN: testserver.SharedMariaDB(b).NewDatabase(b)},
		"SQLite":  {Driver: SQLite, DSN: filepath.Join(b.TempDir(), "shardid.db")},
	} {
		s := openMigrated(b, opts)
		for i := range 8 {
			addTag(b, s, fmt.Sprint("tag", i), 1000)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				takeTag(b, s, "tag0")
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "segments/s")
		})
		for _, tags := range []int64{1, 8} {
			b.Run(fmt.Sprintf("%s/tags=%d/callers=8", name, tags), func(b *testing.B) {
				var next atomic.Int64
				b.SetParallelism(4) // of 2 cores
				b.RunParallel(func(pb *testing.PB) {
					tag := fmt.Sprint("tag", next.Add(1)%tags)
					for pb.Next() {
						takeTag(b, s, tag)
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "segments/s")
			})
		}
	}
}

func takeTag(b *testing.B, s *Store, tag string) {
	if _, err := s.AllocateTag(context.Background(), model.TagRequest{Tag: tag}); err != nil {
		b.Error(err)
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
