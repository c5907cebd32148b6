//go:build unix

package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// cpu reports the CPU time the server used per operation, in µs.
func cpu(b *testing.B, c *redis.Client) func() {
	b.Helper()
	used := func() (seconds float64) {
		info := c.InfoMap(b.Context(), "cpu").Val()["CPU"]
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			var part float64
			_, _ = fmt.Sscan(info[name], &part)
			seconds += part
		}
		return seconds
	}
	before := used()
	return func() { b.ReportMetric((used()-before)*1e6/float64(b.N), "redis-µs/op") }
}

func BenchmarkStateOf16384(b *testing.B) {
	server := testserver.Redis(b)
	s, c := openAt(b, server.Addr), server.Client()
	keys := manyKeys(model.Apps * model.Shards)
	fill(b, s, keys, 5)
	b.Run("guarded", func(b *testing.B) {
		defer cpu(b, c)()
		for range b.N {
			if st := s.State(b.Context(), keys); st[len(st)-1].Len != 5 {
				b.Fatal(st[len(st)-1])
			}
		}
	})
	b.Run("LLEN pipelined by 1024", func(b *testing.B) {
		defer cpu(b, c)()
		for range b.N {
			for from := 0; from < len(keys); from += 1024 {
				_, err := c.Pipelined(b.Context(), func(p redis.Pipeliner) error {
					for _, k := range keys[from : from+1024] {
						p.LLen(b.Context(), "id.gen.idList_"+k.String())
					}
					return nil
				})
				check.Must(b, err)
			}
		}
	})
}

func fill(b *testing.B, s *redisstore.Store, keys []model.ListKey, n int64) {
	b.Helper()
	reqs := make([]model.PushRequest, len(keys))
	for i, st := range s.State(b.Context(), keys) {
		reqs[i] = model.PushRequest{Key: keys[i], Life: st.Life, Cap: 1 << 40,
			Segment: model.Segment{First: st.HighWater + 1, Last: st.HighWater + n}}
	}
	for _, err := range s.Push(b.Context(), reqs) {
		check.Must(b, err)
	}
}

func BenchmarkPush1024Times1000(b *testing.B) {
	server := testserver.Redis(b)
	s, c := openAt(b, server.Addr), server.Client()
	keys := manyKeys(1024)
	empty := func(b *testing.B) {
		b.StopTimer()
		check.Must(b, s.Delete(b.Context(), keys))
		b.StartTimer()
	}
	b.Run("guarded", func(b *testing.B) {
		defer cpu(b, c)()
		for range b.N {
			empty(b)
			fill(b, s, keys, 1000)
		}
	})
	b.Run("RPUSH pipelined by 64", func(b *testing.B) {
		defer cpu(b, c)()
		for range b.N {
			empty(b)
			for from := 0; from < len(keys); from += 64 {
				pushPlain(b, c, keys[from:from+64])
			}
		}
	})
}

func pushPlain(b *testing.B, c *redis.Client, keys []model.ListKey) {
	b.Helper()
	_, err := c.Pipelined(b.Context(), func(p redis.Pipeliner) error {
		for _, k := range keys {
			values := make([]any, 1000)
			for i := range values {
				values[i] = i + 1_000_000
			}
			p.RPush(b.Context(), "id.gen.idList_"+k.String(), values...)
		}
		return nil
	})
	check.Must(b, err)
}
