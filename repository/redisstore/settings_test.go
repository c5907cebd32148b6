//go:build unix

package redisstore_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestSettings: what servers really say, by everything that is not ok.
func TestSettings(t *testing.T) {
	t.Parallel()
	setup := testserver.Sentinel(t)
	wrong := testserver.Redis(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	behind := redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName}
	for _, c := range []struct {
		at         redisstore.Options
		node, want string
	}{{single(wrong.Addr), wrong.Addr, "maxmemory-policy unsafe"}, {behind, setup.MasterName, ""}} {
		found, err := open(t, c.at).Settings(t.Context())
		check.Must(t, err)
		check.Equal(t, len(found), 4, "findings")
		var bad []string
		for _, f := range found {
			check.Equal(t, f.Store+" "+f.Node, "redis "+c.node)
			if f.Level != model.LevelOK {
				bad = append(bad, f.Setting+" "+string(f.Level))
			}
		}
		check.Equal(t, strings.Join(bad, ", "), c.want, c.node)
	}
}

// TestAdvice: whatever the call, an error says what to do, in one line and without the password.
func TestAdvice(t *testing.T) {
	t.Parallel()
	server, cluster, sentinel := testserver.Redis(t), testserver.Cluster(t), testserver.Sentinel(t)
	locked := testserver.Redis(t)
	do(t, locked.Client(), "CONFIG", "SET", "requirepass", "right")
	wrong := single(locked.Addr)
	wrong.Password = secret
	as := func(user string, rules ...any) redisstore.Options {
		if len(rules) > 0 {
			rules = append([]any{"ACL", "SETUSER", user, "reset", "on", ">" + secret}, rules...)
			do(t, server.Client(), rules...)
		}
		o := single(server.Addr)
		o.Username, o.Password = user, secret
		return o
	}
	otherwise := func(mode string, addrs ...string) redisstore.Options {
		o := redisstore.Options{Mode: mode, Addrs: addrs}
		if mode == "sentinel" {
			o.MasterName = "nobody"
		}
		return o
	}
	says := func(greeting string) redisstore.Options {
		return single(testserver.Fake(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, greeting)
			_, _ = conn.Read(make([]byte, 4096))
		}))
	}
	plain := single(server.Addr)
	plain.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		at    redisstore.Options
		words string // parted by |
	}{
		"no password":          {single(locked.Addr), "NOAUTH|password in redis.url"},
		"a wrong password":     {wrong, "WRONGPASS|password in redis.url"},
		"an unknown user":      {as("bob"), "WRONGPASS|user and password in redis.url"},
		"no rights":            {as("none", "~id.gen.*", "-@all"), "NOPERM|+evalsha"},
		"no INFO":              {as("blind", "~*", "+@all", "-info"), "replication ID cannot be read|+info"},
		"a replica":            {single(sentinel.Replica.Addr), "READONLY|master's address"},
		"nobody":               {single("127.0.0.1:1"), "connection refused|start Redis"},
		"no such host":         {single("nowhere.invalid:6379"), "no such host|correct redis.url"},
		"nobody, in a cluster": {otherwise("cluster", "127.0.0.1:1", "127.0.0.1:2"), "start Redis"},
		"no cluster":           {otherwise("cluster", server.Addr), "cluster support disabled|write redis.url"},
		"no sentinels": {otherwise("sentinel", "127.0.0.1:1", "127.0.0.1:2"), "sentinels|in " +
			"redis.url"},
		"not the sentinels' own": {otherwise("sentinel", sentinel.Addrs...), "correct master_name"},
		"a sentinel":             {single(sentinel.Addrs[0]), "unknown command|write redis.url"},
		"no TLS":                 {plain, "rediss://"},
		"TLS":                    {says("\x15\x03\x01\x00\x02\x02\x16"), "rediss://"},
		"MariaDB":                {says("\x52\x00\x00\x00\x0a11.8.2-MariaDB\x00"), "does not speak as Redis does"},
		"HTTP":                   {says("HTTP/1.1 400 Bad Request\r\n\r\n"), "correct redis.url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, words := open(t, c.at), strings.Split(c.words, "|")
			push := model.PushRequest{Key: key(), Life: "h", Segment: model.Segment{First: 1, Last: 1}, Cap: 1}
			for _, err := range []error{popErr(t, s), s.State(t.Context(), []model.ListKey{key()})[0].Err,
				s.Push(t.Context(), []model.PushRequest{push})[0], s.Check(t.Context()),
				check.Err(s.Settings(t.Context()))} {
				wantAdvice(t, err, words...)
				check.Lacks(t, err.Error(), secret)
			}
		})
	}
	inCluster := open(t, single(cluster.Addrs[0]))
	wantAdvice(t, inCluster.Check(t.Context()), "wrong redis.url", "write redis.url")
	for shard := range uint8(8) { // some of these are on the other nodes
		if _, err := inCluster.Pop(t.Context(), model.ListKey{App: 1, Shard: shard}, 1); err != nil {
			wantAdvice(t, err, "MOVED", "write redis.url")
		}
	}
}

