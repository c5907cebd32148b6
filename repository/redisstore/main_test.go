//go:build unix

package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/repository/sequencetest"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// databases are those of the shared server, each lent to one test at a time.
var databases = make(chan int, 16)

// TestMain lets more tests run in parallel than there are cores: they wait for servers much more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	for db := range cap(databases) {
		databases <- db
	}
	testserver.Main(m)
}

func key() model.ListKey { return model.ListKey{App: 1, Shard: 2} }

const (
	listName    = "id.gen.idList_1_2"
	metaName    = "id.gen.meta_{id.gen.idList_1_2}"
	emptiedName = "id.gen.meta_{id.gen.idList_9_0}" // of the list emptied()
	marksName   = "id.gen.marks_{ours}"
	sectionName = "id.gen.sequence_s_0"

	secret = "s3cret-pass"
)

// open returns a store that is closed when the test ends. It waits for answers longer than by default, as the machine
// may be busy with other tests.
func open(t testing.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 2*time.Second)
	s := redisstore.New(o)
	s.SetDeployment("ours")
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

func openAt(t testing.TB, addr string) *redisstore.Store {
	t.Helper()
	return open(t, single(addr))
}

func of(t testing.TB, o redisstore.Options, deployment string) *redisstore.Store {
	t.Helper()
	s := open(t, o)
	s.SetDeployment(deployment)
	return s
}

func single(addr string) redisstore.Options {
	return redisstore.Options{Mode: "single", Addrs: []string{addr}}
}

// lend gives an empty database of the shared server, which no other test uses meanwhile, and a client of it.
func lend(t testing.TB) (redisstore.Options, *redis.Client) {
	t.Helper()
	o := single(testserver.SharedRedis(t).Addr)
	o.DB = <-databases
	c := redis.NewClient(&redis.Options{Addr: o.Addrs[0], DB: o.DB, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() {
		check.OK(t, c.Close())
		databases <- o.DB
	})
	do(t, c, "FLUSHDB")
	return o, c
}

func TestContract(t *testing.T) {
	for mode, start := range map[string]func(*testing.T) (redisstore.Options, []*testserver.RedisServer){
		"single": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			server := testserver.Redis(t)
			return single(server.Addr), []*testserver.RedisServer{server}
		},
		"sentinel": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			setup := testserver.Sentinel(t)
			o := redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName}
			return o, []*testserver.RedisServer{setup.Master}
		},
		"cluster": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			setup := testserver.Cluster(t)
			return redisstore.Options{Mode: "cluster", Addrs: setup.Addrs}, setup.Nodes
		},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o, masters := start(t)
			empty := func(t *testing.T) *redisstore.Store {
				for _, server := range masters {
					server.FlushAll()
				}
				s := open(t, o)
				check.Must(t, s.Check(t.Context()))
				return s
			}
			listtest.Run(t, func(t *testing.T) listtest.Store { return empty(t) })
			sequencetest.Run(t, func(t *testing.T) sequencetest.Store { return empty(t).Sequences() })
		})
	}
}

func request(t testing.TB, s *redisstore.Store, first, last int64) model.PushRequest {
	t.Helper()
	return model.PushRequest{Key: key(), Life: listtest.State(t, s, key()).Life,
		Segment: model.Segment{First: first, Last: last}, Cap: 1 << 40}
}

// pushErr pushes one segment.
func pushErr(t testing.TB, s *redisstore.Store, r model.PushRequest) error {
	t.Helper()
	return s.Push(t.Context(), []model.PushRequest{r})[0]
}

func popErr(t testing.TB, s *redisstore.Store) error {
	t.Helper()
	p, err := s.Pop(t.Context(), key(), 1)
	if err != nil && len(p.Indices) > 0 {
		t.Errorf("%v came with an error: %v", p.Indices, err)
	}
	return err
}

// do runs a command beside the store.
func do(t testing.TB, c redis.UniversalClient, args ...any) any {
	t.Helper()
	got, err := c.Do(t.Context(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return got
}

func wantAdvice(t testing.TB, err error, words ...string) {
	t.Helper()
	workertest.WantAdvice(t, "redis", err, words...)
}

// TestObserve: a script is observed under the name of its file, and failed when Redis could not be used.
func TestObserve(t *testing.T) {
	t.Parallel()
	var seen []string
	observe := func(ctx context.Context, store, op string) (context.Context, func(error)) {
		return ctx, func(failure error) { seen = append(seen, fmt.Sprintf("%s %s %t", store, op, failure == nil)) }
	}
	o, _ := lend(t)
	o.Observe = observe
	s := open(t, o)
	check.Must(t, popErr(t, s))
	check.Must(t, check.Err(s.TryLock(t.Context(), []string{"1_2"}, "token", time.Second)))
	o.Addrs = []string{"127.0.0.1:1"}
	check.Equal(t, popErr(t, open(t, o)) != nil, true, "a port where nobody listens")
	check.Equal(t, strings.Join(seen, ", "), "redis pop true, redis lock true, redis pop false")
}
