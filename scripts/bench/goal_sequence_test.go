//go:build unix

package bench

import (
	"database/sql"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"

	"github.com/redis/go-redis/v9"
)

// The contest of sequences, and its contenders beside bareGin.
const (
	sequenceContest   = "sequences"
	plainIncr         = "plain design, INCR a request"
	sequenceHTTP      = "shardid sequence"
	sequenceRESP      = "RESP, INCR of a sequence"
	sequencePipelined = "RESP, INCR of a sequence pipelined by 16"
)

const (
	// chat is the space; its sections and its step are the defaults.
	chat = "chat"
	// chats is how many keys of it take turns under load.
	chats = 1000
	// manyKeys is how many there are when their memory is measured.
	manyKeys = 1_000_000
	// halfLoad is the load of the latency, as a share of what the server does in a closed loop.
	halfLoad = 0.5
)

// measureSequences is goal 12: numbers of keys, beside a server that counts them by INCR.
func measureSequences(t *testing.T, s *suite) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000})
	_, err := run(d.command(t, s, "sequences", "add", "--space", chat), time.Minute)
	check.Must(t, err)
	own := s.serveShardid(t, d.settings().With(settings{"RESP_ADDR": "127.0.0.1:0"}), singleApp)
	var bare, plain *daemon
	s.onServerCore(t, func() {
		procs := settings{"GOMAXPROCS": s.procs()}
		bare = serve(t, procs, s.bare)
		plain = serve(t, procs.With(settings{"REDIS_ADDR": d.redis.Addr}), s.plain)
	})
	ask := request{mode: "sequence", keys: chats}
	resp := "redis://" + own.Said("listening for Redis clients")
	measurable(t, time.Minute, "sequences are served", func() error { return answers(own.url + sequencePath) })
	over := func(pipeline int) func() figures {
		r := ask
		r.pipeline = pipeline
		return func() figures { return s.load(t, resp, r, s.plan.warmup, s.plan.load).figures() }
	}
	got := s.contest(sequenceContest, s.plan.races, []contender{
		{bareGin, s.loadOf(t, bare, request{mode: "queue", app: singleApp})},
		{plainIncr, s.loadOf(t, plain, ask)},
		{sequenceHTTP, s.modeOf(t, own, sequenceHTTP, ask)},
		{sequenceRESP, over(0)},
		{sequencePipelined, over(16)},
	})
	judgeSequences(s.report, got)
	s.tailOfSequences(t, own, ask, got[sequenceHTTP])
	s.writesOfSequences(t, d, resp, ask)
	bare.Kill()
	plain.Kill()
	s.takeovers(t, d, own)
	s.memoryOfKeys(t, d, resp)
}

// sequencePath asks for a number of one key.
const sequencePath = "/v1/sequence/" + chat + "/ids?key=one"

// command is one of shardid's that is not started yet.
func (d deployment) command(t *testing.T, s *suite, args ...string) *exec.Cmd {
	return d.settings().Command(t.TempDir(), s.shardid, args...)
}

func judgeSequences(r *report, got map[string]series) {
	bare, plain, own := got[bareGin], got[plainIncr], got[sequenceHTTP]
	keys := fmt.Sprintf("; %d keys", chats)
	twelve := r.goal(12, bare, plain, own)
	twelve.atLeast("a number over HTTP, of INCR a request", ratio(own, plain, "req/s"), 1.5, "×", perSecond(own)+", "+perSecond(plain)+" there"+keys+spread(own, plain, "req/s"))
	twelve.tell("the same, of bare Gin", ratio(own, bare, "req/s"), "×", perSecond(own)+keys)
	twelve.tell("CPU time of it, of INCR a request's", ratio(own, plain, cpuPerRequest), "×", number(own.median(cpuPerRequest))+" µs and "+number(plain.median(cpuPerRequest))+" µs")
	r.goal(12, bare, got[sequenceRESP]).tell("a number over RESP, of bare Gin", ratio(got[sequenceRESP], bare, "req/s"), "×", perSecond(got[sequenceRESP])+keys)
	r.goal(12, bare, got[sequencePipelined]).atLeast("a number over RESP, pipelined by 16, of bare Gin", ratio(got[sequencePipelined], bare, "req/s"), 4, "×", perSecond(got[sequencePipelined])+keys)
}