// TestACL: what the advice allows is enough.
func TestACL(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	rules := []any{"ACL", "SETUSER", "bob", "reset", "on", ">" + secret, "~id.gen.*", "-@all"}
	do(t, server.Client(), rules...)
	o := single(server.Addr)
	o.Username, o.Password, o.DB = "bob", secret, 1
	s := open(t, o)
	_, advised, _ := strings.Cut(popErr(t, s).Error(), "ACL SETUSER <user> ~id.gen.* ")
	advised, _, _ = strings.Cut(advised, " (+cluster")
	for _, right := range strings.Fields(advised) {
		rules = append(rules, right)
	}
	do(t, server.Client(), rules...)
	l := live(t, s)
	for range 2 { // the second is held, which is asked for
		check.Must(t, check.Err(s.TryLock(t.Context(), []string{"a"}, "me", 1e9)))
	}
	check.Must(t, errors.Join(s.Unlock(t.Context(), []string{"a"}, "me"), s.Delete(t.Context(), []model.ListKey{key()}),
		s.Check(t.Context()),
		s.Sequences().Forget(t.Context(), model.Space{Name: "s", Sections: 1, Step: 1}),
		check.Err(s.Marks().Scan(t.Context(), l.marks, 0)),
		check.Err(s.Replicas().Put(t.Context(), "a", "b", time.Minute))))
}

// TestOutOfMemory: full memory stops pushes and is told by all that probes, which writes; it does not stop pops and
// states, and leaves no half of a push behind.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	full := func(limit string) { do(t, c, "CONFIG", "SET", "maxmemory", limit, "maxmemory-policy", "noeviction") }
	l := live(t, s)
	full("1mb")
	for _, err := range []error{
		s.Probe(t.Context(), []model.ListKey{key()})[0].Err, pushErr(t, s, l.push),
		s.Sequences().State(t.Context(), []model.SectionKey{{Space: "s"}})[0].Err,
		check.Err(s.Marks().Life(t.Context())),
		check.Err(s.TryLock(t.Context(), []string{"a"}, "me", 1e9)),
	} {
		wantAdvice(t, err, "OOM", "maxmemory", "noeviction")
	}
	listtest.Expect(t, listtest.Pop(t, s, key(), 1).Indices, 11, 11)
	listtest.Expect(t, listtest.Pop(t, s, key(), 9).Indices, 12, 20)
	// A purge under full memory still removes the list before it trusts it.
	full("0")
	do(t, c, "HSET", metaName, "h", "another")
	full("1mb")
	p, err := s.Pop(t.Context(), key(), 10)
	if len(p.Indices) != 0 || err == nil && p.Purged != 980 {
		t.Errorf("popped %+v, %v", p, err)
	}
	full("0")
	listtest.Fill(t, s, key(), 2001, 2010)
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 2001, 2010)
}
