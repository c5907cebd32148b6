//go:build unix

package redisstore_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestSettings: what servers really say, by everything that is not ok.
func TestSettings(t *testing.T) {
	server, setup := testserver.Redis(t), testserver.Sentinel(t)
	user := func(minus string) redisstore.Options {
		do(t, server.Client(), "ACL", "SETUSER", "user"+minus, "reset", "on", ">"+secret, "~*", "+@all", minus)
		o := single(server.Addr)
		o.Username, o.Password = "user"+minus, secret
		return o
	}
	wrong := testserver.Redis(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--replica-read-only", "no")
	behind := redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName}
	for name, c := range map[string]struct {
		at   redisstore.Options
		want string
	}{
		"good":            {single(server.Addr), ""},
		"wrong":           {single(wrong.Addr), "maxmemory-policy unsafe, replica-read-only warn"},
		"a replica":       {single(setup.Replica.Addr), "role unsafe"},
		"behind Sentinel": {behind, ""},
		"no right to ask": {user("-config"), "replica-read-only unknown"},
		"nor to read INFO": {user("-info"), "replication ID (master_replid) unsafe, role unknown, version unknown, " +
			"maxmemory-policy unknown, active-active unknown"},
	} {
		found, err := open(t, c.at).Settings(t.Context())
		check.Must(t, err)
		var bad []string
		for _, f := range found {
			if f.Store != "redis" || name == "behind Sentinel" && f.Node != setup.Master.Addr {
				t.Errorf("%s: %+v", name, f)
			}
			if f.Level != model.LevelOK {
				bad = append(bad, f.Setting+" "+string(f.Level))
			}
		}
		check.Equal(t, strings.Join(bad, ", "), c.want, name)
	}
}

// TestSettingsOfCluster: the one node that is set up wrongly is named, and one that is gone does not hide the others.
func TestSettingsOfCluster(t *testing.T) {
	cluster := testserver.Cluster(t)
	do(t, cluster.Nodes[1].Client(), "CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-random")
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: cluster.Addrs})
	cluster.Nodes[2].Kill()
	check.Eventually(t, "refuse a connection", func() error { // the first may end with the connection that there was
		found, err := s.Settings(t.Context())
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("settings: %w", err)
		}
		wantAdvice(t, err, cluster.Addrs[2], "start Redis")
		levels := map[string]string{}
		for _, f := range found {
			levels[f.Node] += string(f.Level[0])
		}
		want := map[string]string{cluster.Addrs[0]: "oooooo", cluster.Addrs[1]: "ooouoo"}
		check.Equal(t, fmt.Sprint(levels), fmt.Sprint(want))
		return nil
	})
}

const secret = "s3cret-pass"

// wantUnread is wantAll where nothing can be asked: the settings are not known either.
func wantUnread(t *testing.T, s *redisstore.Store, words ...string) {
	t.Helper()
	wantAll(t, s, words...)
	found, err := s.Settings(t.Context())
	wantAdvice(t, err, words[len(words)-1])
	if len(found) > 0 || strings.Contains(err.Error(), secret) {
		t.Errorf("%+v, %v", found, err)
	}
}

// wantAll wants the same kind of error from every operation.
func wantAll(t *testing.T, s *redisstore.Store, words ...string) {
	t.Helper()
	wantAdvice(t, popErr(t, s), words...)
	wantAdvice(t, s.State(t.Context(), []model.ListKey{key()})[0].Err, words...)
	err := s.Push(t.Context(), []model.PushRequest{{Key: key(), Life: "h", Segment: model.Segment{First: 1, Last: 1}, Cap: 1}})[0]
	wantAdvice(t, err, words...)
	wantAdvice(t, s.Check(t.Context()), words...)
	for _, err := range []error{err, popErr(t, s)} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q tells the password", err)
		}
	}
}

