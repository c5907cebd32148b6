//go:build unix

package bench

import (
	"fmt"
	"testing"
	"time"
)

// httpContest is the contest of servers, and these are its contenders.
const (
	httpContest   = "servers"
	bareGin       = "bare Gin, a constant"
	plainDesign   = "plain design, LPOP a request"
	plainBatch    = "plain design, RPUSH and LPOP of 100"
	queueMode     = "shardid queue"
	queueBatch    = "shardid queue, 100 at once"
	queueEmbedded = "shardid queue, embedded"
	batchEmbedded = "shardid queue, embedded, 100 at once"
	segmentMode   = "shardid segment"
	snowflakeMode = "shardid snowflake"
	uidMode       = "shardid UID"
)

// More figures.
const (
	// callsPerID is commands that Redis got for each ID.
	callsPerID = "Redis calls/ID"
	// cpuPerRequest is the server's CPU time, in µs. Others who take the core away
	// make it rise far less than the speed sinks.
	cpuPerRequest = "server µs/request"
)

const (
	singleApp = 1 // asked for one ID at a time
	batchApp  = 3 // asked for batches
)

// measureServers is goals 1 and 3: each server alone on its core.
func measureServers(t *testing.T, s *suite) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000, batchApp: 1000})
	own := s.serveShardid(t, d.settings(), singleApp)
	embedded := s.serveShardid(t, nil, singleApp, "--demo")
	var bare, plain *daemon
	s.onServerCore(t, func() {
		procs := settings{"GOMAXPROCS": s.procs()}
		bare = serve(t, procs, s.bare)
		plain = serve(t, procs.With(settings{"REDIS_ADDR": d.redis.Addr}), s.plain)
	})
	single := request{mode: "queue", app: singleApp}
	got := s.contest(httpContest, s.plan.races, []contender{
		{bareGin, s.loadOf(t, bare, single)},
		{queueMode, func() figures { return s.loadQueue(t, d, own, single) }}, // beside the two it is compared with
		{plainDesign, s.loadOf(t, plain, single)},
		{plainBatch, s.loadOf(t, plain, request{mode: "queue", app: singleApp, count: 100})},
		{queueBatch, s.modeOf(t, own, queueBatch, request{mode: "queue", app: batchApp, count: 100})},
		{queueEmbedded, s.modeOf(t, embedded, queueEmbedded, single)},
		{batchEmbedded, s.modeOf(t, embedded, batchEmbedded, request{mode: "queue", app: singleApp, count: 100})},
		{segmentMode, s.modeOf(t, own, segmentMode, request{mode: "segment"})},
		{snowflakeMode, s.modeOf(t, own, snowflakeMode, request{mode: "snowflake"})},
		{uidMode, s.modeOf(t, own, uidMode, request{mode: "uid"})},
	})
	checkExactly(t, s, own)
	judgeServers(s.report, got)
}

// loadOf is a measurement of a server: how fast it was, and what that cost it.
func (s *suite) loadOf(t *testing.T, d *daemon, r request) func() figures {
	return func() figures {
		before := d.cpu()
		got := s.load(t, d.url, r, s.plan.warmup, s.plan.load).figures()
		// The warm-up's requests are not in the count; it is as fast as the rest.
		got[cpuPerRequest] = float64((d.cpu()-before)/time.Microsecond) / (got["req/s"] * (s.plan.warmup + s.plan.load).Seconds())
		return got
	}
}

// modeOf is loadOf for shardid, which can be profiled.
func (s *suite) modeOf(t *testing.T, d *daemon, name string, r request) func() figures {
	load := s.loadOf(t, d, r)
	return func() (got figures) {
		d.profiled(name, s.plan.warmup+s.plan.load, func() { got = load() })
		return got
	}
}

// loadQueue also counts what the stores are asked for each ID, warm-up included.
func (s *suite) loadQueue(t *testing.T, d deployment, own *daemon, r request) figures {
	t.Helper()
	const issued = "shardid_queue_issued_total"
	calls, ids := d.redisCalls(t), own.metric(issued)
	got := s.modeOf(t, own, queueMode, r)()
	got[callsPerID] = (d.redisCalls(t) - calls) / (own.metric(issued) - ids)
	return got
}

// checkExactly runs each mode once more, with every ID held against all others: the
// fastest answer is worth nothing when it was given before.
func checkExactly(t *testing.T, s *suite, own *daemon) {
	t.Helper()
	for _, r := range []request{
		{mode: "queue", app: singleApp, exact: true}, {mode: "queue", app: batchApp, count: 100, exact: true},
		{mode: "segment", exact: true}, {mode: "snowflake", exact: true}, {mode: "uid", exact: true},
	} {
		s.load(t, own.url, r, 0, time.Second)
	}
}

func judgeServers(r *report, got map[string]series) {
	bare, plain, own := got[bareGin], got[plainDesign], got[queueMode]
	one := r.goal(1, bare, plain, own)
	one.atLeast("/get over 64 lists, of bare Gin", ratio(own, bare, "req/s"), 0.95, "×", perSecond(own)+spread(own, bare, "req/s"))
	one.atLeast("/get, of the plain design", ratio(own, plain, "req/s"), 1.9, "×", perSecond(plain)+" there")
	one.atMost("p99 of /get, of the plain design's", ratio(own, plain, "p99 ms"), 0.9, "×", number(own.median("p99 ms"))+" ms and "+number(plain.median("p99 ms"))+" ms")
	one.atMost("calls to Redis for an ID", own.median(callsPerID), 0.02, "", "")
	one.tell("CPU time of a /get, of bare Gin's", ratio(own, bare, cpuPerRequest), "×", number(own.median(cpuPerRequest))+" µs and "+number(bare.median(cpuPerRequest))+" µs")
	one.absent("level with leaf-go", "leaf-go is not part of this run; elsewhere it had 1.01 to 1.05 × bare Gin")
	for _, name := range []string{queueEmbedded, segmentMode, snowflakeMode, uidMode} {
		r.goal(1, bare, got[name]).tell(name+", of bare Gin", ratio(got[name], bare, "req/s"), "×", perSecond(got[name]))
	}
	judgeBatches(r, got)
}

// judgeBatches is goal 3. With real stores the load and Redis share a core, which at
// millions of IDs a second is too little for both: so the measure there is a server that
// does nothing but move the same indices.
func judgeBatches(r *report, got map[string]series) {
	for _, c := range []struct {
		batch, of string
		target    float64
	}{{batchEmbedded, bareGin, 0.8}, {queueBatch, plainBatch, 1}} {
		batch, of := got[c.batch], got[c.of]
		r.goal(3, batch, of).atLeast("requests of: "+c.batch+"; of: "+c.of, ratio(batch, of, "req/s"), c.target, "×",
			fmt.Sprintf("%s; the load used %s cores", perSecond(batch), number(batch.median("cores of the load"))))
	}
}

func perSecond(s series) string { return number(s.median("req/s")/1000) + " k requests/s" }
