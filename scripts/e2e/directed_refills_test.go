//go:build unix

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// The tests of this file hold what caution must not cost: replicas that share one Redis go
// on soon, and leave nothing out, when one store is lost.

// TestDirectedRefillsGoOn: Redis restarts, fails over or is gone for good, and the rows of
// the counters rise again soon. A replica that starts then serves as soon.
func TestDirectedRefillsGoOn(t *testing.T) {
	check.Deep(t)
	story(t)
	restart := func(r *testserver.RedisServer) { r.Kill(); r.Restart() }
	for name, c := range map[string]struct {
		fault   func(*testserver.RedisServer) // nil: Sentinel fails over
		forGood bool
		victim  bool // another replica is killed just before, whose farewell nobody hears
		limit   time.Duration
	}{
		"Redis restarts":                      {fault: restart, limit: 10 * time.Second},
		"Sentinel fails over":                 {limit: 10 * time.Second},
		"Redis is gone for good":              {fault: func(r *testserver.RedisServer) { r.Kill() }, forGood: true, limit: 20 * time.Second},
		"a replica is killed, Redis restarts": {fault: restart, victim: true, limit: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, asked := testserver.SharedMariaDB(t).NewDatabase(t), allModes()
			rows := map[string]string{"queue": aliceMaxID, "segment": "SELECT max_id FROM leaf_alloc"}
			if c.forGood {
				delete(asked, "queue")
				delete(rows, "queue")
			}
			s := onMariaDB(dsn).With(smallSteps()).With(settings{"SEGMENT_RUNWAY": "1s"})
			var fault func()
			if c.fault != nil {
				redis := testserver.Redis(t)
				s, fault = s.With(onRedis(redis.Addr)), func() { c.fault(redis) }
			} else {
				setup := testserver.Sentinel(t)
				s = s.With(onSentinel(setup))
				fault = func() {
					setup.DownAfter(t, time.Second)
					setup.Master.Kill()
					setup.MasterAddr(t, setup.Master.Addr)
				}
			}
			p := deploy(t, s, asked)
			p.serves(startLimit, p.add(), p.add())
			if c.victim {
				victim := serve(t, s)
				p.serves(startLimit, victim)
				time.Sleep(3 * time.Second)
				victim.Kill()
			} else {
				time.Sleep(3 * time.Second)
			}
			fault()
			p.goesOn(dsn, rows, c.limit)
			p.serves(startLimit, p.add())
			p.serves(c.limit, p.replicas...)
			p.gaps.Range(func(of, gap any) bool {
				if of := of.([2]any); gap.(time.Duration) > time.Second {
					t.Logf("replica %d had no %s for %v", slices.Index(p.replicas, of[0].(*daemon))+1, of[1], gap)
				}
				return true
			})
			p.settle()
		})
	}
}

// goesOn returns when each row, which a query gives, has risen, within limit of now.
func (p *fleet) goesOn(dsn string, rows map[string]string, limit time.Duration) {
	p.t.Helper()
	before, begun := map[string]int64{}, time.Now()
	for mode, query := range rows {
		before[mode] = number(p.t, dsn, query)
	}
	for mode, query := range rows {
		eventually(p.t, limit-time.Since(begun), "the row of "+mode+" rises", func() bool { return number(p.t, dsn, query) > before[mode] })
		p.t.Logf("%s is refilled again after %v", mode, time.Since(begun).Round(10*time.Millisecond))
	}
}

// TestDirectedNothingLeftOut: the database is away for a while, or stands still, and comes
// back, or a copy of it that lags takes its place, while Redis lives on. No number is left
// out, and no caller waits for that.
func TestDirectedNothingLeftOut(t *testing.T) {
	check.Deep(t)
	story(t)
	for name, c := range map[string]struct {
		hangs, away time.Duration
		copy        bool // a copy that lacks two seconds comes back in its place
		moved       bool // a replica was on another Redis before, for a while
	}{
		"restarted after a while":                     {away: 20 * time.Second},
		"restarted after it hung":                     {hangs: 10 * time.Second},
		"failed over":                                 {copy: true},
		"failed over after a while":                   {away: 20 * time.Second, copy: true},
		"failed over, a replica was on another Redis": {copy: true, moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, redis := newMovingDatabase(t), testserver.Redis(t)
			p := deploy(t, db.settings().With(onRedis(redis.Addr)).With(smallSteps()).With(sweeping()), allModes())
			proxy := proxied(t, redis)
			p.serves(startLimit, p.add(), p.add(onRedis(proxy.Addr)))
			if c.moved {
				proxy.Switch(testserver.Redis(t).Addr)
				time.Sleep(6 * time.Second)
				p.serves(startLimit, p.replicas...)
				proxy.Switch(redis.Addr)
			}
			time.Sleep(10 * time.Second) // servers are told apart by when they started
			db.CatchUp()
			if c.copy {
				db.Lag()
				time.Sleep(2 * time.Second)
			}
			before := p.highest()
			if c.hangs > 0 {
				db.Primary.Pause()
				time.Sleep(c.hangs)
			}
			db.Primary.Kill()
			time.Sleep(c.away)
			if c.copy {
				db.Promote()
				db.leadTo(db.Primary)
			} else {
				db.Primary.Restart()
			}
			p.serves(20*time.Second, p.add())
			p.serves(20*time.Second, p.replicas...)
			time.Sleep(time.Second)
			p.roseLittle(before)
			p.settle()
		})
	}
}

// roseLittle fails where so many numbers were left out as only a jump leaves out.
func (p *fleet) roseLittle(before map[string]int64) {
	p.t.Helper()
	for mode, most := range map[string]int64{"queue": 1_000_000, "segment": 5_000_000, "uid": 20} {
		left := p.highest()[mode] - before[mode]
		if p.t.Logf("%s rose by %d", mode, left); left > most {
			p.t.Errorf("%s rose by %d, more than %d", mode, left, most)
		}
	}
}

// highest is the last number that each mode has used: an index, an ID, a worker ID.
func (p *fleet) highest() map[string]int64 {
	of := map[string]func(int64) int64{
		"queue": func(id int64) int64 { return id >> 14 }, "segment": func(id int64) int64 { return id }, "uid": uidDefaults().workerOf,
	}
	last := map[string]int64{}
	for mode := range of {
		books := p.books[mode]
		for _, id := range books.IDs() {
			last[mode] = max(last[mode], of[mode](id))
		}
	}
	return last
}
