package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// Settings says of every master whether IDs are safe with the way it is set up.
// It writes nothing. What the server does not tell, as managed ones often do, is
// model.LevelUnknown with what to allow. Errors: *model.StoreError when a server
// does not answer, together with what the others said. Safe for concurrent use.
func (s *Store) Settings(ctx context.Context) ([]model.Finding, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		found, err := s.inspect(ctx, s.client)
		return found, s.fail("read the settings", err)
	}
	var mu sync.Mutex // ForEachMaster calls from a goroutine for each node
	var found []model.Finding
	var errs []error
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		some, err := s.inspect(ctx, node)
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

// inspect asks one master.
func (s *Store) inspect(ctx context.Context, c redis.UniversalClient) ([]model.Finding, error) {
	f, err := s.learn(ctx, c)
	if err != nil {
		return nil, err
	}
	return f.findings(), nil
}

// facts are what one server says about itself.
type facts struct {
	node    string
	refusal error // what the server answers to our scripts: HISTORYHIDDEN, READONLY
	info    map[string]string
	config  map[string]string // nil when CONFIG is refused
}

// learn asks everything. Its error is one of the network, or any refusal that is
// about more than a setting.
func (s *Store) learn(ctx context.Context, c redis.UniversalClient) (f facts, err error) {
	if err = s.checkServer(ctx, c); err != nil {
		if !has(err, "HISTORYHIDDEN", "READONLY") {
			return f, err
		}
		f.refusal = err
	}
	info, err := told(c.Info(ctx).Result())
	if err != nil {
		return f, err
	}
	f.info = parseInfo(info)
	f.node = nodeName(ctx, c)
	f.config, err = configOf(ctx, c)
	return f, err
}

// told turns a refusal of the server into the zero answer.
func told[T any](answer T, err error) (T, error) {
	if err != nil && isReply(err) && !has(err, "LOADING", "NOAUTH", "WRONGPASS") {
		var none T
		return none, nil
	}
	return answer, err
}

// configOf gives the parameters that INFO does not hold. Each is asked for by
// itself: Redis 6 takes only one.
func configOf(ctx context.Context, c redis.UniversalClient) (map[string]string, error) {
	config := map[string]string{}
	for _, name := range []string{"replica-read-only", "save", "active-replica", "multi-master"} {
		some, err := told(c.ConfigGet(ctx, name).Result())
		if err != nil || some == nil {
			return nil, err
		}
		for k, v := range some {
			config[k] = v
		}
	}
	return config, nil
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

// parseInfo reads "name:value" lines.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// findings judges what the server says.
func (f facts) findings() []model.Finding {
	var found []model.Finding
	for _, s := range []struct {
		name, want string
		judge      func() (value string, level model.Level, why string)
	}{
		{"product", "Redis or Valkey", f.product},
		{"replication ID (master_replid)", "readable", f.replicationID},
		{"role", "master", f.role},
		{"version", "6.2 or newer", f.version},
		{"maxmemory-policy", "noeviction", f.eviction},
		{"replica-read-only", "yes", f.readOnly},
		{"persistence", "any", f.persistence},
		{"active-active", "no", f.activeActive},
	} {
		value, level, why := s.judge()
		found = append(found, model.Finding{Store: "redis", Node: f.node, Setting: s.name, Value: value, Want: s.want, Level: level, Why: why})
	}
	return found
}

const (
	whyNoInfo   = "INFO is refused: ACL SETUSER <user> +info"
	whyNoConfig = "CONFIG GET is refused: ACL SETUSER <user> +config|get, or look at the parameters at your provider"
)

// product is judged by the table of what cannot be tested.
func (f facts) product() (string, model.Level, string) {
	if f.info["redis_version"] == "" {
		return "", model.LevelUnknown, whyNoInfo
	}
	judged := model.ProductFinding(model.Finding{}, f.kind())
	return f.kind(), judged.Level, judged.Why
}

// kind is the product; all of them claim a redis_version.
func (f facts) kind() string {
	switch {
	case f.info["dragonfly_version"] != "", f.info["dfly_version"] != "":
		return "Dragonfly"
	case f.info["os"] == "Amazon ElastiCache":
		return "ElastiCache"
	case f.info["mvcc_depth"] != "" || strings.Contains(f.info["executable"], "keydb"):
		return "KeyDB"
	case f.info["server_name"] == "valkey":
		return "Valkey"
	}
	return "Redis"
}

// replicationID is judged as scripts see it: that is what guards a pop.
func (f facts) replicationID() (string, model.Level, string) {
	if f.hidden() {
		return "hidden", model.LevelUnsafe, "what an old snapshot or a lagging replica brought back cannot be told from what is current, so no ID is served: " +
			"let scripts read INFO replication (ACL SETUSER <user> +info), and connect to Redis itself instead of a proxy"
	}
	return "readable", model.LevelOK, ""
}

func (f facts) hidden() bool { return f.refusal != nil && has(f.refusal, "HISTORYHIDDEN") }

func (f facts) role() (string, model.Level, string) {
	role := f.info["role"]
	switch {
	case role == "slave" || f.refusal != nil && !f.hidden():
		return "replica", model.LevelUnsafe, "a replica is refused: give the master's address in redis.addrs, or follow it with redis.mode sentinel or cluster"
	case role == "":
		return "", model.LevelUnknown, whyNoInfo
	}
	return role, model.LevelOK, "" // KeyDB's active-replica is judged below
}

func (f facts) version() (string, model.Level, string) {
	text, kind := f.info["redis_version"], f.kind()
	if text == "" {
		return "", model.LevelUnknown, whyNoInfo
	}
	value := kind + " " + text
	if kind == "Valkey" && f.info["valkey_version"] != "" {
		value = kind + " " + f.info["valkey_version"] // redis_version is the Redis it replaces
	}
	var have []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		have = append(have, n)
	}
	if slices.Compare(have, []int{6, 2}) < 0 {
		return value, model.LevelUnsafe, "LPOP takes no count there, so no ID is served: upgrade to Redis 6.2 or newer"
	}
	return value, model.LevelOK, ""
}

