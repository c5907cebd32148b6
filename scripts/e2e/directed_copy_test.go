//go:build unix

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

// What a copy of the database lacks here is no number that was handed out, but a row, or
// what an operator has done to one. The replica that saw it is lost with the primary.

// TestDirectedCopyLacksRate: an operator raised the rate of a tag or an app, without Redis,
// and the database fails over to a copy that does not know. A rate that is refused is no
// fault: what was given is taken as fast as can be.
func TestDirectedCopyLacksRate(t *testing.T) {
	story(t)
	slow := settings{"SEGMENT_MAX_RATE": "1000", "QUEUE_MAX_LIST_RATE": "1000", "SEGMENT_RUNWAY": "1s"}
	for name, c := range map[string]struct {
		change []string
		counts time.Duration // from when on a higher rate counted once
		target string
	}{
		"step of a tag":     {[]string{"tags", "set", "--tag", "orders", "--step", "1000000000"}, 0, ordersGet},
		"step of an app":    {[]string{"apps", "set", "--app", "1", "--step", "1000000"}, 0, aliceDraw},
		"max-rate of a tag": {[]string{"tags", "set", "--tag", "orders", "--max-rate", "1000000000"}, 65 * time.Second, ordersGet},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newMovingDatabase(t)
			s := db.settings().With(slow)
			deploy(t, s, nil)
			d := serve(t, s)
			before := draw(d, c.target, 1500, 500, startLimit)
			time.Sleep(3 * time.Second)
			db.CatchUp()
			db.Lag()
			if o := shardid(t, s, c.change...); o.exit != 0 {
				t.Logf("refused: %s", o.stderr)
			} else {
				time.Sleep(c.counts)
			}
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end) && len(before) < 400_000; {
				for _, batch := range []int{10_000, 500} { // more than a slow counter gives at once, and what it gives
					before = append(before, draw(d, c.target, batch, batch, 0)...)
				}
			}
			d.Kill()
			db.Failover()
			db.leadTo(db.Primary)
			after := draw(serve(t, s), c.target, 3000, 500, time.Minute)
			t.Logf("up to %d, then from %d", before[len(before)-1], after[0])
			wantNew(t, name, before, after)
		})
	}
}

// TestDirectedCopyLacksRow: an app and a tag were made and used, and the database fails over
// to a copy that does not know them. They are made again, as a chart does at every upgrade.
func TestDirectedCopyLacksRow(t *testing.T) {
	story(t)
	type redis = *testserver.RedisServer
	for name, c := range map[string]struct {
		lose  func(redis) // at the failover; nil where there is none
		later bool        // made again when a replica has met the copy
	}{
		"Redis lives, made late":       {lose: func(redis) {}, later: true},
		"Redis is lost":                {lose: func(r redis) { r.Kill(); r.Restart() }},
		"Redis is lost, made late":     {lose: func(r redis) { r.Kill(); r.Restart() }, later: true},
		"there is no Redis, made late": {later: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newMovingDatabase(t)
			s := db.settings().With(smallSteps()).With(settings{"SEGMENT_RUNWAY": "1s"})
			var server redis
			if c.lose != nil {
				server = testserver.Redis(t)
				s = s.With(onRedis(server.Addr))
			}
			deploy(t, s, nil)
			provision := func() {
				for _, args := range [][]string{
					{"provision", "--if-missing", "--app", "2", "--name", "new"}, {"tags", "add", "--tag", "new", "--step", "1000"},
				} {
					var o outcome
					eventually(t, startLimit, "a copy that is new may refuse for a moment", func() bool { o = shardid(t, s, args...); return o.exit == 0 })
				}
			}
			targets := []string{segmentGet + "new?count=", "/get?appId=2&gatePass=alice&count="}
			other := serve(t, s) // knows nothing of the new ones, and meets the copy first
			draw(other, ordersGet, 100, 100, startLimit)
			time.Sleep(3 * time.Second)
			db.CatchUp()
			db.Lag()
			provision()
			before := map[string][]int64{}
			d := serve(t, s)
			for _, target := range targets {
				before[target] = draw(d, target, 3000, 500, startLimit)
			}
			d.Kill()
			if c.lose != nil {
				c.lose(server)
			}
			db.Failover()
			db.leadTo(db.Primary)
			if c.later {
				draw(other, ordersGet, 2000, 100, time.Minute)
			}
			provision()
			d = serve(t, s)
			for _, target := range targets {
				wantNew(t, target, before[target], draw(d, target, 3000, 500, time.Minute))
			}
		})
	}
}

// TestDirectedCopyLacksRaise: an operator raised the counters above what another service has
// issued, and the database fails over to a copy that does not know, while Redis lives.
// Nothing below the raise is issued but what had been taken before it, whether the counters
// were used in between or not.
func TestDirectedCopyLacksRaise(t *testing.T) {
	story(t)
	const raise = 1_000_000
	for name, used := range map[string]bool{"used meanwhile": true, "not used meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newMovingDatabase(t)
			s := db.settings().With(onRedis(testserver.Redis(t).Addr)).With(smallSteps()).With(sweeping()).With(settings{"SEGMENT_RUNWAY": "1s"})
			deploy(t, s, nil)
			other, d := serve(t, s), serve(t, s) // the other one lives on
			draw(other, ordersGet, 100, 100, startLimit)
			books := map[string][]int64{}
			targets := []string{ordersGet, aliceDraw}
			for _, target := range targets {
				books[target] = draw(d, target, 2500, 500, startLimit)
			}
			time.Sleep(3 * time.Second)
			db.CatchUp()
			db.Lag()
			taken := map[string]int64{
				ordersGet: number(t, db.Primary.DSN(db.name), "SELECT max_id - 1 FROM leaf_alloc WHERE biz_tag = 'orders'"),
				aliceDraw: number(t, db.Primary.DSN(db.name), aliceMaxID),
			}
			must(t, s, "tags", "set", "--tag", "orders", "--max-id", fmt.Sprint(raise))
			must(t, s, "apps", "set", "--app", "1", "--min-index", fmt.Sprint(raise))
			for _, target := range targets {
				if used {
					books[target] = append(books[target], draw(d, target, 25_000, 500, startLimit)...)
				}
			}
			d.Kill()
			db.Failover()
			db.leadTo(db.Primary)
			for _, target := range targets {
				after := draw(other, target, 25_000, 500, time.Minute)
				wantNew(t, target, books[target], after)
				below := 0
				for _, id := range after {
					if target == aliceDraw {
						id >>= 14
					}
					if id > taken[target] && id < raise {
						below++
					}
				}
				if t.Logf("%s: %d of %d lie below the raise", target, below, len(after)); below > 0 {
					t.Errorf("%s: %d of %d IDs lie between %d and the raise to %d", target, below, len(after), taken[target], raise)
				}
			}
		})
	}
}
