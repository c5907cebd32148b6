//go:build unix

package redisstore_test

import (
	"strings"
	"testing"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// settings gives the findings of the store's only node, by setting.
func settings(t *testing.T, s *redisstore.Store) map[string]model.Finding {
	t.Helper()
	found, err := s.Settings(t.Context())
	check.Must(t, err)
	by := map[string]model.Finding{}
	for _, f := range found {
		if f.Store != "redis" || f.Node == "" || f.Want == "" || f.Level != model.LevelOK && f.Why == "" || strings.Contains(f.Why, "\n") {
			t.Errorf("%+v", f)
		}
		by[f.Setting] = f
	}
	if len(by) != len(found) || len(by) == 0 {
		t.Errorf("%d findings about %d settings", len(found), len(by))
	}
	return by
}

func wantLevels(t *testing.T, found map[string]model.Finding, except map[string]model.Level) {
	t.Helper()
	for name, f := range found {
		want, ok := except[name]
		if !ok {
			want = model.LevelOK
		}
		check.Equal(t, f.Level, want, f)
	}
}

const historySetting = "history (master_replid)"

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		except map[string]model.Level
	}{
		"as it should be":      {nil, nil},
		"noeviction":           {[]string{"--maxmemory", "1gb"}, nil},
		"policy without limit": {[]string{"--maxmemory-policy", "allkeys-lru"}, nil},
		"evicts lists": {[]string{"--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"},
			map[string]model.Level{"maxmemory-policy": model.LevelUnsafe}},
		"evicts locks": {[]string{"--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl"},
			map[string]model.Level{"maxmemory-policy": model.LevelWarn}},
		"writable replicas": {[]string{"--replica-read-only", "no"},
			map[string]model.Level{"replica-read-only": model.LevelWarn}},
		"persistent": {[]string{"--appendonly", "yes", "--save", "60 1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantLevels(t, settings(t, openAt(t, testserver.Redis(t, c.args...).Addr)), c.except)
		})
	}
}

func TestSettingsTellPersistence(t *testing.T) {
	bare, kept := openAt(t, testserver.Redis(t).Addr), openAt(t, testserver.Redis(t, "--appendonly", "yes", "--save", "60 1").Addr)
	if f := settings(t, bare)["persistence"]; f.Value != "AOF off, RDB off" || f.Why == "" {
		t.Errorf("%+v", f)
	}
	if f := settings(t, kept)["persistence"]; f.Value != "AOF on, RDB on" || f.Why != "" {
		t.Errorf("%+v", f)
	}
}

// TestSettingsWithoutRights: what the user may not ask is unknown; that scripts
// may not see the history is unsafe, with and without the opt-out.
func TestSettingsWithoutRights(t *testing.T) {
	server := testserver.Redis(t)
	const unknown, unsafe = model.LevelUnknown, model.LevelUnsafe
	for name, c := range map[string]struct {
		minus  string
		optOut bool
		except map[string]model.Level
	}{
		"no CONFIG": {"-config", false, map[string]model.Level{"replica-read-only": unknown}},
		"no INFO": {"-info", false, map[string]model.Level{"product": unknown, historySetting: unsafe, "role": unknown,
			"version": unknown, "maxmemory-policy": unknown, "persistence": unknown, "active-active": unknown}},
		"no INFO, opted out": {"-info", true, map[string]model.Level{"product": unknown, historySetting: unsafe, "role": unknown,
			"version": unknown, "maxmemory-policy": unknown, "persistence": unknown, "active-active": unknown}},
		"opted out": {"-client", true, map[string]model.Level{historySetting: unsafe}},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, server.Client(), "ACL", "SETUSER", "bob", "reset", "on", ">"+secret, "~*", "+@all", c.minus)
			s := open(t, redisstore.Options{Mode: "single", Addrs: []string{server.Addr}, Username: "bob", Password: secret, UnsafeNoHistory: c.optOut})
			found := settings(t, s)
			wantLevels(t, found, c.except)
			if f := found["replica-read-only"]; f.Level == unknown && !strings.Contains(f.Why, "+config|get") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestSettingsOfCluster: the one node that is set up wrongly is named, and one
// that is gone does not hide the others.
func TestSettingsOfCluster(t *testing.T) {
	cluster := testserver.Cluster(t)
	do(t, cluster.Nodes[1].Client(), "CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-random")
	s := open(t, redisstore.Options{Mode: "cluster", Addrs: cluster.Addrs})
	found, err := s.Settings(t.Context())
	check.Must(t, err)
	wantOnly(t, found, cluster.Addrs[1], "maxmemory-policy")
	nodes := map[string]bool{}
	for _, f := range found {
		nodes[f.Node] = true
	}
	check.Equal(t, len(nodes), 3, "nodes", nodes)
	cluster.Nodes[2].Kill()
	found, err = s.Settings(t.Context())
	wantAdvice(t, err, cluster.Addrs[2], "start Redis")
	check.Equal(t, strings.Count(err.Error(), "connection refused"), 1, "told in", err)
	wantOnly(t, found, cluster.Addrs[1], "maxmemory-policy")
}

// wantOnly wants one finding that is not ok.
func wantOnly(t *testing.T, found []model.Finding, node, setting string) {
	t.Helper()
	n := 0
	for _, f := range found {
		switch {
		case f.Level == model.LevelOK:
		case f.Node == node && f.Setting == setting && f.Level == model.LevelUnsafe:
			n++
		default:
			t.Errorf("%+v", f)
		}
	}
	check.Equal(t, n, 1, "findings about", setting, "of", node)
}

func TestSettingsBehindSentinel(t *testing.T) {
	setup := testserver.Sentinel(t)
	do(t, setup.Master.Client(), "CONFIG", "SET", "replica-read-only", "no")
	s := open(t, redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName})
	found := settings(t, s)
	wantLevels(t, found, map[string]model.Level{"replica-read-only": model.LevelWarn})
	if f := found["role"]; f.Node != setup.Master.Addr {
		t.Errorf("%+v is not of %s", f, setup.Master.Addr)
	}
}

func TestSettingsOfReplica(t *testing.T) {
	replica := testserver.RedisReplica(t, testserver.Redis(t))
	wantLevels(t, settings(t, openAt(t, replica.Addr)), map[string]model.Level{"role": model.LevelUnsafe})
}

// TestSettingsAway: no answer is an error with advice, as are wrong credentials
// and a wrong mode.
func TestSettingsAway(t *testing.T) {
	server, locked := testserver.Redis(t), testserver.Redis(t)
	do(t, locked.Client(), "CONFIG", "SET", "requirepass", "right")
	for word, o := range map[string]redisstore.Options{
		"start Redis":    {Mode: "single", Addrs: []string{"127.0.0.1:1"}},
		"redis.password": {Mode: "single", Addrs: []string{locked.Addr}, Password: secret},
		"redis.mode":     {Mode: "cluster", Addrs: []string{server.Addr}},
	} {
		found, err := open(t, o).Settings(t.Context())
		if err == nil {
			t.Errorf("%s: %+v", word, found)
			continue
		}
		wantAdvice(t, err, word)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%v tells the password", err)
		}
	}
}
