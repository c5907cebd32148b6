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
