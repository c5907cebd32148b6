//go:build unix

package e2e_test

import (
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// rolling is a deployment whose instances move to another registry one by one.
type rolling struct {
	*deployment
	to   settings
	kill bool // the last one is killed, and does not give its claim up
	wait time.Duration
}

// TestE2ELeafRollingChange: worker.mode, snowflake.name or the address of Redis change
// in a rolling update, old and new instances side by side. The new ones wait for the
// last old one, and say so, and nothing comes twice.
func TestE2ELeafRollingChange(t *testing.T) {
	check.Deep(t)
	story(t)
	zoo := testserver.SharedZooKeeper(t).Addr()
	one, two, three := testserver.Redis(t), testserver.Redis(t), testserver.Redis(t)
	const grace = time.Minute // a file may be gone on with for so long after a stop
	all := []rolling{
		{deployment: newDeployment(t, registry{mode: "redis moved", settings: byRedis(one.Addr)}, 3), to: byRedis(two.Addr), wait: takeover},
		{deployment: newDeployment(t, registry{mode: "redis moved, one killed", settings: byRedis(one.Addr).With(settings{"SNOWFLAKE_NAME": "other"})}, 3),
			to: byRedis(two.Addr).With(settings{"SNOWFLAKE_NAME": "other"}), kill: true, wait: takeover + 30*time.Second},
		{deployment: newDeployment(t, registry{mode: "mysql to redis", settings: onRedis(three.Addr).With(settings{"SNOWFLAKE_WORKER_MODE": "mysql"})}, 3),
			to: byRedis(three.Addr), wait: takeover + grace},
		{deployment: newDeployment(t, registry{mode: "another name", settings: onZooKeeper("zk", zoo)}, 3), to: onZooKeeper("zk", zoo), wait: takeover + grace},
	}
	for _, d := range all {
		for _, i := range d.instances {
			i.start()
		}
	}
	for _, d := range all {
		d.serves(t)
	}
	for _, d := range all {
		for _, i := range d.instances[:2] {
			i.stop()
			i.settings = i.settings.With(d.to)
			i.start()
		}
	}
	for _, d := range all {
		notReadyFor(t, d.instances[0], "another registry of worker IDs is in use", "confirm --registry")
		before := d.books.Count()
		eventually(t, takeover, d.mode+": the old one goes on", func() bool { return d.books.Count() > before+2000 })
	}
	time.Sleep(5 * time.Second) // the new ones would long have begun
	for _, d := range all {
		if d.instances[0].now.Load().flakeStatus().State != "waiting" {
			t.Errorf("%s: a new instance does not wait for the old one", d.mode)
		}
		last := d.instances[2]
		if d.kill {
			last.kill()
		} else {
			last.stop()
		}
		last.settings = last.settings.With(d.to)
		last.start()
	}
	for _, d := range all {
		for n, i := range d.instances {
			d.workers[n] = i.serves(d.wait)
		}
		d.apart(t)
		before := d.books.Count()
		eventually(t, takeover, d.mode+": all go on", func() bool { return d.books.Count() > before+5000 })
		d.callers.Stop()
		d.books.Settle(t, d.mode)
	}
}
