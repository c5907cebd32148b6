// As node.js beside this file, by rueidis: rueidis PORT LIBRARY OPTIONS COMMAND.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/redis/rueidis"
)

func main() {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + os.Args[1]}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ask := map[string]func() rueidis.RedisResult{
		"INCR": func() rueidis.RedisResult { return c.Do(context.Background(), c.B().Incr().Key("snowflake").Build()) },
		"LPOP": func() rueidis.RedisResult { return c.Do(context.Background(), c.B().Lpop().Key("snowflake").Build()) },
		"MULTI": func() rueidis.RedisResult {
			all := c.DoMulti(context.Background(), c.B().Multi().Build(), c.B().Incr().Key("snowflake").Build(), c.B().Exec().Build())
			ids, err := all[2].ToArray()
			if err != nil || len(ids) != 1 {
				log.Fatal(ids, err)
			}
			return all[2]
		},
	}[os.Args[4]]
	var seen sync.Map
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 100 {
				answer := ask()
				id, err := answer.AsInt64()
				if os.Args[4] == "MULTI" {
					var ids []int64
					if ids, err = answer.AsIntSlice(); err == nil {
						id = ids[0]
					}
				}
				if err != nil {
					log.Fatal(err)
				}
				seen.Store(id, true)
			}
		})
	}
	all.Wait()
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	fmt.Printf("{\"type\":\"int64\",\"distinct\":%d}\n", n)
}
