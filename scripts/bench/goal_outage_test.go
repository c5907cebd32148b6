//go:build unix

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// buildUp is how long a steady use takes to have all of its runway held ahead.
	buildUp = 14 * time.Second
	// slot is the unit in which answers are counted.
	slot = 100 * time.Millisecond
	// full is the share of the speed before an outage that counts as full speed: a
	// busy machine is not steadier.
	full = 0.8
	// steady is for how many slots it must last, and in how many of them a busy
	// machine may have stalled.
	steady, stalls = 10, 2
	// silence is for how many slots without an answer there are none: a busy machine
	// stalls for less.
	silence = 5
	// settle is how long nothing is broken, so that there is a speed to compare with.
	settle = 4 * time.Second
	// recoveryLimit is how long a recovery is waited for.
	recoveryLimit = 10 * time.Second
)

// measureOutages is goal 10: the stores go away and come back.
func measureOutages(t *testing.T, s *suite) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000})
	own := s.serveShardid(t, d.settings(), singleApp)
	// This one holds little ahead, so that it soon runs dry.
	short := s.serveShardid(t, d.settings().With(settings{"SEGMENT_RUNWAY": "1s", "SEGMENT_MAX_STEP": "1000"}), singleApp)
	ten := s.report.goal(10)
	measureRunway(t, s, ten, d, own)
	segment, queue := ask(short.url+segmentPath), ask(own.url+queuePath(singleApp, pass))
	defer stopAll(segment, queue)
	got := s.referee.contest("recovery", s.plan.outages, []contender{
		{"database", func() figures { return databaseAway(t, d, segment) }},
		{"Redis", func() figures { return redisAway(d, queue) }},
	})
	s.report.Contests["recovery"] = got
	database, redis := got["database"], got["Redis"]
	s.report.goal(10, database).atMost("segment that ran dry is at full speed after the database's return", database.median(recovery), 2, "s", "")
	s.report.goal(10, redis).atMost("queue is at full speed after Redis came back, empty", redis.median(recovery), 2, "s", "")
	s.report.goal(10, redis).tell("queue goes on without Redis, on a list in constant use", redis.median("lasted s"), "s", "what the replica held")
}

const (
	segmentPath = "/api/segment/get/" + tag
	pass        = "carol" // whose list the queue mode is asked for
	recovery    = "recovery s"
)

// measureRunway takes the database away from what has all it needs ahead.
func measureRunway(t *testing.T, s *suite, g goal, d deployment, own *daemon) {
	t.Helper()
	segment, queue := ask(own.url+segmentPath), ask(own.url+queuePath(singleApp, pass))
	defer stopAll(segment, queue)
	time.Sleep(buildUp)
	g.atLeast("segment: what is held lasts, at the present rate", runway(t, own), 600, "s", "as /api/status has it")
	left := time.Now()
	d.db.Kill()
	served, held := queue.total(), float64(d.length(t, singleApp, pass))
	time.Sleep(s.plan.away)
	lasted, listLasted := segment.lasted(left), queue.lasted(left)
	served = queue.total() - served
	d.db.Restart()
	g.atLeast("segment goes on without the database", lasted.Seconds(), s.plan.away.Seconds(), "s", "and could go on: the database came back")
	if listLasted >= s.plan.away {
		held = min(held, served) // there is no telling that the rest would come
	}
	g.atLeast("queue without the database: issued, of what the list held", served/held, 1, "×",
		fmt.Sprintf("%s indices in %s s", number(held), number(listLasted.Seconds())))
}

// databaseAway ends when segment, which ran dry, has recovered.
func databaseAway(t *testing.T, d deployment, segment *probe) figures {
	t.Helper()
	time.Sleep(settle)
	left := time.Now()
	d.db.Kill()
	measurable(t, time.Minute, "the segment mode runs dry", func() error {
		if time.Since(left) < time.Second || segment.lasted(left) > time.Since(left)-2*slot {
			return errors.New("it still issues")
		}
		return nil
	})
	lasted := segment.lasted(left)
	time.Sleep(time.Second)
	d.db.Restart()
	return figures{"lasted s": lasted.Seconds(), recovery: segment.recovered(left, time.Now()).Seconds()}
}

