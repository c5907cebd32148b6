package redisstore

import (
	"context"
	"errors"
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
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		found, err := s.inspectMaster(ctx, s.client)
		return found, s.fail("read the settings", err)
	}
	var mu sync.Mutex // ForEachMaster calls from a goroutine for each node
	var found []model.Finding
	var errs []error
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		some, err := s.inspectMaster(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		found = append(found, some...)
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Options().Addr, err))
		}
		return nil // ForEachMaster would keep one error of many
	})
	slices.SortStableFunc(found, func(a, b model.Finding) int { return strings.Compare(a.Node, b.Node) })
	return found, s.fail("read the settings", errors.Join(append(errs, err)...))
}

// facts are what a server says about itself, by name: INFO, some parameters, and "scripts", which is what
// it answers to ours: "run", HISTORYHIDDEN or READONLY.
type facts map[string]string

// parameters are not in INFO. Each is asked for by itself, as Redis 6 takes only one; a server that has
// them not tells nothing.
var parameters = []string{"replica-read-only", "active-replica", "multi-master"}

func redisChecks() []model.Check[facts] {
	const (
		warn, unsafe = model.LevelWarn, model.LevelUnsafe
		hiddenInfo   = "INFO is refused: ACL SETUSER <user> +info"
		hiddenConfig = "CONFIG GET is refused: ACL SETUSER <user> +config|get, or look at the parameters at your " +
			"provider"
	)
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
			Level: model.Unless(unsafe, "master", "active-replica"),
			Ask: func(f facts) string {
				if f["scripts"] == "READONLY" || f["role"] == "slave" {
					return "replica"
				}
				return f["role"] // KeyDB's active-replica is a check of its own
			},
			Advice: "a replica is refused: give the master's address in redis.url, or let it name " +
				"sentinels or a cluster, which follow it",
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
		}, {
			Setting: "replica-read-only", Want: "yes", Hidden: hiddenConfig, Level: model.Unless(warn, "yes"),
			Ask: func(f facts) string { return f["replica-read-only"] },
			Advice: "our scripts refuse a replica, but others could change lists on one: CONFIG SET " +
				"replica-read-only yes, here and on each replica",
		}, {
			Setting: "active-active", Want: "no", Level: model.Unless(unsafe, "no"),
			// KeyDB, which alone has mvcc_depth, has it; of two such servers one may say role:master.
			Ask: func(f facts) string {
				switch {
				case f["role"] == "active-replica", f["active-replica"] == "yes", f["multi-master"] == "yes":
					return "yes"
				case f["role"] == "", f["mvcc_depth"] != "" && f["active-replica"] == "":
					return ""
				}
				return "no"
			},
			Advice: "two servers pop the same list, so IDs repeat: use a server that has one master",
			Hidden: hiddenInfo + "; " + hiddenConfig,
		},
	}
}

// inspectMaster asks one server. Its error is one of the network, or a refusal that is about more than a
// setting.
func (s *Store) inspectMaster(ctx context.Context, c redis.UniversalClient) ([]model.Finding, error) {
	f := facts{"scripts": "run"}
	if err := s.checkServer(ctx, c); err != nil {
		for _, refusal := range []string{"HISTORYHIDDEN", "READONLY"} {
			if has(err, refusal) {
				f["scripts"] = refusal
			}
		}
		if f["scripts"] == "run" {
			return nil, err
		}
	}
	info, err := told(c.Info(ctx).Result())
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		f[name] = value
	}
	for _, name := range parameters {
		var values map[string]string
		if err == nil {
			values, err = told(c.ConfigGet(ctx, name).Result())
		}
		if value, known := values[name]; known {
			f[name] = value
		}
	}
	if err != nil {
		return nil, err
	}
	node := nodeName(ctx, c)
	var found []model.Finding
	for _, check := range redisChecks() {
		finding := check.Finding(f)
		finding.Store, finding.Node = "redis", node
		found = append(found, finding)
	}
	return found, nil
}

// told turns a refusal of the server into the zero answer.
func told[T any](answer T, err error) (T, error) {
	if err != nil && isReply(err) && !has(err, "LOADING", "NOAUTH", "WRONGPASS") {
		var none T
		return none, nil
	}
	return answer, err
}

// nodeName is the address of the node in a cluster and of the single server; for
// the master that sentinels name it is the server's end of the connection.
func nodeName(ctx context.Context, c redis.UniversalClient) string {
	if node, ok := c.(*redis.Client); ok && node.Options().Addr != sentinelAddr {
		return node.Options().Addr
	}
	text, err := c.Do(ctx, "CLIENT", "INFO").Text()
	if err != nil {
		return "master" // the name is only for people
	}
	_, addr, _ := strings.Cut(text, " laddr=")
	addr, _, _ = strings.Cut(addr, " ")
	return addr
}

// sentinelAddr is what go-redis v9 calls the address of a client that asks
// sentinels.
const sentinelAddr = "FailoverClient"
