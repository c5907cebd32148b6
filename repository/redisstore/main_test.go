//go:build unix

package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// quiet keeps the connection failures that these tests provoke off stderr.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	testserver.Main(m)
}

func key() model.ListKey { return model.ListKey{App: 1, Shard: 2} }

const (
	listName = "id.gen.idList_1_2"
	metaName = "id.gen.meta_{id.gen.idList_1_2}"
)

// open returns a store that is closed when the test ends. It waits for answers longer than
// by default, as the machine may be busy with other tests.
func open(t testing.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 2*time.Second)
	s, err := redisstore.New(o)
	check.Must(t, err)
	s.SetDeployment("ours")
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

func openAt(t testing.TB, addrs ...string) *redisstore.Store {
	t.Helper()
	return open(t, redisstore.Options{Mode: "single", Addrs: addrs})
}

func request(t testing.TB, s *redisstore.Store, first, last int64) model.PushRequest {
	t.Helper()
	return model.PushRequest{Key: key(), Life: listtest.State(t, s, key()).Life,
		Segment: model.Segment{First: first, Last: last}, Cap: 1 << 40}
}

func nameOf(k model.ListKey) string { return "id.gen.idList_" + k.String() }

// emptied is the shared server without any key.
func emptied(t testing.TB) *testserver.RedisServer {
	t.Helper()
	server := testserver.SharedRedis(t)
	server.FlushAll()
	return server
}

// restartSaved writes a snapshot, kills the server and starts it again.
func restartSaved(t testing.TB, server *testserver.RedisServer) {
	t.Helper()
	do(t, server.Client(), "SAVE")
	server.Kill()
	server.Restart()
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

// eventually waits until f returns nil, and says how long that took.
func eventually(t testing.TB, what string, f func() error) time.Duration {
	t.Helper()
	start := time.Now()
	check.Eventually(t, what, f)
	return time.Since(start)
}

func wantAdvice(t testing.TB, err error, words ...string) {
	t.Helper()
	workertest.WantAdvice(t, "redis", err, words...)
}

func popErr(t testing.TB, s *redisstore.Store) error {
	t.Helper()
	p, err := s.Pop(t.Context(), key(), 1)
	if err != nil && len(p.Indices) > 0 {
		t.Errorf("%v came with an error: %v", p.Indices, err)
	}
	return err
}

func TestContract(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (redisstore.Options, []*testserver.RedisServer){
		"single": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			server := testserver.SharedRedis(t)
			return single(server.Addr), []*testserver.RedisServer{server}
		},
		"sentinel": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			setup := testserver.Sentinel(t)
			return redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName}, []*testserver.RedisServer{setup.Master}
		},
		"cluster": func(t *testing.T) (redisstore.Options, []*testserver.RedisServer) {
			setup := testserver.Cluster(t)
			return redisstore.Options{Mode: "cluster", Addrs: setup.Addrs}, setup.Nodes
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, servers := start(t)
			listtest.Run(t, func(t *testing.T) listtest.Store {
				for _, server := range servers {
					server.FlushAll()
				}
				s := open(t, o)
				check.Must(t, s.Check(t.Context()))
				return s
			})
		})
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	one := []string{"localhost:6379"}
	for name, test := range map[string]struct {
		o    redisstore.Options
		want string
	}{
		"no mode":              {redisstore.Options{Addrs: one}, "redis.mode"},
		"unknown mode":         {redisstore.Options{Mode: "ring", Addrs: one}, "redis.mode"},
		"no address":           {redisstore.Options{Mode: "cluster"}, "redis.addrs"},
		"no port":              {redisstore.Options{Mode: "cluster", Addrs: []string{"localhost"}}, "redis.addrs[0]"},
		"bad port":             {redisstore.Options{Mode: "cluster", Addrs: []string{"a:1", "a:70000"}}, "redis.addrs[1]"},
		"no host":              {redisstore.Options{Mode: "single", Addrs: []string{":1"}}, "redis.addrs[0]"},
		"URL":                  {redisstore.Options{Mode: "single", Addrs: []string{"redis://u:secret@h:1"}}, "URL"},
		"two for single":       {redisstore.Options{Mode: "single", Addrs: []string{"a:1", "b:1"}}, "single takes one"},
		"no master name":       {redisstore.Options{Mode: "sentinel", Addrs: one}, "redis.master_name"},
		"master name, single":  {redisstore.Options{Mode: "single", Addrs: one, MasterName: "m"}, "redis.master_name"},
		"master name, cluster": {redisstore.Options{Mode: "cluster", Addrs: one, MasterName: "m"}, "redis.master_name"},
		"database in cluster":  {redisstore.Options{Mode: "cluster", Addrs: one, DB: 1}, "redis.db"},
		"negative database":    {redisstore.Options{Mode: "single", Addrs: one, DB: -1}, "negative"},
		"negative timeout":     {redisstore.Options{Mode: "single", Addrs: one, ReadTimeout: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := redisstore.New(test.o)
			if s != nil || !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an invalid argument that mentions %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%q tells the password", err)
			}
		})
	}
}
