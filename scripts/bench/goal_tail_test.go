//go:build unix

package bench

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

const (
	// ofCapacity is the load of the tail, as a share of what the server does in a
	// closed loop: what is seen shall be the disturbance, and not the queue before a
	// busy server.
	ofCapacity = 0.4
	// never is a schedule that does not come up during a run.
	never = "0 0 0 1 1 *"
	// collections is a figure: garbage collections, a second.
	collections = "GC/s"
	// late is by how much Redis' answers come later, half of it on either way.
	late = 5 * time.Millisecond
	// coldApp is asked for the first time when what that is like is measured.
	coldApp = 2
	// coldFigure is the median and coldWorst the longest of those requests, ms.
	coldFigure, coldWorst = "first ms", "longest first ms"
)

// measureTail is the tail of the latency of /get while something disturbs it, each
// next to the same without, in turns. That of the refills is goal 8.
func measureTail(t *testing.T, s *suite) {
	one := s.deploy(t, map[uint8]int64{singleApp: largeStep, coldApp: 1000})
	all := s.deploy(t, apps(model.Apps))
	s.fill(t, all, model.Apps)
	usual := request{mode: "queue", app: singleApp}
	usual.rate = s.shareOfCapacity(t, "capacity, 64 lists", tailLoad{all, nil, usual})
	// A list that is asked less than once a second has nothing ahead: each request
	// costs a call to Redis, and the capacity is less.
	spread := request{mode: "queue", apps: model.Apps}
	spread.rate = s.shareOfCapacity(t, "capacity, 16 384 lists", tailLoad{all, nil, spread})
	s.tailOfCollections(t, all, usual)
	s.tailOfLists(t, one, all, spread)
	s.tailOfSlowRedis(t, one, usual)
}

// shareOfCapacity is a rate for a load, in whole hundreds.
func (s *suite) shareOfCapacity(t *testing.T, title string, l tailLoad) int {
	t.Helper()
	got := s.contest(title, s.plan.rounds, []contender{l.of(t, s, title, nil)})[title]
	return int(ofCapacity*got.median("req/s")) / 100 * 100
}

// fill fills the lists of all n apps.
func (s *suite) fill(t *testing.T, d deployment, n int) {
	t.Helper()
	own := s.serveShardid(t, d.settings(), singleApp)
	own.awaitFilled(n)
	own.Kill()
}

// tailLoad is a server, started for each measurement so that no other runs beside
// it, and what it is asked for.
type tailLoad struct {
	deployment
	env settings
	request
}

// of is a contender.
func (l tailLoad) of(t *testing.T, s *suite, name string, more func(*daemon, figures)) contender {
	return contender{name, func() figures {
		own := s.serveShardid(t, l.deployment.settings().With(unswept()).With(l.env), singleApp)
		defer own.Kill()
		got := l.ask(t, s, own)
		if more != nil {
			more(own, got)
		}
		return got
	}}
}

func (l tailLoad) ask(t *testing.T, s *suite, own *daemon) figures {
	t.Helper()
	const counted = "go_gc_duration_seconds_count"
	warmup := 2 * s.plan.warmup
	before := own.metric(counted)
	got := s.load(t, own.url, l.request, warmup, s.plan.tail).figures()
	got[collections] = (own.metric(counted) - before) / (warmup + s.plan.tail).Seconds()
	return got
}

// tailOfCollections has the garbage collected many times as often as ordinarily. The
// heap is that of all lists; what they hold ahead has no pointers, which costs a
// collection nothing.
func (s *suite) tailOfCollections(t *testing.T, d deployment, r request) {
	const ordinary, often = "as usual", "GOGC=5"
	pause := func(own *daemon, f figures) {
		f["longest GC pause ms"] = 1000 * own.metric(`go_gc_duration_seconds{quantile="1"}`)
	}
	got := s.contest("garbage collection", s.plan.rounds, []contender{
		tailLoad{d, nil, r}.of(t, s, ordinary, pause),
		tailLoad{d, settings{"GOGC": "5"}, r}.of(t, s, often, pause),
	})
	calm, busy := got[ordinary], got[often]
	seen := busy.median(collections) * float64(len(busy.Rounds)) * s.plan.tail.Seconds()
	s.tellTail("p99.9 while garbage is collected all the time", busy, calm, r, fmt.Sprintf(
		"; %s collections, as many as in %s minutes of such a load (%s a minute); longest pause %s ms",
		number(math.Round(seen)), number(seen/calm.median(collections)/60), number(math.Round(60*calm.median(collections))), number(busy.largest("longest GC pause ms"))))
}

