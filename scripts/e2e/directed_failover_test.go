//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/faults"
	"shardid/scripts/testserver"
)

// allModes are a request of each mode; each brings a hundred IDs as text.
func allModes() map[string]string {
	return map[string]string{
		"queue":     "/get?appId=1&gatePass=alice&count=100",
		"segment":   segmentGet + "orders?count=100",
		"snowflake": snowflakeGet + "?count=100",
		"uid":       uidTarget(100),
	}
}

// fleet is replicas that share stores, what they are asked for, and all that
// they have issued, by mode.
type fleet struct {
	t        *testing.T
	settings settings
	asked    map[string]string
	books    map[string]*ledger
	replicas []*daemon
	gaps     sync.Map // the longest that a caller went without IDs, by replica
	callers  sync.WaitGroup
	ctx      context.Context
	stop     func()
}

// deploy migrates the database of s, with an app and a tag.
func deploy(t *testing.T, s settings, asked map[string]string) *fleet {
	t.Helper()
	must(t, s, "migrate")
	must(t, s, "provision", "--app", "1", "--name", "test")
	must(t, s, "tags", "add", "--tag", "orders", "--step", "1000")
	p := &fleet{t: t, settings: s, asked: asked, books: map[string]*ledger{}}
	p.ctx, p.stop = context.WithCancel(t.Context())
	t.Cleanup(func() { p.stop(); p.callers.Wait() })
	for mode := range asked {
		p.books[mode] = &ledger{}
	}
	return p
}

// add starts a replica with a caller for each mode, who asks it to the end.
func (p *fleet) add(more ...settings) *daemon {
	p.t.Helper()
	s := p.settings.With(settings{"SNOWFLAKE_ADVERTISE": address(len(p.replicas) + 1)})
	for _, m := range more {
		s = s.With(m)
	}
	d := serve(p.t, s)
	p.replicas = append(p.replicas, d)
	for mode, target := range p.asked {
		p.callers.Go(func() {
			var last time.Time
			longest := time.Duration(0)
			for ; p.ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				_, ids := p.ask(d, mode, target)
				if !last.IsZero() {
					longest = max(longest, time.Since(last))
				}
				if ids != nil {
					last = time.Now()
				}
				p.gaps.Store([2]any{d, mode}, longest)
			}
		})
	}
	return d
}

// ask notes what one request brings; the IDs are nil when it is refused.
func (p *fleet) ask(d *daemon, mode, target string) (a answer, ids []int64) {
	books := p.books[mode]
	a, err := d.do(http.MethodGet, target, "Accept", "text/plain")
	if err == nil && a.status == 200 {
		ids, err = digits(a.body, 100)
		books.Rise(0, ids...)
	}
	if err != nil || a.status != 200 && (a.status != 503 || a.header.Get("Retry-After") == "") {
		books.Complain("%v %d %.200s", err, a.status, a.body)
	}
	return a, ids
}

// serves returns when the replicas answer in all modes, each within limit.
func (p *fleet) serves(limit time.Duration, replicas ...*daemon) {
	p.t.Helper()
	slowest := map[string]time.Duration{}
	for i, d := range replicas {
		for mode, target := range p.asked {
			var a answer
			var ids []int64
			begun := time.Now()
			for ids == nil && time.Since(begun) < limit {
				if a, ids = p.ask(d, mode, target); ids == nil {
					time.Sleep(50 * time.Millisecond)
				}
			}
			if ids == nil {
				p.t.Errorf("replica %d of %d: no %s within %v: %d %s", i+1, len(replicas), mode, limit, a.status, a.body)
			}
			slowest[mode] = max(slowest[mode], time.Since(begun).Round(10*time.Millisecond))
		}
	}
	p.t.Logf("%d replicas serve after at most %v", len(replicas), slowest)
}

// settle fails the test for every ID that came twice, and whatever else was wrong.
func (p *fleet) settle() {
	p.t.Helper()
	p.stop()
	p.callers.Wait()
	for mode, books := range p.books {
		books.Settle(p.t, mode)
	}
}

