//go:build unix

package e2e_test

import (
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestDirectedReplicasOnTwoRedis: one replica uses another Redis than the other, and the
// database fails over to a copy that lacks a moment.
func TestDirectedReplicasOnTwoRedis(t *testing.T) {
	check.Deep(t)
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
