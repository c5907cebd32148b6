package redisstore

import (
	"testing"

	"shardid/model"
)

// TestJudge: servers that are not here, by what they say.
func TestJudge(t *testing.T) {
	const redis7 = "redis_version:7.0.15\r\nrole:master\r\n"
	yes := map[string]string{"replica-read-only": "yes"}
	for name, c := range map[string]struct {
		info    string
		config  map[string]string
		setting string
		value   string
		want    model.Level
	}{
		"old":             {"redis_version:6.0.20\r\n", yes, "version", "Redis 6.0.20", model.LevelUnsafe},
		"least":           {"redis_version:6.2.0\r\n", yes, "version", "Redis 6.2.0", model.LevelOK},
		"valkey":          {"redis_version:7.2.4\r\nserver_name:valkey\r\n", yes, "version", "Valkey 7.2.4", model.LevelOK},
		"valkey 9":        {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n", yes, "version", "Valkey 9.1.2", model.LevelOK},
		"dragonfly":       {"redis_version:7.4.0\r\ndragonfly_version:df-v1.2\r\n", yes, "product", "Dragonfly", model.LevelUnsafe},
		"keydb":           {"redis_version:6.3.4\r\nmvcc_depth:0\r\n", yes, "product", "KeyDB", model.LevelUnknown},
		"elasticache":     {redis7 + "os:Amazon ElastiCache\r\n", nil, "product", "ElastiCache", model.LevelUnknown},
		"redis itself":    {redis7, nil, "product", "Redis", model.LevelOK},
		"redis":           {redis7, nil, "active-active", "no", model.LevelOK},
		"keydb active":    {"redis_version:6.3.4\r\nrole:active-replica\r\n", nil, "active-active", "yes", model.LevelUnsafe},
		"keydb single":    {redis7, map[string]string{"active-replica": "yes"}, "active-active", "yes", model.LevelUnsafe},
		"keydb multi":     {redis7, map[string]string{"multi-master": "yes"}, "active-active", "yes", model.LevelUnsafe},
		"keydb managed":   {redis7 + "mvcc_depth:0\r\n", nil, "active-active", "", model.LevelUnknown},
		"managed, full":   {redis7 + "maxmemory:100\r\nmaxmemory_policy:volatile-lru\r\n", nil, "maxmemory-policy", "volatile-lru", model.LevelWarn},
		"managed, evicts": {redis7 + "maxmemory:100\r\nmaxmemory_policy:allkeys-lfu\r\n", nil, "maxmemory-policy", "allkeys-lfu", model.LevelUnsafe},
		"managed, save":   {redis7 + "aof_enabled:0\r\n", nil, "persistence", "AOF off, RDB not told", model.LevelOK},
		"says nothing":    {"", nil, "version", "", model.LevelUnknown},
	} {
		f := facts{info: parseInfo(c.info), config: c.config}
		for _, got := range f.findings() {
			if got.Setting == c.setting && (got.Level != c.want || got.Value != c.value) {
				t.Errorf("%s: %+v, want %q, %s", name, got, c.value, c.want)
			}
		}
	}
}

// TestJudgeWritableReplica: it matters more where scripts cannot see the role.
func TestJudgeWritableReplica(t *testing.T) {
	f := facts{config: map[string]string{"replica-read-only": "no"}}
	if _, level, why := f.readOnly(); level != model.LevelWarn {
		t.Error(level, why)
	}
	f.unsafe = true
	if _, level, why := f.readOnly(); level != model.LevelUnsafe {
		t.Error(level, why)
	}
}