func TestCredentials(t *testing.T) {
	server := testserver.Redis(t)
	do(t, server.Client(), "CONFIG", "SET", "requirepass", "right")
	for name, test := range map[string]struct{ user, pass, word string }{
		"none":          {"", "", "NOAUTH"},
		"wrong":         {"", secret, "WRONGPASS"},
		"unknown user":  {"bob", secret, "WRONGPASS"},
		"wrong default": {"default", secret, "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, redisstore.Options{Mode: "single", Addrs: []string{server.Addr}, Username: test.user, Password: test.pass})
			wantUnread(t, s, test.word, "redis.password")
		})
	}
	s := open(t, redisstore.Options{Mode: "single", Addrs: []string{server.Addr}, Password: "right"})
	check.OK(t, s.Check(t.Context()))
}

func TestHiddenHistory(t *testing.T) {
	server := testserver.Redis(t)
	do(t, server.Client(), "ACL", "SETUSER", "bob", "on", ">"+secret, "~*", "+@all", "-info")
	s := open(t, redisstore.Options{Mode: "single", Addrs: []string{server.Addr}, Username: "bob", Password: secret})
	wantAll(t, s, "replication ID cannot be read", "+info")
	check.Is(t, popErr(t, s), model.ErrHistoryHidden)
}

func TestACL(t *testing.T) {
	server := testserver.Redis(t)
	user := func(rules ...any) *redisstore.Store {
		do(t, server.Client(), append([]any{"ACL", "SETUSER", "bob", "reset", "on", ">" + secret}, rules...)...)
		return open(t, redisstore.Options{Mode: "single", Addrs: []string{server.Addr}, Username: "bob", Password: secret})
	}
	wantAll(t, user("~id.gen.*", "-@all"), "NOPERM", "+evalsha")
	wantAdvice(t, popErr(t, user("~other.*", "+@all")), "NOPERM", "~id.gen.*")
	// What the advice names is enough.
	s := user("~id.gen.*", "+evalsha", "+eval", "+info", "+hmget", "+hset", "+time", "+llen", "+lindex", "+lpop", "+ltrim", "+rpush", "+unlink", "+set", "+get", "+del")
	listtest.Fill(t, s, key(), 1, 10)
	listtest.Expect(t, listtest.Pop(t, s, key(), 1).Indices, 1, 1)
	listtest.Expect(t, listtest.Pop(t, s, key(), 9).Indices, 2, 10)
	_, err := s.TryLock(t.Context(), []string{"a"}, "me", 1e9)
	err = errors.Join(err, s.Unlock(t.Context(), []string{"a"}, "me"), s.Delete(t.Context(), []model.ListKey{key()}), s.Check(t.Context()))
	check.OK(t, err)
}

func TestReplicaRefuses(t *testing.T) {
	master := testserver.Redis(t)
	s := openAt(t, testserver.RedisReplica(t, master).Addr)
	wantAll(t, s, "READONLY", "replica", "master's address")
	wantAdvice(t, check.Err(s.TryLock(t.Context(), []string{"a"}, "me", 1e9)), "READONLY")
	wantAdvice(t, s.Delete(t.Context(), []model.ListKey{key()}), "READONLY")
}

// Full memory stops pushes and is told by Probe, which writes; it does not stop pops and
// states, and leaves no half of a push behind.
func TestOutOfMemory(t *testing.T) {
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	listtest.Fill(t, s, key(), 1, 1000)
	do(t, c, "CONFIG", "SET", "maxmemory", "1mb", "maxmemory-policy", "noeviction")
	req := request(t, s, 1001, 2000)
	wantAdvice(t, s.Probe(t.Context(), []model.ListKey{key()})[0].Err, "OOM", "maxmemory")
	wantAdvice(t, s.Push(t.Context(), []model.PushRequest{req})[0], "OOM", "maxmemory", "noeviction")
	listtest.Expect(t, listtest.Pop(t, s, key(), 1).Indices, 1, 1)
	listtest.Expect(t, listtest.Pop(t, s, key(), 9).Indices, 2, 10)
	wantAdvice(t, check.Err(s.TryLock(t.Context(), []string{"a"}, "me", 1e9)), "OOM")
	// A purge under full memory still removes the list before it trusts it.
	do(t, c, "CONFIG", "SET", "maxmemory", "0")
	do(t, c, "HSET", metaName, "h", "another")
	do(t, c, "CONFIG", "SET", "maxmemory", "1mb")
	p, err := s.Pop(t.Context(), key(), 10)
	if len(p.Indices) != 0 || err == nil && p.Purged != 990 {
		t.Errorf("popped %+v, %v", p, err)
	}
	do(t, c, "CONFIG", "SET", "maxmemory", "0")
	listtest.Fill(t, s, key(), 2001, 2010)
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 2001, 2010)
}

