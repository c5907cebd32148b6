package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// errMode reports a server of another kind than Options.Mode says.
var errMode = errors.New("wrong redis.mode")

// Check says whether IDs could be served now: each master is reachable, has
// loaded its data, runs our scripts and tells its history; a cluster serves all
// its slots. It writes nothing. The error wraps model.ErrPartlyAway while a cluster
// serves some of its slots.
func (s *Store) Check(ctx context.Context) error {
	if cluster, ok := s.reader.(*redis.ClusterClient); ok {
		return s.fail("check", s.checkCluster(ctx, cluster))
	}
	return s.fail("check", s.checkServer(ctx, s.reader))
}

func (s *Store) checkCluster(ctx context.Context, cluster *redis.ClusterClient) error {
	var some atomic.Bool
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		err := s.checkServer(ctx, node)
		if err == nil {
			err = checkSlots(ctx, node)
			if err == nil || errors.Is(err, model.ErrPartlyAway) {
				some.Store(true)
			}
		}
		if err != nil {
			return fmt.Errorf("node %s: %w", node.Options().Addr, err)
		}
		return nil
	})
	if err != nil && some.Load() && !errors.Is(err, model.ErrPartlyAway) {
		err = fmt.Errorf("%w: %w", model.ErrPartlyAway, err)
	}
	return err
}

func (s *Store) checkServer(ctx context.Context, c redis.UniversalClient) error {
	mode, err := s.check.run(ctx, c, nil, "- "+s.fallback)
	if err != nil {
		return err
	}
	if clustered := mode == "cluster"; clustered != (s.mode == ModeCluster) && mode != "unknown" {
		return fmt.Errorf("%w: the server says it runs in mode %s, redis.mode is %s", errMode, mode, s.mode)
	}
	return nil
}

// checkSlots asks a node that answers. Those that say cluster_state:ok serve their own
// slots whatever becomes of the others.
func checkSlots(ctx context.Context, node *redis.Client) error {
	info, err := node.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", "cluster_slots_assigned:16384", "cluster_slots_fail:0"} {
		if !strings.Contains(info+"\r\n", want+"\r\n") {
			name, _, _ := strings.Cut(want, ":")
			_, got, _ := strings.Cut(info, name+":")
			got, _, _ = strings.Cut(got, "\r\n")
			err = fmt.Errorf("CLUSTERDOWN %s is %q", name, got)
			if name != "cluster_state" {
				err = fmt.Errorf("%w: %w", model.ErrPartlyAway, err)
			}
			return err
		}
	}
	return nil
}
