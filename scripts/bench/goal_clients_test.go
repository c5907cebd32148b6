//go:build unix

package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	idclient "shardid/client"
)

// clientContest is the contest of protocols, and these are its contenders beside bareGin.
const (
	clientContest = "clients"
	respSingle    = "RESP, INCR"
	respPipelined = "RESP, INCR pipelined by 16"
	respBatch     = "RESP, LPOP key 100"
	respEmbedded  = "RESP, INCR, embedded"
	pipeEmbedded  = "RESP, INCR pipelined by 16, embedded"
	lpopEmbedded  = "RESP, LPOP key 100, embedded"
	tinyidSingle  = "tinyid, nextIdSimple"
	tinyidRun     = "tinyid, nextSegmentIdSimple"
	goClient      = "Go client"
	goClientHeld  = "Go client, held IDs"
)

// sustained and tailNext are figures of the Go client, refills over the network included.
const (
	sustained = "IDs/s"
	tailNext  = "p99.9 of Next, ms"
)

// measureClients is goal 11: what is to be had beside a request for each ID.
func measureClients(t *testing.T, s *suite) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000, batchApp: 100_000})
	own := s.serveShardid(t, d.settings().With(settings{"RESP_ADDR": "127.0.0.1:0"}), singleApp)
	embedded := s.serveShardid(t, settings{"RESP_ADDR": "127.0.0.1:0"}, singleApp, "--demo")
	var bare *daemon
	s.onServerCore(t, func() { bare = serve(t, settings{"GOMAXPROCS": s.procs()}, s.bare) })
	resp := func(d *daemon, name string, r request) contender {
		addr := d.Said("listening for Redis clients")
		r.mode = "queue"
		return contender{name, func() figures { return s.load(t, "redis://"+addr, r, s.plan.warmup, s.plan.load).figures() }}
	}
	got := s.contest(clientContest, s.plan.races, []contender{
		{bareGin, s.loadOf(t, bare, request{mode: "queue", app: singleApp})},
		resp(own, respSingle, request{app: singleApp}),
		resp(own, respPipelined, request{app: singleApp, pipeline: 16}),
		resp(own, respBatch, request{app: batchApp, count: 100}),
		resp(embedded, respEmbedded, request{app: singleApp}),
		resp(embedded, pipeEmbedded, request{app: singleApp, pipeline: 16}),
		resp(embedded, lpopEmbedded, request{app: singleApp, count: 100}),
		{tinyidSingle, s.loadOf(t, own, request{raw: "/tinyid/id/nextIdSimple?bizType=" + tag + "&token=x"})},
		{tinyidRun, s.loadOf(t, own, request{raw: "/tinyid/id/nextSegmentIdSimple?bizType=" + tag + "&token=x"})},
		{goClient, func() figures { return s.drawByClient(t, embedded.url) }}, // where no segment.max_rate bounds a tag
		library{name: goClientHeld, dir: "client", pattern: "Next", cpu: "2"}.contender(t, s.root, s.plan.bench),
	})
	for _, r := range []request{
		{mode: "queue", app: singleApp, exact: true}, {mode: "queue", app: batchApp, count: 100, exact: true},
	} {
		s.load(t, "redis://"+own.Said("listening for Redis clients"), r, 0, time.Second)
	}
	judgeClients(s.report, got)
}

// drawByClient takes IDs of a tag one by one, as fast as one goroutine can, and then again
// with the time of each call, which costs more than most calls.
func (s *suite) drawByClient(t *testing.T, url string) figures {
	t.Helper()
	c, err := idclient.New(idclient.Options{Addrs: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	source, n := c.Segment(tag), 0
	next := func() {
		if _, err := source.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(s.plan.warmup); time.Now().Before(end); {
		next()
	}
	begun := time.Now()
	for time.Since(begun) < s.plan.load {
		for range 1000 {
			next()
		}
		n += 1000
	}
	speed := float64(n) / time.Since(begun).Seconds()
	took := make([]time.Duration, 0, 1<<24)
	before := time.Now()
	for end := before.Add(s.plan.load); len(took) < cap(took) && before.Before(end); {
		next()
		now := time.Now()
		took = append(took, now.Sub(before))
		before = now
	}
	slices.Sort(took)
	return figures{sustained: speed, tailNext: took[len(took)*999/1000].Seconds() * 1000}
}

// nextBy is the figure of a part of the Go client's benchmark.
func nextBy(part string) string { return "Next/" + part + "-2 ns/op" }

func judgeClients(r *report, got map[string]series) {
	bare := got[bareGin]
	eleven := r.goal(11, bare, got[respSingle], got[respPipelined], got[respBatch])
	eleven.atLeast("RESP, one ID at a time, of bare Gin", ratio(got[respSingle], bare, "req/s"), 1.5, "×", perSecond(got[respSingle]))
	eleven.atLeast("the same, pipelined by 16", ratio(got[respPipelined], bare, "req/s"), 15, "×", perSecond(got[respPipelined]))
	eleven.atLeast("IDs by LPOP key 100, of requests to bare Gin", 100*ratio(got[respBatch], bare, "req/s"), 75, "×", perSecond(got[respBatch]))
	for _, name := range []string{respEmbedded, pipeEmbedded, lpopEmbedded} {
		r.goal(11, bare, got[name]).tell(name+", of bare Gin", ratio(got[name], bare, "req/s"), "×", perSecond(got[name]))
	}
	tiny := r.goal(11, bare, got[tinyidSingle], got[tinyidRun])
	for _, name := range []string{tinyidSingle, tinyidRun} {
		tiny.tell(name+", of bare Gin", ratio(got[name], bare, "req/s"), "×", perSecond(got[name]))
	}
	held := got[goClientHeld]
	goes := r.goal(11, bare, held, got[goClient])
	for _, c := range []struct {
		what, benchmark string
		target          float64
		note            string
	}{
		{"an ID that the Go client holds, of a tag", "segment", 30, ""},
		{"the same, of a gatePass", "queue", 30, ""},
		{"an ID over two goroutines", "two_goroutines", 20, fmt.Sprintf("an atomic add over two takes %s ns", number(held.median(nextBy("atomic_add,_two_goroutines"))))},
	} {
		goes.atMost(c.what, math.Round(held.median(nextBy(c.benchmark))*10)/10, c.target, "ns", c.note)
	}
	goes.atMost("allocations for it", held.median("Next/segment-2 allocs/op"), 0, "", "")
	speed := got[goClient].median(sustained)
	goes.atLeast("IDs by the Go client, of requests to bare Gin", speed/bare.median("req/s"), 250, "×", fmt.Sprintf("%s million IDs/s, refills included", number(math.Round(speed/1e5)/10)))
	goes.atMost("p99.9 of Next meanwhile", got[goClient].median(tailNext), 1, "ms", "")
}
