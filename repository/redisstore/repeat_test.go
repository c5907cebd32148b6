//go:build unix

package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// The client repeats what it gets no answer to. Here proxies lose answers, and deliver requests late, in front of a
// server, the master that sentinels name, and each node of a cluster.

// TestARepeatChangesNothing: a push whose answer is lost, or that arrives after the next one, is in its list once; a
// lock belongs to the one that asked for it; a pop leaves a gap.
func TestARepeatChangesNothing(t *testing.T) {
	forEachSite(t, func(t *testing.T, direct site) {
		at := behindProxies(t, direct)
		s := open(t, at.options)
		keys := manyKeys(50) // of each node
		push := func(first, last int64) []error {
			reqs := make([]model.PushRequest, len(keys))
			for i, st := range s.State(t.Context(), keys) {
				check.Must(t, st.Err)
				reqs[i] = model.PushRequest{Key: keys[i], Life: st.Life, Cap: 1000,
					Segment: model.Segment{First: first, Last: last}}
			}
			if first == 11 {
				at.loses.Store(1 << 30)
				defer at.loses.Store(0)
			}
			return s.Push(t.Context(), reqs)
		}
		check.Must(t, errors.Join(push(1, 10)...))
		for _, err := range push(11, 20) {
			check.Equal(t, err != nil, true, "an error for want of an answer")
		}
		check.Eventually(t, "all are executed", func() error {
			for i, st := range s.State(t.Context(), keys) {
				if st.HighWater != 20 {
					return fmt.Errorf("list %s: %+v", keys[i], st)
				}
			}
			return nil
		})
		for _, err := range push(20, 30) {
			check.Is(t, err, model.ErrNotAboveHighWater)
		}
		check.Must(t, errors.Join(push(21, 30)...))
		for _, k := range keys[1:] {
			listtest.Expect(t, listtest.Pop(t, s, k, 100).Indices, 1, 30)
		}

		at.loses.Store(1)
		p, err := s.Pop(t.Context(), keys[0], 10)
		check.Must(t, err)
		listtest.Expect(t, p.Indices, 11, 20)
		for _, name := range []string{"1_2", "1_3"} { // first the server has to learn the script
			got, err := s.TryLock(t.Context(), []string{name}, "me", time.Minute)
			check.Must(t, err)
			check.Equal(t, got[0], true, "the lock", name)
			at.loses.Store(1)
		}
		at.loses.Store(0)

		late := &hold{make(chan struct{}), make(chan struct{})}
		at.hold.Store(late)
		req := model.PushRequest{Key: keys[0], Life: p.Life, Segment: model.Segment{First: 31, Last: 40}, Cap: 1000}
		delayed := make(chan error)
		go func() { delayed <- s.Push(t.Context(), []model.PushRequest{req})[0] }()
		<-late.sent
		listtest.Fill(t, open(t, at.options), keys[0], 41, 50)
		close(late.arrive)
		check.Is(t, <-delayed, model.ErrNotAboveHighWater)
		listtest.Expect(t, listtest.Pop(t, s, keys[0], 10).Indices, 21, 30)
		listtest.Expect(t, listtest.Pop(t, s, keys[0], 10).Indices, 41, 50)
	})
}

// manyKeys are n lists.
func manyKeys(n int) []model.ListKey {
	keys := make([]model.ListKey, n)
	for i := range keys {
		keys[i] = model.ListKey{App: uint8(i / model.Shards), Shard: uint8(i % model.Shards)}
	}
	return keys
}

// proxied is a Redis behind proxies, one for each node.
type proxied struct {
	options redisstore.Options
	*faults
}

// faults are what the proxies of a Redis do.
type faults struct {
	loses atomic.Int64         // to how many scripts the answer is lost
	hold  atomic.Pointer[hold] // of the next script, or nil
}

// hold keeps back a script: sent is closed once it was sent, and it arrives when arrive is closed.
type hold struct{ sent, arrive chan struct{} }

// behindProxies has the sentinels name a proxy as the master, and every node of a cluster announce its own.
func behindProxies(t *testing.T, at site) proxied {
	f := &faults{}
	o := at.Options
	o.Addrs = nil
	var ports []string
	for _, master := range at.masters {
		addr := f.proxy(t, master.Addr)
		_, port, _ := net.SplitHostPort(addr)
		o.Addrs, ports = append(o.Addrs, addr), append(ports, port)
		if at.Mode == "cluster" {
			do(t, master.Client(), "CONFIG", "SET", "cluster-announce-port", port)
		}
	}
	switch at.Mode {
	case "sentinel":
		o.Addrs, o.MasterName = at.Addrs, "proxied"
		for _, one := range at.sentinels {
			do(t, one.Client(), "SENTINEL", "MONITOR", "proxied", "127.0.0.1", ports[0], 2)
		}
	case "cluster":
		for _, node := range at.masters {
			check.Eventually(t, "announce the proxies", func() error {
				slots := fmt.Sprint(do(t, node.Client(), "CLUSTER", "SLOTS"))
				for _, port := range ports {
					if !strings.Contains(slots, port) {
						return errors.New(slots)
					}
				}
				return nil
			})
		}
	}
	return proxied{o, f}
}

// proxy forwards to a Redis, and gives its own address.
func (f *faults) proxy(t *testing.T, to string) string {
	t.Helper()
	return testserver.Fake(t, func(client net.Conn) {
		var muted atomic.Bool
		testserver.Forward(client, to, func(request []byte) []byte {
			low := bytes.ToLower(request)
			if bytes.Contains(low, []byte("\neval")) {
				if h := f.hold.Swap(nil); h != nil {
					close(h.sent)
					<-h.arrive
				}
				muted.Store(f.loses.Add(-1) >= 0)
			}
			return request
		}, func(reply []byte) []byte {
			if !muted.Load() {
				return reply
			}
			time.Sleep(20 * time.Millisecond) // a pipeline is executed to its end
			_ = client.Close()
			return nil
		})
	})
}