// eviction reads INFO memory, which managed servers show as well.
func (f facts) eviction() (string, model.Level, string) {
	policy, limit := f.info["maxmemory_policy"], f.info["maxmemory"]
	switch {
	case policy == "" || limit == "":
		return policy, model.LevelUnknown, whyNoInfo
	case limit == "0":
		return policy + ", no maxmemory", model.LevelOK, ""
	case policy == "noeviction":
		return policy, model.LevelOK, ""
	case strings.HasPrefix(policy, "volatile-"):
		return policy, model.LevelWarn, "only locks have an expiry here, so lists are safe; an evicted lock costs work done twice and lists filled too far: CONFIG SET maxmemory-policy noeviction"
	}
	return policy, model.LevelUnsafe, "a list that is evicted is a gap; a meta hash that is evicted costs its list and the mark w, which keeps IDs from repeating when the database goes back in time: " +
		"CONFIG SET maxmemory-policy noeviction"
}

func (f facts) readOnly() (string, model.Level, string) {
	value := f.config["replica-read-only"]
	switch {
	case value == "":
		return "", model.LevelUnknown, whyNoConfig
	case value == "yes":
		return value, model.LevelOK, ""
	case f.hidden():
		return value, model.LevelUnsafe, "with the replication ID hidden scripts cannot tell a replica from a master, and a pop from either gives the same IDs: CONFIG SET replica-read-only yes"
	}
	return value, model.LevelWarn, "our scripts refuse a replica, but others could change lists on one: CONFIG SET replica-read-only yes, here and on each replica"
}

// persistence is never wrong: a restart is a new replication ID, whose lists are
// dropped anyway.
func (f facts) persistence() (string, model.Level, string) {
	aof := map[string]string{"0": "AOF off", "1": "AOF on"}[f.info["aof_enabled"]]
	save, known := f.config["save"]
	switch {
	case aof == "":
		return "", model.LevelUnknown, whyNoInfo
	case !known:
		return aof + ", RDB not told", model.LevelOK, ""
	case save != "":
		return aof + ", RDB on", model.LevelOK, ""
	case aof == "AOF on":
		return aof + ", RDB off", model.LevelOK, ""
	}
	return aof + ", RDB off", model.LevelOK, "a restart loses the lists, which is a gap, and the marks w, which help when the database goes back in time: AOF or RDB keeps them"
}

// activeActive finds KeyDB's; Redis Enterprise does not show INFO to scripts, so
// its replication ID is hidden.
func (f facts) activeActive() (string, model.Level, string) {
	switch {
	case f.info["role"] == "active-replica" || f.config["active-replica"] == "yes" || f.config["multi-master"] == "yes":
		return "yes", model.LevelUnsafe, "two servers pop the same list, so IDs repeat: use a server that has one master"
	case f.info["redis_version"] == "" || f.kind() == "KeyDB" && f.config == nil:
		return "", model.LevelUnknown, whyNoConfig
	}
	return "no", model.LevelOK, ""
}
