package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// Settings says of every master whether IDs are safe with the way it is set up. It writes nothing. What the
// server does not tell, as managed ones often do, is model.LevelUnknown with what to allow. Errors:
// *model.StoreError when a server does not answer, together with what the others said. Safe for concurrent
// use.
func (s *Store) Settings(ctx context.Context) ([]model.Finding, error) {
	var mu sync.Mutex
	var found []model.Finding
	err := s.eachMaster(ctx, func(ctx context.Context, c redis.UniversalClient, node string) error {
		some, err := s.inspectMaster(ctx, c, node)
		mu.Lock()
		defer mu.Unlock()
		found = append(found, some...)
		return err
	})
	slices.SortStableFunc(found, func(a, b model.Finding) int { return strings.Compare(a.Node, b.Node) })
	return found, s.fail("read the settings", err)
}

// facts are what INFO says of a server, by name, and "scripts", which is what it answers to ours: "run",
// HISTORYHIDDEN or READONLY.
type facts map[string]string

func redisChecks() []model.Check[facts] {
	const warn, unsafe, hiddenInfo = model.LevelWarn, model.LevelUnsafe, "INFO is refused: ACL SETUSER <user> +info"
	return []model.Check[facts]{
		{
			Setting: "replication ID (master_replid)", Want: "readable", Level: model.Unless(unsafe, "readable"),
			Ask: func(f facts) string { // judged as scripts see it: that is what guards a pop
				if f["scripts"] == "HISTORYHIDDEN" {
					return "hidden"
				}
				return "readable"
			},
			Advice: "what an old snapshot or a lagging replica brought back cannot be told from what is current, so " +
				"no ID is served: let scripts read INFO replication (ACL SETUSER <user> +info), and connect to Redis " +
				"or Valkey itself instead of a proxy or a server that only speaks its protocol",
		}, {
			Setting: "role", Want: "master", Hidden: hiddenInfo,
			Ask: func(f facts) string {
				switch {
				case f["scripts"] == "READONLY" || f["role"] == "slave":
					return "replica"
				case f["role"] == "master" && f["mvcc_depth"] != "": // of two that are active one may say so
					return "master of KeyDB"
				}
				return f["role"]
			},
			Level: func(role string) model.Level {
				if role == "master of KeyDB" {
					return warn
				}
				return model.Unless(unsafe, "master")(role)
			},
			Advice: "a replica is refused, and of two KeyDB servers that are active both pop the same list, so " +
				"IDs repeat: give the address of the one master in redis.url, or let it name sentinels or a " +
				"cluster, which follow it, and use neither active-replica nor multi-master",
		}, {
			Setting: "version", Want: "6.2 or newer", Hidden: hiddenInfo,
			Ask: func(f facts) string { return f["redis_version"] }, // Valkey tells here the Redis that it replaces
			Level: func(version string) model.Level {
				var major, minor int
				_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // 0.0 where it is no number
				if major < 6 || major == 6 && minor < 2 {
					return unsafe
				}
				return model.LevelOK
			},
			Advice: "LPOP takes no count there, so no ID is served: upgrade to Redis 6.2 or newer",
		}, {
			Setting: "maxmemory-policy", Want: "noeviction", Hidden: hiddenInfo,
			Ask: func(f facts) string { // managed servers show it in INFO, too
				if f["maxmemory"] == "0" {
					return "no maxmemory"
				}
				return f["maxmemory_policy"]
			},
			Level: func(policy string) model.Level {
				if strings.HasPrefix(policy, "volatile-") {
					return warn // only locks and leases have an expiry
				}
				return model.Unless(unsafe, "noeviction", "no maxmemory")(policy)
			},
			Advice: "a list that is evicted is a gap, and so is the mark w that keeps IDs from repeating when the " +
				"database goes back in time; volatile-* evicts locks, which costs work: CONFIG SET maxmemory-policy " +
				"noeviction",
		},
	}
}

// inspectMaster asks one server. Its error is one of the network, or a refusal that is about more than a
// setting.
func (s *Store) inspectMaster(ctx context.Context, c redis.UniversalClient, node string) ([]model.Finding, error) {
	f := facts{"scripts": "run"}
	if err := s.checkServer(ctx, c); err != nil {
		switch {
		case has(err, "HISTORYHIDDEN"):
			f["scripts"] = "HISTORYHIDDEN"
		case has(err, "READONLY"):
			f["scripts"] = "READONLY"
		default:
			return nil, err
		}
	}
	info, err := c.Info(ctx).Result()
	if err != nil && !isReply(err) {
		return nil, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		f[name] = value
	}
	var found []model.Finding
	for _, check := range redisChecks() {
		finding := check.Finding(f)
		finding.Store, finding.Node = "redis", node
		found = append(found, finding)
	}
	return found, nil
}
