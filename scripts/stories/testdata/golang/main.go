// Command golang asks shardid for IDs as the clients of Redis in programs.md do:
//
//	golang PORT rueidis|go-redis OPTIONS COMMAND
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

func main() {
	ask := map[string]func(addr, command string) func() any{"rueidis": byRueidis, "go-redis": byGoRedis}[os.Args[2]]
	next := ask("127.0.0.1:"+os.Args[1], os.Args[4])
	var seen sync.Map
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 100 {
				seen.Store(next(), true)
			}
		})
	}
	all.Wait()
	distinct := 0
	kind := ""
	seen.Range(func(id, _ any) bool {
		distinct++
		kind = fmt.Sprintf("%T", id)
		return true
	})
	fmt.Printf("{\"type\":%q,\"distinct\":%d}\n", kind, distinct)
}

// must is an ID, or the end.
func must[T any](id T, err error) any {
	if err != nil {
		log.Fatal(err)
	}
	return id
}

func byRueidis(addr, command string) func() any {
	ctx := context.Background()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	return map[string]func() any{
		"INCR": func() any { return must(c.Do(ctx, c.B().Incr().Key("snowflake").Build()).AsInt64()) },
		"LPOP": func() any { return must(c.Do(ctx, c.B().Lpop().Key("snowflake").Build()).AsInt64()) },
		"MULTI": func() any {
			all := c.DoMulti(ctx, c.B().Multi().Build(), c.B().Incr().Key("snowflake").Build(), c.B().Exec().Build())
			ids, err := all[2].AsIntSlice()
			return must(append(ids, 0)[0], err)
		},
	}[command]
}

func byGoRedis(addr, command string) func() any {
	ctx := context.Background()
	c := redis.NewClient(&redis.Options{Addr: addr})
	return map[string]func() any{
		"INCR": func() any { return must(c.Incr(ctx, "snowflake").Result()) },
		"LPOP": func() any { return must(c.LPop(ctx, "snowflake").Result()) },
		"MULTI": func() any {
			pipe := c.TxPipeline()
			id := pipe.Incr(ctx, "snowflake")
			_, err := pipe.Exec(ctx)
			return must(id.Val(), err)
		},
	}[command]
}
