//go:build unix

package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// TestDirectedSequenceDatabaseFailover: the database fails over to a copy that lacks a moment
// in which sections took numbers, twice, and Redis goes back with it or does not.
func TestDirectedSequenceDatabaseFailover(t *testing.T) {
	check.Deep(t)
	story(t)
	for name, redisToo := range map[string]bool{"Redis lives": false, "Redis goes back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, server := newMovingDatabase(t), testserver.Redis(t)
			s := db.settings()
			addChat(t, s)
			c := newChat(t, 200)
			s = numbering(s.With(onRedis(server.Addr)))
			for i, d := range serveReady(t, 2, s) {
				c.ask(fmt.Sprint("replica ", i+1), d, nothing)
			}
			c.goesOn(startLimit)
			for round := range 2 {
				if round > 0 {
					db.Rejoin()
				}
				time.Sleep(3 * time.Second)
				db.CatchUp()
				if redisToo {
					order(t, server.Client(), "SAVE")
				}
				db.Lag()
				time.Sleep(2 * time.Second)
				if redisToo {
					server.Kill()
				}
				begun := time.Now()
				db.Failover()
				db.leadTo(db.Primary)
				if redisToo {
					server.Restart()
				}
				c.ask(fmt.Sprintf("a replica after failover %d", round+1), serve(t, s), nothing)
				c.takeover(name, begun)
			}
			time.Sleep(time.Second)
			c.settle()
		})
	}
}

// TestE2ESequenceDatabaseAway: without the database numbers stop when the lease has ended,
// and callers read why. They go on by themselves.
func TestE2ESequenceDatabaseAway(t *testing.T) {
	check.Deep(t)
	story(t)
	type server = *testserver.MariaDBServer
	for name, c := range map[string]struct {
		leave, back func(server)
	}{
		"killed": {server.Kill, server.Restart},
		"silent": {server.Pause, server.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stores := privateStores(t)
			addChat(t, onMariaDB(stores.dsn), "--step", "100000")
			replicas := serveReady(t, 2, numbering(stores.settings()))
			chat := newChat(t, 200)
			for i, d := range replicas {
				chat.ask(fmt.Sprint("replica ", i+1), d, nothing)
			}
			chat.goesOn(startLimit)
			time.Sleep(2 * time.Second) // each section has taken numbers
			c.leave(stores.db)
			left := time.Now()
			for _, d := range replicas {
				d.stopsNumbering(left)
			}
			time.Sleep(time.Until(left.Add(15 * time.Second)))
			c.back(stores.db)
			chat.takeover("the database is back", time.Now())
			chat.settle()
		})
	}
}

// stopsNumbering returns when a replica refuses because it has lost the database.
func (d *daemon) stopsNumbering(since time.Time) {
	d.t.Helper()
	var a answer
	refused := func() bool { a = d.get("/v1/sequence/chat/ids?key=room1"); return a.status != 200 }
	eventually(d.t, time.Minute, "no number without the database", refused)
	d.t.Logf("stopped after %v: %s", time.Since(since).Round(10*time.Millisecond), a.body)
	eventually(d.t, startLimit, "the refusal says why", func() bool { return refused() && strings.Contains(a.Message, "database") })
	if !comeAgain(a) || a.Code != -4 {
		d.t.Errorf("%v %d %s", a.header, a.status, a.body)
	}
}

// TestE2ESequenceEmbedded: in the process, keys stay dense over orderly stops and go on above
// all that was given after others. No number comes twice, whichever it is.
func TestE2ESequenceEmbedded(t *testing.T) {
	story(t)
	dir, s := t.TempDir(), numbering(nil)
	for _, args := range [][]string{{"migrate"}, {"sequences", "add", "--space", "chat", "--step", "50"}} {
		if o := shardidIn(t, dir, s, args...); o.exit != 0 {
			t.Fatalf("%v: %+v", args, o)
		}
	}
	c, last := newChat(t, 50), int64(0)
	for round, orderly := range []bool{true, false, true, true, false} {
		d := serveIn(t, dir, s)
		name := fmt.Sprint("start ", round+1)
		quiet := rig.SequenceHTTP{Client: d.client, URL: d.url, Space: "chat"}
		for times := range 2 {
			var first int64
			before := last
			first, last = c.quiet(name, quiet, 3)
			if dense := round == 0 || times > 0; dense && first != before+1 || first <= before {
				t.Errorf("%s: number %d after %d", name, first, before)
			}
		}
		members := c.ask(name, d, anything)
		c.goesOn(startLimit, members...)
		time.Sleep(300 * time.Millisecond)
		if orderly {
			d.stops(syscall.SIGTERM, startLimit)
		} else {
			d.Kill()
		}
		c.stop()
		t.Logf("%s: %d numbers so far, the quiet room has come to %d", name, c.order.Count(), last)
	}
	c.settle()
}

// quiet numbers messages of a room that nobody else writes to.
func (c *chat) quiet(by string, s rig.Sequence, n int) (first, last int64) {
	c.t.Helper()
	rig.Until(c.t, startLimit, "a number", func() (err error) {
		a := c.order.Ask(by, "quiet")
		if first, last, err = s.Take(c.t.Context(), "quiet", n); err != nil {
			a.Lost()
			return err
		}
		a.Got(first, last)
		return nil
	})
	return first, last
}
