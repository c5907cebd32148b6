//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

// What each mode of allModes is asked for by draw, which puts a count behind it.
const (
	ordersGet = segmentGet + "orders?count="
	aliceDraw = aliceGet + "&count="
)

// draw takes n IDs, so many at once, and asks again when it is refused. It gives what it
// has when nothing came for as long as it is patient.
func draw(d *daemon, target string, n, batch int, patience time.Duration) (ids []int64) {
	d.t.Helper()
	var a answer
	for last := time.Now(); len(ids) < n; {
		count := min(batch, n-len(ids))
		var err error
		a, err = d.do(http.MethodGet, target+fmt.Sprint(count), "Accept", "text/plain")
		if err == nil && a.status == http.StatusOK {
			got, err := digits(a.body, count)
			if err != nil {
				d.t.Fatal(err)
			}
			ids, last = append(ids, got...), time.Now()
			continue
		}
		if time.Since(last) > patience {
			d.t.Logf("%s: %d of %d IDs: %v %d %.200s", target, len(ids), n, err, a.status, a.body)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ids
}

// wantNew fails for IDs that had come before, and when there are none to compare.
func wantNew(t *testing.T, what string, before, after []int64) {
	t.Helper()
	seen := make(map[int64]bool, len(before))
	for _, id := range before {
		seen[id] = true
	}
	twice := 0
	for _, id := range after {
		if seen[id] {
			twice++
		}
	}
	t.Logf("%s: %d IDs, then %d, %d of them a second time", what, len(before), len(after), twice)
	if twice > 0 || len(before) == 0 || len(after) == 0 {
		t.Errorf("%s: %d of %d IDs came a second time; before there were %d", what, twice, len(after), len(before))
	}
}

// TestDirectedReplicasOnTwoRedis: one replica uses another Redis than the other, and the
// database fails over to a copy that lacks a moment.
func TestDirectedReplicasOnTwoRedis(t *testing.T) {
	story(t)
	t.Run("Redis is moved", func(t *testing.T) {
		t.Parallel()
		db, old, next := newMovingDatabase(t), testserver.Redis(t), testserver.Redis(t)
		p := deploy(t, db.settings().With(smallSteps()).With(settings{"SEGMENT_RUNWAY": "1s"}), allModes())
		stays, leaves := p.add(onRedis(old.Addr)), serve(t, p.settings.With(onRedis(old.Addr)))
		p.serves(startLimit, stays, leaves)
		leaves.stops(syscall.SIGTERM, startLimit)
		p.failOverApart(db, stays, p.add(onRedis(next.Addr)), onRedis(old.Addr), onRedis(next.Addr))
	})
	t.Run("Redis is promoted and one replica reaches the old master", func(t *testing.T) {
		t.Parallel()
		db, master := newMovingDatabase(t), testserver.Redis(t)
		next, proxy := testserver.RedisReplica(t, master), proxied(t, master)
		p := deploy(t, db.settings().With(smallSteps()).With(settings{"SEGMENT_RUNWAY": "1s"}), allModes())
		stays, follows := p.add(onRedis(master.Addr)), p.add(onRedis(proxy.Addr))
		p.serves(startLimit, stays, follows)
		order(t, next.Client(), "REPLICAOF", "NO", "ONE")
		proxy.Switch(next.Addr)
		p.failOverApart(db, stays, follows, onRedis(master.Addr), onRedis(proxy.Addr))
	})
}

// TestDirectedReplicaWithoutRedis: one replica has no Redis, and the database fails over
// to a copy that lacks a moment.
func TestDirectedReplicaWithoutRedis(t *testing.T) {
	story(t)
	db, redis := newMovingDatabase(t), testserver.Redis(t)
	p := deploy(t, db.settings().With(smallSteps()).With(settings{"SEGMENT_RUNWAY": "1s", "UID_MODE": "default"}), allModes())
	stays := p.add(onRedis(redis.Addr))
	p.serves(startLimit, stays)
	other := p.add()
	p.serves(startLimit, other)
	time.Sleep(12 * time.Second) // what is done with a heartbeat of the database has been done
	p.failOverApart(db, stays, other, onRedis(redis.Addr), settings{})
}

// failOverApart lets the database fail over to a copy that lacks what a replica handed out
// that does not use the Redis of the other, and lets that other one meet the copy first.
func (p *fleet) failOverApart(db movingDatabase, stays, other *daemon, same, another settings) {
	p.t.Helper()
	p.serves(startLimit, stays, other)
	time.Sleep(3 * time.Second)
	asleep(other, func() {
		time.Sleep(2500 * time.Millisecond) // only the Redis of stays is in use
		db.CatchUp()
		db.Lag()
	})
	lagging := time.Now()
	stays.Signal(syscall.SIGSTOP)
	late := p.add(another)
	time.Sleep(700 * time.Millisecond) // both hand out what only their Redis, or none, knows of
	asleep(other, func() {
		asleep(late, func() {
			db.Failover()
			db.leadTo(db.Primary)
			p.t.Logf("failed over to a copy that lagged by %v", time.Since(lagging).Round(10*time.Millisecond))
			stays.Signal(syscall.SIGCONT)
			time.Sleep(2 * time.Second)
		})
	})
	p.serves(time.Minute, p.add(same), stays, other, late)
	time.Sleep(3 * time.Second)
	p.settle()
}

// TestDirectedRedisClockAhead: the clock of a Redis was ahead and is corrected while another
// one is in use. The database then fails over to a copy of the time of the first, which is
// used again: it does not know what was handed out meanwhile.
func TestDirectedRedisClockAhead(t *testing.T) {
	story(t)
	db, books := newMovingDatabase(t), map[string][]int64{}
	first, set := testserver.RedisWithClock(t)
	if set == nil {
		t.Skip("a server with a clock of its own needs a C compiler")
	}
	set(10 * time.Minute)
	proxy := proxied(t, first)
	p := deploy(t, db.settings().With(smallSteps()).With(direct()), nil)
	d := serve(t, p.settings.With(onRedis(proxy.Addr)))
	targets := []string{ordersGet, aliceDraw}
	for _, target := range targets {
		books[target] = draw(d, target, 2500, 500, startLimit)
	}
	time.Sleep(3 * time.Second)
	db.CatchUp()
	db.Lag()
	time.Sleep(time.Second)
	proxy.Switch(testserver.Redis(t).Addr)
	for _, target := range targets {
		books[target] = append(books[target], draw(d, target, 50_000, 1000, startLimit)...)
	}
	set(0)
	time.Sleep(10 * time.Second)
	d.Kill()
	db.Failover()
	db.leadTo(db.Primary)
	proxy.Switch(first.Addr)
	d = serve(t, p.settings.With(onRedis(proxy.Addr)))
	for _, target := range targets {
		wantNew(t, target, books[target], draw(d, target, 50_000, 1000, time.Minute))
	}
}