func TestLoading(t *testing.T) {
	server := testserver.Redis(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024")
	s, c := openAt(t, server.Addr), server.Client()
	for i := range 400 {
		do(t, c, "SET", "filler"+strconv.Itoa(i), strings.Repeat("x", 100))
	}
	listtest.Fill(t, s, key(), 1, 100)
	do(t, c, "CONFIG", "SET", "key-load-delay", "5000") // microseconds
	done := make(chan error, 1)
	go func() { done <- c.Do(t.Context(), "DEBUG", "RELOAD").Err() }()
	check.Eventually(t, "see it loading", func() error {
		if err := s.Check(t.Context()); err != nil && strings.Contains(err.Error(), "LOADING") {
			wantAdvice(t, err, "wait")
			return nil
		}
		return errors.New("not loading")
	})
	check.Eventually(t, "go on", func() error { return s.Check(t.Context()) })
	if err := <-done; err != nil {
		t.Log("reload:", err) // its client may have given up
	}
}

func TestUnreachable(t *testing.T) {
	wantUnread(t, openAt(t, "127.0.0.1:1"), "connection refused", "start Redis")
	wantAll(t, openAt(t, "nowhere.invalid:6379"), "host name is unknown")
	refused := open(t, redisstore.Options{Mode: "cluster", Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	wantAll(t, refused, "connection refused", "start Redis")
	silent := open(t, redisstore.Options{Mode: "sentinel", Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, MasterName: "m"})
	wantAll(t, silent, "sentinels")
}

func TestWrongMode(t *testing.T) {
	single, cluster, sentinel := testserver.SharedRedis(t), testserver.Cluster(t), testserver.Sentinel(t)
	asCluster := open(t, redisstore.Options{Mode: "cluster", Addrs: []string{single.Addr}})
	wantUnread(t, asCluster, "cluster support disabled", "redis.mode to single")
	asSingle := openAt(t, cluster.Addrs[0])
	wantAdvice(t, asSingle.Check(t.Context()), "redis.mode")
	for shard := range uint8(8) { // some of these are on the other nodes
		if _, err := asSingle.Pop(t.Context(), model.ListKey{App: 1, Shard: shard}, 1); err != nil {
			wantAdvice(t, err, "MOVED", "redis.mode to cluster")
		}
	}
	wantAll(t, openAt(t, sentinel.Addrs[0]), "unknown command", "sentinel")
	asSentinel := open(t, redisstore.Options{Mode: "sentinel", Addrs: []string{single.Addr}, MasterName: "m"})
	wantAll(t, asSentinel, "redis.mode")
	unknown := open(t, redisstore.Options{Mode: "sentinel", Addrs: sentinel.Addrs, MasterName: "nobody"})
	wantAll(t, unknown, "redis.master_name")
}

func TestTLSMismatch(t *testing.T) {
	plain := testserver.SharedRedis(t)
	s := open(t, redisstore.Options{Mode: "single", Addrs: []string{plain.Addr}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	wantAll(t, s, "TLS")
	tlsOnly := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("no certificate")
	}}
	wantAll(t, openAt(t, testserver.Fake(t, func(conn net.Conn) {
		_ = tls.Server(conn, tlsOnly).Handshake() // fails: the client speaks plain Redis
	})), "TLS")
}

// Something else than a Redis at redis.addrs is named as that.
func TestAnotherServer(t *testing.T) {
	for _, greeting := range []string{
		"\x52\x00\x00\x00\x0a11.8.2-MariaDB\x00\x05\x00\x00\x00abcdefgh\x00",
		"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"SSH-2.0-OpenSSH_9.9\r\n",
	} {
		addr := testserver.Fake(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, greeting)
			_, _ = conn.Read(make([]byte, 4096))
		})
		wantAdvice(t, openAt(t, addr).Check(t.Context()), "does not speak as Redis does", "MySQL", "correct redis.addrs")
	}
}
