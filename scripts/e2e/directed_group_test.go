//go:build unix

package e2e_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestDirectedGroupReplication: shardid knows the three nodes of a group. Whatever becomes of the
// primary, all modes go on with the next one, which has every number that was handed out: so
// nothing is doubted and no number is left out.
func TestDirectedGroupReplication(t *testing.T) {
	check.Deep(t)
	story(t)
	group := testserver.Group(t) // with DB=mysql-9.7, so in make test-stores
	query(t, group.Primary().DSN(""), "CREATE DATABASE shardid")
	s := onMariaDB(group.Primary().DSN("shardid")).With(settings{"DATABASE_HOSTS": strings.Join(group.Addrs(), ",")}).
		With(onRedis(testserver.Redis(t).Addr))
	p := deploy(t, s.With(smallSteps()), allModes())
	judged := func(level string) *regexp.Regexp {
		return regexp.MustCompile(`"value": ?"Group Replication",[^}]*"level": ?"` + level + `"`)
	}
	if o := shardid(t, s, "doctor", "--json"); !judged("ok").MatchString(o.stdout) {
		t.Errorf("doctor says of the group: %s", o.stdout)
	}
	query(t, group.Primary().DSN(""), "SET GLOBAL group_replication_consistency = EVENTUAL")
	if o := shardid(t, s, "doctor", "--json"); !judged("warn").MatchString(o.stdout) {
		t.Errorf("doctor says of a primary that may answer too early: %s", o.stdout)
	}
	query(t, group.Primary().DSN(""), "SET GLOBAL group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER")
	p.serves(startLimit, p.add(), p.add())
	time.Sleep(3 * time.Second)

	old := group.Primary()
	fault := func(name string, begin func()) {
		t.Helper()
		begun := time.Now()
		begin()
		now := group.AnotherPrimary(old)
		took := time.Since(begun).Round(10 * time.Millisecond)
		p.serves(30*time.Second, p.replicas...)
		t.Logf("%s: another primary after %v, all modes after %v", name, took, time.Since(begun).Round(10*time.Millisecond))
		time.Sleep(2 * time.Second)
		old = now
	}
	lost := old
	fault("killed", func() { lost.Kill() })
	group.Rejoin(lost)
	lost = old
	fault("started again outside the group", func() { lost.Kill(); lost.Restart() })
	if o := shardid(t, onMariaDB(lost.DSN("shardid")), "doctor", "--json"); !judged("unsafe").MatchString(o.stdout) {
		t.Errorf("doctor says of a node outside its group: %s", o.stdout)
	}
	group.Rejoin(lost) // it would be kept out if anybody had written to it
	lost = old
	fault("frozen", func() { lost.Pause() })
	time.Sleep(15 * time.Second) // the group has done without it
	lost.Resume()
	time.Sleep(3 * time.Second)
	p.serves(30*time.Second, p.replicas...)
	group.Rejoin(lost)
	if group.CanCut() {
		lost = old
		var heal func()
		fault("cut off", func() { heal = group.Cut(lost) })
		time.Sleep(5 * time.Second) // the old primary answers, and hangs each COMMIT
		heal()
		time.Sleep(3 * time.Second)
		p.serves(30*time.Second, p.replicas...)
		group.Rejoin(lost)
	}
	fault("switched", group.Switch)
	p.add()
	p.serves(startLimit, p.replicas...)

	for _, d := range p.replicas {
		for _, doubt := range []string{"the database was restarted, failed over or restored", "max_id was below"} {
			if lines := d.Lines(`"msg":"` + doubt); len(lines) > 0 {
				t.Errorf("the group was doubted: %s", lines[0])
			}
		}
	}
	time.Sleep(2 * time.Second)
	p.settle()
}