// movingDatabase is a replicated pair behind an address that stays the same.
type movingDatabase struct {
	*testserver.MariaDBPair
	proxy *faults.Proxy
	name  string
}

func newMovingDatabase(t *testing.T) movingDatabase {
	t.Helper()
	pair := testserver.MariaDBReplicated(t)
	proxy := proxyTo(t, fmt.Sprintf("127.0.0.1:%d", pair.Primary.Port))
	query(t, pair.Primary.DSN(""), "CREATE DATABASE shardid")
	return movingDatabase{pair, proxy, "shardid"}
}

func (m movingDatabase) settings() settings {
	return onMariaDB(fmt.Sprintf("root@tcp(%s)/%s", m.proxy.Addr, m.name))
}

// leadTo is where the address leads from now on.
func (m movingDatabase) leadTo(s *testserver.MariaDBServer) {
	m.proxy.Switch(fmt.Sprintf("127.0.0.1:%d", s.Port))
}

// TestDirectedDatabaseFailover: the database fails over to a replica that has missed
// the last second, in which all modes issued and a replica of shardid started; or all that
// was ever issued. Two more start after it. With Redis as witness, and without.
func TestDirectedDatabaseFailover(t *testing.T) {
	story(t)
	for _, c := range []struct {
		name  string
		redis bool
		hosts bool // shardid knows both servers, and no proxy leads to the primary
		young bool // the lag begins before the first ID
		times int  // one after the other
	}{
		{"with Redis", true, true, false, 1},
		{"without Redis", false, false, false, 1},
		{"without Redis, before the first ID", false, false, true, 1},
		{"without Redis, twice", false, true, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.redis {
				check.Deep(t)
			}
			t.Parallel()
			db := newMovingDatabase(t)
			s := db.settings()
			if c.hosts {
				s = s.With(settings{"DATABASE_HOSTS": fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", db.Replica.Port, db.Primary.Port)})
			}
			if c.redis {
				s = s.With(onRedis(testserver.Redis(t).Addr))
			}
			p := deploy(t, s.With(smallSteps()), allModes())
			if !c.young {
				p.serves(startLimit, p.add(), p.add())
				time.Sleep(3 * time.Second)
			}
			for i := range c.times {
				if i > 0 {
					db.Rejoin()
					time.Sleep(3 * time.Second)
				}
				db.CatchUp()
				db.Lag()
				begun := time.Now()
				p.serves(startLimit, p.add())
				time.Sleep(200 * time.Millisecond)
				db.Failover()
				db.leadTo(db.Primary)
				t.Logf("failed over to a replica that lagged by %v", time.Since(begun).Round(10*time.Millisecond))
				p.add()
				p.add()
				p.serves(time.Minute, slices.Clone(p.replicas)...)
			}
			time.Sleep(3 * time.Second)
			p.settle()
		})
	}
}

// TestDirectedDatabaseOverAndBack: the address of the database leads to the replica for
// a while, and back to the primary, which was never stopped and knows nothing of it.
func TestDirectedDatabaseOverAndBack(t *testing.T) {
	check.Deep(t)
	story(t)
	for name, redis := range map[string]bool{"with Redis": true, "without Redis": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newMovingDatabase(t)
			s := db.settings()
			if redis {
				s = s.With(onRedis(testserver.Redis(t).Addr))
			}
			p := deploy(t, s.With(smallSteps()), allModes())
			p.serves(startLimit, p.add(), p.add())
			time.Sleep(3 * time.Second)
			db.CatchUp()
			db.Promote()
			db.leadTo(db.Primary)
			p.serves(time.Minute, p.replicas...)
			p.serves(time.Minute, p.add())
			time.Sleep(3 * time.Second)
			db.leadTo(db.Replica)
			time.Sleep(2 * time.Second) // somebody who knows better meets it
			p.add()
			p.add()
			p.serves(time.Minute, slices.Clone(p.replicas)...)
			time.Sleep(3 * time.Second)
			p.settle()
		})
	}
}
