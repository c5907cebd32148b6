//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

// chat is many rooms whose messages several members number, each in its own way. All that
// they are answered is checked for order.
type chat struct {
	t       *testing.T
	rooms   int
	order   *rig.Order
	members []*member
	callers []*rig.Callers
}

// member is who asks one server in one way.
type member struct {
	rig.Sequence
	name              string
	answered, refused atomic.Int64
	latest            atomic.Int64 // when the latest call was asked that was answered, ns
	longest           atomic.Int64 // that it went without an answer, ns
	reason            atomic.Pointer[string]
}

func newChat(t *testing.T, rooms int) *chat {
	return &chat{t: t, rooms: rooms, order: &rig.Order{}}
}

// join lets a member number messages until the chat ends. A refusal is no fault where fair
// says so; else it has to be that of a replica whose stores are away.
func (c *chat) join(name string, s rig.Sequence, fair func(error) bool) *member {
	c.t.Helper()
	m, callers, seed := &member{Sequence: s, name: name}, &rig.Callers{}, uint64(len(c.members))
	callers.Start(c.t, 2, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(seed, uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			if err := c.write(ctx, m, rnd); err != nil && !away(err) && !fair(err) {
				c.order.Complain("%s: %v", name, err)
			}
		}
	})
	c.members, c.callers = append(c.members, m), append(c.callers, callers)
	return m
}

// write numbers a message, or some at once, or looks how far a room has come. Half of it is
// in few rooms.
func (c *chat) write(ctx context.Context, m *member, rnd *rand.Rand) error {
	asking, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	room, n := rnd.IntN(c.rooms), 1
	if rnd.IntN(2) == 0 {
		room = rnd.IntN(min(c.rooms, 5))
	}
	switch rnd.IntN(8) {
	case 0:
		n = 0
	case 1:
		n = 2 + rnd.IntN(20)
	}
	begun := time.Now()
	err := c.order.Draw(asking, m.name, m, fmt.Sprint("room", room), n)
	if err != nil && ctx.Err() != nil {
		return nil // the chat has ended
	}
	if err != nil {
		text := err.Error()
		m.reason.Store(&text)
		m.refused.Add(1)
		return err
	}
	m.answered.Add(1)
	if last := m.latest.Swap(begun.UnixNano()); last > 0 { // two callers may both see a gap
		m.longest.Store(max(m.longest.Load(), time.Now().UnixNano()-last))
	}
	return nil
}

// away says that a replica refused as it does while it starts, or waits for its stores.
func away(err error) bool {
	var refusal *rig.RefusalError
	if errors.As(err, &refusal) {
		return refusal.Status == 503 && (refusal.Code == -4 || refusal.Code == -1) && refusal.Message != ""
	}
	return strings.HasPrefix(err.Error(), "SHARDID -4 ") || strings.HasPrefix(err.Error(), "SHARDID -1 ")
}

// anything goes for a server that is not shardid, or is killed.
func anything(error) bool { return true }

// nothing but the refusals of away.
func nothing(error) bool { return false }

// goesOn returns when each of the members, by default all, was answered what it asked from
// now on, and says how long that took.
func (c *chat) goesOn(limit time.Duration, members ...*member) time.Duration {
	c.t.Helper()
	if members == nil {
		members = c.members
	}
	begun := time.Now()
	for _, m := range members {
		if err := rig.Within(limit-time.Since(begun), func() error {
			if m.latest.Load() < begun.UnixNano() {
				return errors.New("no answer")
			}
			return nil
		}); err != nil {
			reason := m.reason.Load()
			if reason == nil {
				reason = new(string)
			}
			c.t.Fatalf("%s: no number within %v; last: %s", m.name, limit, *reason)
		}
	}
	return time.Since(begun).Round(time.Millisecond)
}

// takeover is goesOn after a fault that began at some time: how long there were no numbers.
func (c *chat) takeover(what string, since time.Time, members ...*member) {
	c.t.Helper()
	c.goesOn(time.Minute, members...)
	c.t.Logf("%s: numbers again after %v", what, time.Since(since).Round(10*time.Millisecond))
}

// stop ends the callers.
func (c *chat) stop() {
	for _, callers := range c.callers {
		callers.Stop()
	}
}

// tell logs what the first members were answered, and all in sum.
func (c *chat) tell() {
	c.t.Helper()
	for _, m := range c.members[:min(6, len(c.members))] {
		reason := ""
		if last := m.reason.Load(); last != nil {
			reason = "; last refusal: " + *last
		}
		c.t.Logf("%s: %d answers, %d refusals, the longest time without an answer %v%s", m.name, m.answered.Load(), m.refused.Load(),
			time.Duration(m.longest.Load()).Round(10*time.Millisecond), reason)
	}
	c.t.Logf("%+v", c.order.Tally())
}

// settle ends the chat, and fails the test for whatever was not in order.
func (c *chat) settle() {
	c.t.Helper()
	eventually(c.t, time.Minute, "there are enough numbers to show something", func() bool { return c.order.Count() > 1000 })
	c.stop()
	c.tell()
	c.order.Settle(c.t)
}

// wantDisorder ends the chat of a plain service, in which the same fault must show.
func (c *chat) wantDisorder() {
	c.t.Helper()
	c.stop()
	c.tell()
	tally, again := c.order.Tally(), c.order.Duplicates()
	c.t.Logf("a plain INCR: %d answers went back, %d numbers came again, such as %q", tally.Back, again, c.order.Problems()[:min(2, len(c.order.Problems()))])
	if tally.Back == 0 || again == 0 {
		c.t.Error("what does not break the order of a plain INCR shows nothing")
	}
}

// numbering are settings of a replica whose chat is asked over HTTP and RESP.
func numbering(stores settings) settings { return stores.With(settings{"RESP_ADDR": "127.0.0.1:0"}) }

// addChat provisions the space "chat": by default with few sections that soon run dry.
func addChat(t *testing.T, s settings, more ...string) {
	t.Helper()
	must(t, s, "migrate")
	must(t, s, append([]string{"sequences", "add", "--space", "chat", "--sections", "16", "--step", "200"}, more...)...)
}

// ask joins callers of a replica, over HTTP and RESP.
func (c *chat) ask(name string, d *daemon, fair func(error) bool) (both []*member) {
	c.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: d.respAddr(), MaxRetries: -1, ReadTimeout: 20 * time.Second, ContextTimeoutEnabled: true})
	c.t.Cleanup(func() { _ = client.Close() })
	return []*member{
		c.join(name+" over HTTP", rig.SequenceHTTP{Client: d.client, URL: d.url, Space: "chat"}, fair),
		c.join(name+" over RESP", rig.Incr{Redis: client, Prefix: "sequence:chat:"}, fair),
	}
}

// askPlain joins callers of a plain service, which counts rooms in Redis by INCR.
func (c *chat) askPlain(name string, client redis.UniversalClient) *member {
	c.t.Helper()
	c.t.Cleanup(func() { _ = client.Close() })
	return c.join(name, rig.Incr{Redis: client, Prefix: "chat:"}, anything)
}