// redisAway takes Redis away, which comes back empty.
func redisAway(d deployment, queue *probe) figures {
	time.Sleep(settle)
	left := time.Now()
	d.redis.Kill()
	time.Sleep(3 * time.Second)
	lasted := queue.lasted(left)
	d.redis.Restart()
	return figures{"lasted s": lasted.Seconds(), recovery: queue.recovered(left, time.Now()).Seconds()}
}

// runway is how many seconds the tag would last, as the service says.
func runway(t *testing.T, own *daemon) float64 {
	t.Helper()
	body, err := get(own.url + "/api/status")
	if err != nil {
		t.Fatal(err)
	}
	var status struct {
		Segment struct {
			Tags []struct{ RunwaySeconds float64 }
		}
	}
	if err := json.Unmarshal(body, &status); err != nil || len(status.Segment.Tags) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	return status.Segment.Tags[0].RunwaySeconds
}

// probe asks one URL over and over, and counts answers by the slot they came in.
type probe struct {
	begun    time.Time
	good     []atomic.Int64
	bad      []atomic.Int64
	stopping chan struct{}
	callers  sync.WaitGroup
}

// ask begins, with eight callers.
func ask(url string) *probe {
	const longest = 10 * time.Minute
	p := &probe{begun: time.Now(), stopping: make(chan struct{}),
		good: make([]atomic.Int64, longest/slot), bad: make([]atomic.Int64, longest/slot)}
	for range 8 {
		p.callers.Go(func() { p.call(url) })
	}
	return p
}

func (p *probe) call(url string) {
	for {
		select {
		case <-p.stopping:
			return
		default:
		}
		counts := p.good
		if answers(url) != nil {
			counts = p.bad
			time.Sleep(slot / 10)
		}
		if i := p.slotOf(time.Now()); i < len(counts) {
			counts[i].Add(1)
		}
	}
}

func (p *probe) slotOf(at time.Time) int { return int(at.Sub(p.begun) / slot) }

func stopAll(probes ...*probe) {
	for _, p := range probes {
		close(p.stopping)
		p.callers.Wait()
	}
	client.CloseIdleConnections()
}

// total is how many answers came.
func (p *probe) total() (n float64) {
	for i := range p.good {
		n += float64(p.good[i].Load())
	}
	return n
}

// lasted is for how long, from a moment until now, there were answers and no
// refusals.
func (p *probe) lasted(from time.Time) time.Duration {
	empty := 0
	for i, end := p.slotOf(from)+1, p.slotOf(time.Now()); i < end; i++ {
		if empty++; p.good[i].Load() > 0 {
			empty = 0
		}
		if p.bad[i].Load() > 0 || empty == silence {
			return p.begun.Add(time.Duration(i+1-max(1, empty)) * slot).Sub(from)
		}
	}
	return time.Since(from)
}

// recovered is how long after a store's return the speed before it left was reached
// for good; waiting for that is bounded by recoveryLimit.
func (p *probe) recovered(left, back time.Time) time.Duration {
	before := p.speedBefore(left)
	for time.Since(back) < recoveryLimit {
		time.Sleep(slot)
		if at, ok := p.fullSpeed(p.slotOf(back), p.slotOf(time.Now()), before); ok {
			return max(0, p.begun.Add(time.Duration(at)*slot).Sub(back))
		}
	}
	return recoveryLimit
}

// speedBefore is the median of three seconds' slots.
func (p *probe) speedBefore(left time.Time) float64 {
	var counts []float64
	for i, end := max(0, p.slotOf(left)-30), p.slotOf(left); i < end; i++ {
		counts = append(counts, float64(p.good[i].Load()))
	}
	return median(counts)
}

// fullSpeed finds the first slot from which on the speed is reached on average, with
// no more than a few stalls after it.
func (p *probe) fullSpeed(from, end int, before float64) (at int, ok bool) {
	stalled := func(i int) bool { return float64(p.good[i].Load()) < before/2 }
	for at = from; at+steady <= end; at++ {
		sum, slow := 0.0, 0
		for i := at; i < at+steady; i++ {
			sum += float64(p.good[i].Load())
			if stalled(i) {
				slow++
			}
		}
		if !stalled(at) && slow <= stalls && sum >= full*before*steady {
			return at, true
		}
	}
	return 0, false
}
