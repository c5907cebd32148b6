package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// Settings says of every master whether IDs are safe with the way it is set up. It writes nothing. What the
// server does not tell is model.LevelUnknown. Errors: *model.StoreError when a server cannot be used, as Check says,
// together with what the others said. Safe for concurrent use.
func (s *Store) Settings(ctx context.Context) ([]model.Finding, error) {
	var mu sync.Mutex
	var found []model.Finding
	err := s.eachMaster(ctx, func(ctx context.Context, c redis.UniversalClient, node string) error {
		if err := s.checkServer(ctx, c); err != nil {
			return err
		}
		before := time.Now()
		info, err := c.Info(ctx).Result()
		if err != nil {
			return err
		}
		says := facts{}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			says[name] = value
		}
		if now, err := strconv.ParseInt(says["server_time_usec"], 10, 64); err == nil {
			says["clock"] = model.ClockValue(time.UnixMicro(now), before, time.Now())
		}
		mu.Lock()
		defer mu.Unlock()
		for _, check := range redisChecks() {
			finding := check.Finding(says)
			finding.Store, finding.Node = "redis", node
			found = append(found, finding)
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b model.Finding) int { return strings.Compare(a.Node, b.Node) })
	return found, explain("read the settings", err)
}

// facts are what INFO says of a server, by name, and how its clock is. Managed servers show their settings there, too.
type facts map[string]string

func redisChecks() []model.Check[facts] {
	const hidden = "look at the server's configuration, or at your provider's: INFO does not tell it"
	return []model.Check[facts]{
		{
			Setting: "version", Want: "6.2 or newer", Hidden: hidden,
			Ask: func(f facts) string { return f["redis_version"] }, // Valkey tells here the Redis that it replaces
			Level: func(version string) model.Level {
				var major, minor int
				_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // 0.0 where it is no number
				if major < 6 || major == 6 && minor < 2 {
					return model.LevelUnsafe
				}
				return model.LevelOK
			},
			Advice: "upgrade to Redis 6.2 or newer: LPOP takes no count here, so no ID is served",
		}, {
			Setting: "role", Want: "master", Hidden: hidden,
			Ask: func(f facts) string {
				if f["role"] == "master" && f["mvcc_depth"] != "" { // of two that are active one may say so
					return "master of KeyDB"
				}
				return f["role"]
			},
			Level: func(role string) model.Level {
				if role == "master of KeyDB" {
					return model.LevelWarn
				}
				return model.Unless(model.LevelUnsafe, "master")(role)
			},
			Advice: "use neither active-replica nor multi-master: of two KeyDB servers that are active both pop the " +
				"same list, so IDs repeat",
		}, {
			Setting: "maxmemory-policy", Want: "noeviction", Hidden: hidden,
			Ask: func(f facts) string {
				if f["maxmemory"] == "0" {
					return "no maxmemory"
				}
				return f["maxmemory_policy"]
			},
			Level: func(policy string) model.Level {
				if strings.HasPrefix(policy, "volatile-") {
					return model.LevelWarn // only locks and leases have an expiry
				}
				return model.Unless(model.LevelUnsafe, "noeviction", "no maxmemory")(policy)
			},
			Advice: "CONFIG SET maxmemory-policy noeviction, and in the server's file: a list that is evicted is a " +
				"gap, and without its high-water mark IDs may repeat after the database was restored; volatile-* " +
				"evicts locks, which costs work",
		}, {
			Setting: "clock", Want: "that of this machine, within 5s", Hidden: hidden,
			Ask:   func(f facts) string { return f["clock"] },
			Level: model.Unless(model.LevelWarn, model.ClockRight),
			Advice: "set both clocks (NTP): no ID depends on that of Redis, but what is wrong here may be this " +
				"machine's",
		},
	}
}