// tailOfLists has all lists in use, and swept far more often than by default.
func (s *suite) tailOfLists(t *testing.T, one, all deployment, spread request) {
	const few, many, swept = "64 lists", "16 384 lists", "16 384 lists, a sweep every 2 s"
	got := s.contest("many lists", s.plan.rounds, []contender{
		tailLoad{one, nil, request{mode: "queue", app: singleApp, rate: spread.rate}}.of(t, s, few, nil),
		tailLoad{all, nil, spread}.of(t, s, many, nil),
		tailLoad{all, settings{"QUEUE_REFILL_CRON": "*/2 * * * * *"}, spread}.of(t, s, swept, nil),
	})
	s.tellTail("p99.9 with 16 384 lists in use, of that with 64", got[many], got[few], spread, "")
	s.report.goal(8, got[swept], got[many]).atMost("p99 while 16 384 lists are swept every 2 s, of that without", ratio(got[swept], got[many], "p99 ms"), 3, "×", fmt.Sprintf(
		"p50, p99, p99.9 and max %s ms, without %s ms, at %d a second", got[swept].latencies(), got[many].latencies(), spread.rate))
}

// tailOfSlowRedis has Redis answer later, at a rate and in a closed loop, and looks
// at lists of which nothing is held.
func (s *suite) tailOfSlowRedis(t *testing.T, d deployment, paced request) {
	const near, far = "Redis near", "Redis 5 ms away"
	delayed := settings{"REDIS_ADDRS": s.delay(t, d.redis.Addr)}
	first := func(own *daemon, f figures) { firstRequests(t, own, f) }
	closed := paced
	closed.rate = 0
	got := s.contest("slow Redis", s.plan.rounds, []contender{tailLoad{d, nil, paced}.of(t, s, near, first), tailLoad{d, delayed, paced}.of(t, s, far, first)})
	s.tellTail("p99.9 while Redis answers 5 ms later", got[far], got[near], paced,
		"; a PING takes "+number(ping(t, delayed["REDIS_ADDRS"]).Seconds()*1000)+" ms")
	s.report.goal(8, got[far], got[near]).tell("first request for a list, Redis 5 ms later", got[far].median(coldFigure), "ms", fmt.Sprintf(
		"longest of 64 %s ms; without the delay %s and %s ms", number(got[far].largest(coldWorst)), number(got[near].median(coldFigure)), number(got[near].largest(coldWorst))))
	loop := s.contest("slow Redis, closed loop", s.plan.rounds, []contender{tailLoad{d, nil, closed}.of(t, s, near, nil), tailLoad{d, delayed, closed}.of(t, s, far, nil)})
	s.report.goal(8, loop[far], loop[near]).tell("/get while Redis answers 5 ms later, of that without", ratio(loop[far], loop[near], "req/s"), "×", fmt.Sprintf(
		"%s; p50, p99, p99.9 and max %s ms, without %s ms", perSecond(loop[far]), loop[far].latencies(), loop[near].latencies()))
}

// tellTail adds the latencies of a load that was disturbed.
func (s *suite) tellTail(what string, disturbed, calm series, r request, note string) {
	s.report.goal(8, disturbed, calm).tell(what, ratio(disturbed, calm, "p99.9 ms"), "×", fmt.Sprintf(
		"p50, p99, p99.9 and max %s ms, without %s ms, at %d a second%s", disturbed.latencies(), calm.latencies(), r.rate, note))
}

// latencies are medians of the rounds, but of the maximum the largest.
func (s series) latencies() string {
	return fmt.Sprintf("%s, %s, %s, %s", number(s.median("p50 ms")), number(s.median("p99 ms")), number(s.median("p99.9 ms")), number(s.largest("max ms")))
}

// firstRequests asks 64 times for a list of which nothing is held.
func firstRequests(t *testing.T, own *daemon, into figures) {
	t.Helper()
	var took []float64
	for n := range model.Shards {
		begun := time.Now()
		check.Must(t, answers(own.url+queuePath(coldApp, fmt.Sprint("user", n))))
		took = append(took, time.Since(begun).Seconds()*1000)
	}
	into[coldFigure], into[coldWorst] = median(took), slices.Max(took)
}

// delay stands before a Redis, on the core of the load, and returns where.
func (s *suite) delay(t *testing.T, target string) (addr string) {
	t.Helper()
	var d *daemon
	s.onLoadCore(t, func() { d = serve(t, nil, s.delayer, target, (late / 2).String()) })
	return strings.TrimPrefix(d.url, "http://")
}

// ping is the median of 21 round trips to a Redis.
func ping(t *testing.T, addr string) time.Duration {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	check.Must(t, err)
	defer c.Close()
	var took []float64
	for answer := bufio.NewReader(c); len(took) < 21; {
		begun := time.Now()
		fmt.Fprint(c, "PING\r\n")
		if line, err := answer.ReadString('\n'); err != nil || line != "+PONG\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
		took = append(took, float64(time.Since(begun)))
	}
	return time.Duration(median(took))
}
