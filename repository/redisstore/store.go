// Package redisstore keeps the lists of indices, the refill locks and the sections of
// sequences in Redis: a single server, one behind Sentinel, or a Redis Cluster. Redis
// 6.2 or newer.
//
// # The promise
//
// A pop never returns an index twice, even when the server restarts from an old
// RDB or AOF file or an out-of-date replica is promoted. Each of these events
// gives the server a new replication ID, master_replid. Beside each list a hash
// holds the replication ID for which the list is valid, and every script compares the
// two before it serves: what another life left behind is dropped, which
// costs a gap. A server whose replication ID cannot be read is refused.
//
// # A command that comes twice
//
// The client repeats a command whose answer it did not get, and follows the
// redirects of a cluster, so a script may run twice, late, or on another server than
// the first time. Each is written for that. A pop that is repeated leaves a gap. A push
// that is repeated changes nothing, as its segment does not begin above the high-water
// mark any more, or the list has another life there; it is then an error, and the segment
// counts as lost. A lock that is repeated finds its own token. The others write
// again what they wrote, or only raise what they keep.
//
// # Keys
//
//	id.gen.idList_<app>_<shard>                    list of indices, oldest left
//	id.gen.meta_{id.gen.idList_<app>_<shard>}      hash: h replication ID, w highest index pushed,
//	                                               e since when it is kept, in µs,
//	                                               r where the run begins that ends at w,
//	                                               d ID of the deployment
//	id.gen.marks_{<deployment>}                    hash: h and e as above; how far each counter of
//	                                               the database has come, see Marks
//	id.gen.lock_<app>_<shard>                      string: token of the holder
//	id.gen.lock_<name>_<deployment>                the same, for sweep
//	id.gen.sequence_<space>_<section>              hash: the numbers of the keys of a section
//	id.gen.replicas_{<deployment>}                 hash: what each replica says of itself
//
// The scripts are the .lua files of this folder; prelude.lua precedes all but those of
// locks and replicas.
//
// go-redis writes failures of its connection pool to stderr. A program that wants
// them elsewhere calls redis.SetLogger once.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// Store keeps lists and locks in Redis; see the package documentation. All
// errors of its methods are *model.StoreError except the refusals of Push. Safe
// for concurrent use.
type Store struct {
	opts       Options
	client     redis.UniversalClient
	deployment atomic.Pointer[string] // see SetDeployment
}

// New connects to nothing. The options are those of ParseURL.
func New(o Options) *Store {
	s := &Store{opts: o, client: o.connect()}
	s.SetDeployment("")
	return s
}

// SetDeployment says to which deployment the store's user belongs, one word. Before
// that all but locks and Check fail. Keys of another deployment are refused with
// model.ErrForeign; those of version 0.1 name none and are taken over.
func (s *Store) SetDeployment(id string) { s.deployment.Store(&id) }

// deploymentID is the first argument of the scripts that prelude.lua precedes.
func (s *Store) deploymentID() string { return *s.deployment.Load() }

// lockKey is the key of a lock. That of a list has its name alone, as in the original
// article; any other is the deployment's own: one that sweeps its lists keeps no other from
// sweeping its own.
func (s *Store) lockKey(name string) string {
	if name != "" && '0' <= name[0] && name[0] <= '9' {
		return lockPrefix + name
	}
	return lockPrefix + name + "_" + s.deploymentID()
}

// Close closes the connections. Calls under way fail.
func (s *Store) Close() error { return s.client.Close() }

// errMode reports a server of another kind than Options.Mode says.
var errMode = errors.New("wrong redis.url")

// Check says whether IDs could be served now: each master is reachable, has
// loaded its data, runs our scripts and tells its replication ID. It writes nothing. The error wraps
// model.ErrPartlyAway while some masters of a cluster serve.
func (s *Store) Check(ctx context.Context) error {
	var some atomic.Bool
	err := s.eachMaster(ctx, func(ctx context.Context, c redis.UniversalClient, _ string) error {
		if err := s.checkServer(ctx, c); err != nil {
			return err
		}
		if s.opts.Mode == ModeCluster { // those that say ok serve their own slots whatever becomes of the others
			info, err := c.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			if !strings.Contains(info, "cluster_state:ok") {
				return errors.New("CLUSTERDOWN cluster_state is not ok")
			}
		}
		some.Store(true)
		return nil
	})
	if err != nil && some.Load() {
		err = fmt.Errorf("%w: %w", model.ErrPartlyAway, err)
	}
	return explain("check", err)
}

// eachMaster calls f for the master, or for each one of a cluster, in a goroutine of its own.
func (s *Store) eachMaster(
	ctx context.Context, f func(ctx context.Context, c redis.UniversalClient, node string) error,
) error {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return f(ctx, s.client, cmp.Or(s.opts.MasterName, s.opts.Addrs[0]))
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		node := c.Options().Addr
		if err := f(ctx, c, node); err != nil {
			return fmt.Errorf("node %s: %w", node, err)
		}
		return nil
	})
}

func (s *Store) checkServer(ctx context.Context, c redis.UniversalClient) error {
	mode, err := s.run(ctx, c, checkScript, nil, "-").Text()
	if err != nil {
		return err
	}
	if clustered := mode == "cluster"; clustered != (s.opts.Mode == ModeCluster) && mode != "unknown" {
		return fmt.Errorf("%w: the server says it runs in mode %s, redis.url is for %s", errMode, mode, s.opts.Mode)
	}
	return nil
}

// TryLock tries to take each name for ttl, in whole milliseconds, under the token and says, in order, which it got; a
// name that is held under this token already is one, and is held no longer for it. Beside an error those that may be
// held count, too.
func (s *Store) TryLock(ctx context.Context, names []string, token string, ttl time.Duration) ([]bool, error) {
	results := s.runParts(ctx, lockScript, callsFor(names, 1, s.lockKey, token, ttl.Milliseconds()), pipelineCalls)
	got := make([]bool, len(names))
	for i, r := range results {
		got[i] = r.err != nil || r.reply == "1"
	}
	return got, explain("lock", firstError(results))
}

// Unlock frees those names that the token still holds. A failure does not keep
// it from trying the others; it returns the first one.
func (s *Store) Unlock(ctx context.Context, names []string, token string) error {
	calls := callsFor(names, 1, s.lockKey, token)
	return explain("unlock", firstError(s.runParts(ctx, unlockScript, calls, pipelineCalls)))
}
