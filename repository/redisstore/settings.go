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
	cluster, ok := s.reader.(*redis.ClusterClient)
	if !ok {
		found, err := s.inspect(ctx, s.reader)
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
	found := f.findings()
	for i := range found {
		found[i].Store, found[i].Node = "redis", f.node
	}
	return found, nil
}

// facts are what one server says about itself.
type facts struct {
	node    string
	unsafe  bool  // Options.UnsafeNoHistory
	refusal error // what the server answers to our scripts: HISTORYHIDDEN, READONLY
	info    map[string]string
	config  map[string]string // nil when CONFIG is refused
}

// learn asks everything. Its error is one of the network, or any refusal that is
// about more than a setting.
func (s *Store) learn(ctx context.Context, c redis.UniversalClient) (f facts, err error) {
	f.unsafe = s.fallback != ""
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

const (
	whyHidden = "what an old snapshot or a lagging replica brought back cannot be told from what is current, so no ID is served: " +
		"let scripts read INFO replication (ACL SETUSER <user> +info), and connect to Redis itself instead of a proxy"
	whyOptOut = "IDs repeat when a server that hides its history loses what it held: remove redis.unsafe_no_history where the history can be read"
	whyRole   = "a replica is refused: give the master's address in redis.addrs, or follow it with redis.mode sentinel or cluster"
	whyOld    = "LPOP takes no count there, so no ID is served: upgrade to Redis 6.2 or newer"
	whyEvict  = "a list that is evicted is a gap; a meta hash that is evicted costs its list and the mark w, which keeps IDs from repeating when the database goes back in time: " +
		"CONFIG SET maxmemory-policy noeviction"
	whyEvictLocks = "only locks have an expiry here, so lists are safe; an evicted lock costs work done twice and lists filled too far: CONFIG SET maxmemory-policy noeviction"
	whyWritable   = "our scripts refuse a replica, but others could change lists on one: CONFIG SET replica-read-only yes, here and on each replica"
	whyWritableHd = "with the history hidden scripts cannot tell a replica from a master, and a pop from either gives the same IDs: CONFIG SET replica-read-only yes"
	whyNone       = "a restart loses the lists, which is a gap, and the marks w, which help when the database goes back in time: AOF or RDB keeps them"
	whyActive     = "two servers pop the same list, so IDs repeat: use a server that has one master"
	whyNoInfo     = "INFO is refused: ACL SETUSER <user> +info"
	whyNoConfig   = "CONFIG GET is refused: ACL SETUSER <user> +config|get, or look at the parameters at your provider"
)

func (f facts) findings() []model.Finding {
	return []model.Finding{f.product(), f.history(), f.role(), f.version(), f.eviction(), f.readOnly(), f.persistence(), f.activeActive()}
}

// history is judged as scripts see it: that is what guards a pop.
func (f facts) history() model.Finding {
	out := model.Finding{Setting: "history (master_replid)", Value: "readable", Want: "readable"}
	switch {
	case f.hidden():
		out.Value = "hidden"
		return model.Judged(out, false, model.LevelUnsafe, whyHidden)
	case f.unsafe:
		out.Value = "redis.unsafe_no_history"
		return model.Judged(out, false, model.LevelUnsafe, whyOptOut)
	}
	return model.Judged(out, true, "", "")
}

func (f facts) hidden() bool { return f.refusal != nil && has(f.refusal, "HISTORYHIDDEN") }

func (f facts) role() model.Finding {
	out := model.Finding{Setting: "role", Value: f.info["role"], Want: "master"}
	if out.Value == "slave" || f.refusal != nil && !f.hidden() {
		out.Value = "replica"
		return model.Judged(out, false, model.LevelUnsafe, whyRole)
	}
	if out.Value == "" {
		return model.Unread(out, whyNoInfo)
	}
	return model.Judged(out, true, "", "") // KeyDB's active-replica is judged below
}

// version: the least one is that of LPOP with a count.
func (f facts) version() model.Finding {
	out := model.Finding{Setting: "version", Want: "6.2 or newer"}
	text := f.info["redis_version"]
	kind := f.kind()
	if text == "" {
		return model.Unread(out, whyNoInfo)
	}
	out.Value = kind + " " + text
	if kind == "Valkey" && f.info["valkey_version"] != "" {
		out.Value = kind + " " + f.info["valkey_version"] // redis_version is the Redis it replaces
	}
	return model.Judged(out, slices.Compare(numbers(text), []int{6, 2}) >= 0, model.LevelUnsafe, whyOld)
}

// product is judged by the table of what cannot be tested.
func (f facts) product() model.Finding {
	out := model.Finding{Setting: "product", Want: "Redis or Valkey"}
	if f.info["redis_version"] == "" {
		return model.Unread(out, whyNoInfo)
	}
	out.Value = f.kind()
	return model.ProductFinding(out, out.Value)
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

// eviction reads INFO memory, which managed servers show as well.
func (f facts) eviction() model.Finding {
	out := model.Finding{Setting: "maxmemory-policy", Value: f.info["maxmemory_policy"], Want: "noeviction"}
	switch {
	case out.Value == "" || f.info["maxmemory"] == "":
		return model.Unread(out, whyNoInfo)
	case f.info["maxmemory"] == "0":
		out.Value += ", no maxmemory"
		out.Want = "noeviction when maxmemory is set"
		return model.Judged(out, true, "", "")
	case strings.HasPrefix(out.Value, "volatile-"):
		return model.Judged(out, false, model.LevelWarn, whyEvictLocks)
	}
	return model.Judged(out, out.Value == "noeviction", model.LevelUnsafe, whyEvict)
}

func (f facts) readOnly() model.Finding {
	out := model.Finding{Setting: "replica-read-only", Value: f.config["replica-read-only"], Want: "yes"}
	switch {
	case out.Value == "":
		return model.Unread(out, whyNoConfig)
	case f.hidden() || f.unsafe:
		return model.Judged(out, out.Value == "yes", model.LevelUnsafe, whyWritableHd)
	}
	return model.Judged(out, out.Value == "yes", model.LevelWarn, whyWritable)
}

// persistence is never wrong: a restart is a new history, whose lists are
// dropped anyway.
func (f facts) persistence() model.Finding {
	out := model.Finding{Setting: "persistence", Want: "any"}
	aof := map[string]string{"0": "AOF off", "1": "AOF on"}[f.info["aof_enabled"]]
	if aof == "" {
		return model.Unread(out, whyNoInfo)
	}
	save, known := f.config["save"]
	rdb := "RDB on"
	switch {
	case !known:
		rdb = "RDB not told"
	case save == "":
		rdb = "RDB off"
	}
	out.Value, out.Level = aof+", "+rdb, model.LevelOK
	if aof == "AOF off" && rdb == "RDB off" {
		out.Why = whyNone
	}
	return out
}

// activeActive finds KeyDB's; Redis Enterprise does not show INFO to scripts, so
// its history is hidden.
func (f facts) activeActive() model.Finding {
	out := model.Finding{Setting: "active-active", Value: "no", Want: "no"}
	if f.info["role"] == "active-replica" || f.config["active-replica"] == "yes" || f.config["multi-master"] == "yes" {
		out.Value = "yes"
		return model.Judged(out, false, model.LevelUnsafe, whyActive)
	}
	if f.info["redis_version"] == "" || f.kind() == "KeyDB" && f.config == nil {
		out.Value = ""
		return model.Unread(out, whyNoConfig)
	}
	return model.Judged(out, true, "", "")
}

// numbers gives the parts of a version.
func numbers(version string) (parts []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		parts = append(parts, n)
	}
	return parts
}