// tailOfSequences is the latency at half of what the server can do.
func (s *suite) tailOfSequences(t *testing.T, own *daemon, ask request, capacity series) {
	t.Helper()
	const title = "sequences at half load"
	ask.rate = int(halfLoad*capacity.median("req/s")) / 100 * 100
	got := s.contest(title, s.plan.rounds, []contender{{title, func() figures {
		return s.load(t, own.url, ask, time.Second, s.plan.tail).figures()
	}}})[title]
	s.report.goal(12, got).atMost("p99.9 of a number over HTTP at half load", got.median("p99.9 ms"), 3, "ms", fmt.Sprintf(
		"p50, p99, p99.9 and max %s ms at %d a second; %d keys", got.latencies(), ask.rate, ask.keys))
}

// writesOfSequences counts what the database writes for a million numbers: rows that are
// inserted and updated, less what the idle service writes in the same time.
func (s *suite) writesOfSequences(t *testing.T, d deployment, url string, ask request) {
	t.Helper()
	ask.pipeline = 16
	length := max(10*time.Second, 2*s.plan.tail)
	begun, before := time.Now(), d.writes(t)
	time.Sleep(length)
	idle := float64(d.writes(t)-before) / time.Since(begun).Seconds()
	begun, before = time.Now(), d.writes(t)
	l := s.load(t, url, ask, 0, length)
	written := float64(d.writes(t)-before) - idle*time.Since(begun).Seconds()
	s.report.goal(12).atMost("writes to the database for a million numbers", math.Round(written/float64(l.IDs)*1e6), 120, "", fmt.Sprintf(
		"%s statements for %s million numbers of %d keys; idle, there are %s a second", number(math.Round(written)), number(float64(l.IDs)/1e6), ask.keys, number(idle)))
}

// writes is how many statements have changed rows, as the server counts them.
func (d deployment) writes(t *testing.T) (n int64) {
	t.Helper()
	db, err := sql.Open("mysql", d.dsn)
	check.Must(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_insert', 'Com_update', 'Com_replace', 'Com_delete')")
	check.Must(t, err)
	defer rows.Close()
	for rows.Next() {
		var count int64
		check.Must(t, rows.Scan(new(string), &count))
		n += count
	}
	check.Must(t, rows.Err())
	return n
}

// takeovers loses Redis, which comes back empty at once.
func (s *suite) takeovers(t *testing.T, d deployment, own *daemon) {
	t.Helper()
	const title, took = "takeover of sequences", "takeover s"
	got := s.contest(title, s.plan.outages, []contender{{title, func() figures {
		time.Sleep(settle)
		lost := time.Now()
		d.redis.Kill()
		d.redis.Restart()
		measurable(t, time.Minute, "sequences go on", func() error { return answers(own.url + sequencePath) })
		return figures{took: time.Since(lost).Seconds()}
	}}})[title]
	s.report.goal(12, got).atMost("numbers again after Redis was lost", got.median(took), 12, "s", fmt.Sprintf("the longest of %d: %s s", s.plan.outages, number(got.largest(took))))
}

// memoryOfKeys is what Redis needs for a key, when there are very many.
func (s *suite) memoryOfKeys(t *testing.T, d deployment, url string) {
	t.Helper()
	admin := d.redis.Client()
	defer admin.Close()
	before := usedMemory(t, admin)
	useKeys(t, url, manyKeys)
	each := (usedMemory(t, admin) - before) / manyKeys
	s.report.goal(12).atMost("memory of a key in Redis, of a million", math.Round(each), 120, "bytes", fmt.Sprintf("of names such as room-%d", manyKeys/2))
}

// usedMemory is what Redis says that it uses.
func usedMemory(t *testing.T, c *redis.Client) float64 {
	t.Helper()
	text, err := c.Info(t.Context(), "memory").Result()
	check.Must(t, err)
	_, rest, _ := strings.Cut(text, "used_memory:")
	value, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseFloat(value, 64)
	check.Must(t, err)
	return n
}

// useKeys has so many keys of a sequence get their first number.
func useKeys(t *testing.T, url string, keys int) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(url, "redis://"), MaxRetries: -1, ReadTimeout: startLimit})
	defer c.Close()
	ctx := t.Context()
	for n := 0; n < keys; n += 1000 {
		measurable(t, time.Minute, "a thousand keys", func() error {
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := n; i < n+1000; i++ {
					p.Incr(ctx, fmt.Sprintf("sequence:%s:room-%d", chat, i))
				}
				return nil
			})
			return err
		})
	}
}
