// Command golang uses shardid by libraries that others wrote.
//
//	golang bwmarrin|sonyflake|yitter                  makes IDs
//	golang PORT rueidis|go-redis OPTIONS COMMAND      asks for IDs, as the clients of Redis in programs.md
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/sony/sonyflake"
	"github.com/yitter/idgenerator-go/idgen"
)

func main() {
	if len(os.Args) == 2 {
		makeIDs(os.Args[1])
	}
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

// makeIDs makes IDs with a library and a worker ID that `shardid lease` has in the environment, and prints them until
// it is ended.
func makeIDs(library string) {
	worker, epoch := number("WORKER_ID"), number("EPOCH")
	workerBits, seqBits := number("WORKER_BITS"), number("SEQ_BITS")
	var next func() (int64, error)
	switch library {
	case "bwmarrin":
		snowflake.Epoch, snowflake.NodeBits, snowflake.StepBits = epoch, uint8(workerBits), uint8(seqBits)
		node, err := snowflake.NewNode(worker)
		if err != nil {
			log.Fatal(err)
		}
		next = func() (int64, error) { return node.Generate().Int64(), nil }
	case "sonyflake": // 16 worker bits, 8 of sequence, 10 ms
		flake := sonyflake.NewSonyflake(sonyflake.Settings{
			StartTime: time.UnixMilli(epoch), MachineID: func() (uint16, error) { return uint16(worker), nil },
		})
		next = func() (int64, error) {
			id, err := flake.NextID()
			return int64(id), err
		}
	case "yitter":
		options := idgen.NewIdGeneratorOptions(uint16(worker))
		options.Method = 2 // the other one runs ahead of the clock
		options.BaseTime, options.WorkerIdBitLength, options.SeqBitLength = epoch, byte(workerBits), byte(seqBits)
		idgen.SetIdGenerator(options)
		next = func() (int64, error) { return idgen.NextId(), nil }
	}
	out := bufio.NewWriter(os.Stdout)
	for {
		for range 20 {
			id, err := next()
			if err != nil {
				log.Fatal(err)
			}
			fmt.Fprintln(out, id)
		}
		if err := out.Flush(); err != nil {
			log.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func number(key string) int64 {
	n, err := strconv.ParseInt(os.Getenv("SHARDID_"+key), 10, 64)
	if err != nil {
		log.Fatal(key, ": ", err)
	}
	return n
}
