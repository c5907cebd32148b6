// Command holders makes IDs with a library that others wrote and a worker ID that `shardid lease`
// has in the environment, and prints them until it is ended: holders bwmarrin|sonyflake|yitter.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake"
	"github.com/yitter/idgenerator-go/idgen"
)

func main() {
	worker, epoch := number("WORKER_ID"), number("EPOCH")
	workerBits, seqBits := number("WORKER_BITS"), number("SEQ_BITS")
	var next func() (int64, error)
	switch os.Args[1] {
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
