//go:build unix

package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// site is a Redis behind proxies, one for each node.
type site struct {
	options redisstore.Options
	proxies []*proxy
	nodes   []*redis.Client
	direct  redis.UniversalClient
}

var scriptCalls = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+),.*rejected_calls=(\d+)`)

// fault says whether scripts are answered from now on by the end of the connection, or not at
// all. It returns how many the nodes were sent so far, those that they refused included.
func (s site) fault(t *testing.T, drop, stall bool) (scripts int) {
	t.Helper()
	for _, p := range s.proxies {
		p.drop.Store(drop)
		p.stall.Store(stall)
	}
	for _, node := range s.nodes {
		text, err := node.Info(t.Context(), "commandstats").Result()
		check.Must(t, err)
		for _, calls := range scriptCalls.FindAllStringSubmatch(text, -1) {
			for _, n := range calls[1:] {
				count, err := strconv.Atoi(n)
				check.Must(t, err)
				scripts += count
			}
		}
	}
	return scripts
}

func singleSite(t *testing.T) site {
	server := testserver.Redis(t)
	p, direct := newProxy(t, server.Addr), server.Client()
	return site{redisstore.Options{Mode: "single", Addrs: []string{p.addr}}, []*proxy{p}, []*redis.Client{direct}, direct}
}

// sentinelSite makes the sentinels name a proxy as the master.
func sentinelSite(t *testing.T) site {
	setup := testserver.Sentinel(t)
	p := newProxy(t, setup.Master.Addr)
	host, port, _ := net.SplitHostPort(p.addr)
	for _, one := range setup.Sentinels {
		do(t, one.Client(), "SENTINEL", "MONITOR", "proxied", host, port, 2)
	}
	master := setup.Master.Client()
	return site{redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: "proxied"}, []*proxy{p}, []*redis.Client{master}, master}
}

// clusterSite makes every node announce its proxy.
func clusterSite(t *testing.T) site {
	setup := testserver.Cluster(t)
	s := site{options: redisstore.Options{Mode: "cluster"}, direct: setup.Client()}
	for _, node := range setup.Nodes {
		p := newProxy(t, node.Addr)
		_, port, _ := net.SplitHostPort(p.addr)
		do(t, node.Client(), "CONFIG", "SET", "cluster-announce-port", port)
		s.proxies, s.nodes = append(s.proxies, p), append(s.nodes, node.Client())
		s.options.Addrs = append(s.options.Addrs, p.addr)
	}
	for _, node := range setup.Nodes {
		check.Eventually(t, "announce the proxies", func() error {
			slots := fmt.Sprint(do(t, node.Client(), "CLUSTER", "SLOTS"))
			for _, p := range s.proxies {
				if _, port, _ := net.SplitHostPort(p.addr); !strings.Contains(slots, port) {
					return errors.New(slots)
				}
			}
			return nil
		})
	}
	return s
}

func forEachSite(t *testing.T, run func(*testing.T, site)) {
	t.Run("single", func(t *testing.T) { run(t, singleSite(t)) })
	t.Run("sentinel", func(t *testing.T) { run(t, sentinelSite(t)) })
	t.Run("cluster", func(t *testing.T) { run(t, clusterSite(t)) })
}

// Whatever happens to the reply, a push is on the wire once.
func TestPushIsSentOnce(t *testing.T) {
	forEachSite(t, func(t *testing.T, at site) {
		at.options.ReadTimeout = 3 * time.Second // beside other tests an answer takes a second
		s := open(t, at.options)
		listtest.Fill(t, s, model.ListKey{App: 200}, 1, 1) // scripts are known, topology too
		for _, fault := range []struct {
			name        string
			drop, stall bool
			lists       int
		}{
			{"reply dropped", true, false, 1},
			{"replies of a pipeline dropped", true, false, 50},
			{"reply stalled", false, true, 1},
			{"replies of a pipeline stalled", false, true, 50},
		} {
			t.Run(fault.name, func(t *testing.T) {
				reqs := someRequests(t, s, fault.lists)
				for _, warm := range reqs { // every node knows the script
					warm.Segment = model.Segment{First: 1, Last: 1}
					warm.Cap = 0
					if err := s.Push(t.Context(), []model.PushRequest{warm})[0]; err == nil {
						t.Fatal("a cap of 0 must refuse")
					}
				}
				before := at.fault(t, fault.drop, fault.stall)
				errs := s.Push(t.Context(), reqs)
				sent := at.fault(t, false, false) - before
				check.Equal(t, sent, len(reqs), "pushes sent")
				for i, err := range errs {
					wantAdvice(t, err, "push")
					if n := at.direct.LLen(t.Context(), nameOf(reqs[i].Key)).Val(); n != 10 {
						t.Errorf("list %s holds %d indices, want the 10 of the push that was executed", reqs[i].Key, n)
					}
				}
				next := reqs[0]
				next.Segment.First, next.Segment.Last = next.Segment.Last+1, next.Segment.Last+10
				check.OK(t, s.Push(t.Context(), []model.PushRequest{next})[0], "the next push")
				check.OK(t, s.Delete(t.Context(), keysIn(reqs)))
			})
		}
	})
}

func nameOf(k model.ListKey) string { return "id.gen.idList_" + k.String() }

func keysIn(reqs []model.PushRequest) (keys []model.ListKey) {
	for _, r := range reqs {
		keys = append(keys, r.Key)
	}
	return keys
}

// someRequests are pushes of ten indices each, over lists of all slots.
func someRequests(t *testing.T, s *redisstore.Store, n int) []model.PushRequest {
	t.Helper()
	keys := make([]model.ListKey, n)
	for i := range keys {
		keys[i] = model.ListKey{App: uint8(i), Shard: uint8(i % model.Shards)}
	}
	reqs := make([]model.PushRequest, n)
	for i, st := range s.State(t.Context(), keys) {
		if st.Err != nil {
			t.Fatal(st.Err)
		}
		reqs[i] = model.PushRequest{Key: keys[i], Life: st.Life, Cap: 100,
			Segment: model.Segment{First: st.HighWater + 1, Last: st.HighWater + 10}}
	}
	return reqs
}

// A pop may be repeated; what it loses is a gap.
func TestPopWithLostReply(t *testing.T) {
	check.Deep(t)
	forEachSite(t, func(t *testing.T, at site) {
		s := open(t, at.options)
		listtest.Fill(t, s, key(), 1, 100)
		listtest.Expect(t, listtest.Pop(t, s, key(), 10).Indices, 1, 10)
		before := at.fault(t, true, false)
		wantAdvice(t, popErr(t, s), "pop")
		sent := int64(at.fault(t, false, false) - before)
		if sent < 1 || sent > 3 {
			t.Errorf("sent %d times", sent)
		}
		listtest.Expect(t, listtest.Pop(t, s, key(), 10).Indices, 11+sent, 20+sent)
	})
}

// A lock whose reply was lost is given back.
func TestLockAfterFailure(t *testing.T) {
	at := singleSite(t)
	s := open(t, at.options)
	do(t, at.direct, "SET", "id.gen.lock_1_2", "bob")
	do(t, at.direct, "HSET", "id.gen.lock_1_3", "not", "a lock")
	got, err := s.TryLock(t.Context(), []string{"1_1", "1_2", "1_3"}, "me", time.Minute)
	if err != nil || !got[0] || got[1] || got[2] {
		t.Fatal(got, err)
	}
	wantAdvice(t, s.Unlock(t.Context(), []string{"1_3", "1_2", "1_1"}, "me"), "WRONGTYPE")
	if n := do(t, at.direct, "EXISTS", "id.gen.lock_1_1", "id.gen.lock_1_2"); n != int64(1) {
		t.Errorf("%v locks are left, want bob's", n)
	}
}

// A lock that is no list's is the deployment's own.
func TestLocksOfDeployments(t *testing.T) {
	at := singleSite(t)
	one, other := open(t, at.options), open(t, at.options)
	one.SetDeployment("one")
	other.SetDeployment("other")
	for _, c := range []struct {
		s    *redisstore.Store
		want []bool
	}{{one, []bool{true, true, true}}, {one, []bool{false, false, false}}, {other, []bool{true, true, false}}} {
		got, err := c.s.TryLock(t.Context(), []string{"sweep", "reload", "1_2"}, "me", time.Minute)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v, want %v", got, err, c.want)
		}
	}
	check.Must(t, one.Unlock(t.Context(), []string{"sweep"}, "me"))
	if n := do(t, at.direct, "EXISTS", "id.gen.lock_sweep_one", "id.gen.lock_sweep_other"); n != int64(1) {
		t.Errorf("%v locks of the sweep are left, want the other's", n)
	}
}

// proxy forwards to a Redis, and can drop the replies to scripts once the server has
// executed them.
type proxy struct {
	addr        string
	drop, stall atomic.Bool // see fault
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	p := &proxy{}
	p.addr = testserver.Fake(t, func(client net.Conn) {
		var muted atomic.Bool // from a script on
		testserver.Forward(client, to, func(request []byte) []byte {
			if (p.drop.Load() || p.stall.Load()) && bytes.Contains(bytes.ToLower(request), []byte("\neval")) {
				muted.Store(true)
			}
			return request
		}, func(reply []byte) []byte {
			if !muted.Load() {
				return reply
			}
			if p.drop.Load() {
				time.Sleep(20 * time.Millisecond) // a pipeline executes to its end
				_ = client.Close()
			}
			return nil
		})
	})
	return p
}
