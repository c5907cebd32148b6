package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// errNoMajority: those that decide who the master is do not agree, or do not answer.
var errNoMajority = errors.New("no majority says which Redis is the master")

// place names how the marks are reached, the same in every process with the same
// configuration.
func (o Options) place() string {
	addrs := slices.Sorted(slices.Values(o.Addrs))
	place := strings.Join([]string{o.Mode, o.MasterName, strings.Join(addrs, ","), strconv.Itoa(o.DB)}, " ")
	return place[:min(len(place), 255)] // the width of shardid_deployment.witness_place
}

// fresh gives new connections to the Redis that keeps a key: to the one that the majority
// takes for its master, where there is a majority to ask. Errors: errNoMajority, those of
// Redis.
func (o Options) fresh(ctx context.Context, key string) (redis.UniversalClient, error) {
	switch o.Mode {
	case ModeSentinel:
		return o.elected(ctx)
	case ModeCluster:
		cluster := o.connect()
		if err := confirmOwner(ctx, cluster.(*redis.ClusterClient), key); err != nil {
			return nil, errors.Join(err, cluster.Close())
		}
		return cluster, nil
	}
	return o.connect(), nil
}

// elected connects to the master that the majority of all Sentinels names.
func (o Options) elected(ctx context.Context) (redis.UniversalClient, error) {
	votes, all := map[string]int{}, 0
	asked := map[string]bool{}
	for todo := slices.Clone(o.Addrs); len(todo) > 0; {
		addr := todo[0]
		todo = todo[1:]
		if asked[addr] {
			continue
		}
		asked[addr] = true
		master, others, err := o.askSentinel(ctx, addr)
		if err != nil {
			continue // it has no vote
		}
		votes[master]++
		if all < len(others)+1 {
			all = len(others) + 1
		}
		if votes[master] > all/2 && len(asked) >= min(all, len(o.Addrs)) {
			direct := o
			direct.Mode, direct.Addrs, direct.MasterName = ModeSingle, []string{master}, ""
			return direct.connect(), nil
		}
		todo = append(todo, others...)
	}
	return nil, fmt.Errorf("%w: Sentinels answered %v, of %d", errNoMajority, votes, all)
}

// askSentinel gives the master that one Sentinel names, and the addresses of the others.
func (o Options) askSentinel(ctx context.Context, addr string) (master string, others []string, err error) {
	u := o.universal()
	simple := u.Simple()
	simple.Addr, simple.DB, simple.Username, simple.Password = addr, 0, o.SentinelUsername, o.SentinelPassword
	// Three are asked within one timeout.
	simple.DialTimeout, simple.ReadTimeout = u.DialTimeout*3/10, u.ReadTimeout*3/10
	c := redis.NewSentinelClient(simple)
	defer c.Close()
	at, err := c.GetMasterAddrByName(ctx, o.MasterName).Result()
	if err != nil || len(at) != 2 {
		return "", nil, errors.Join(err, errNoMajority)
	}
	list, err := c.Sentinels(ctx, o.MasterName).Result()
	for _, s := range list {
		others = append(others, net.JoinHostPort(s["ip"], s["port"]))
	}
	return net.JoinHostPort(at[0], at[1]), others, err
}

// confirmOwner asks every master of a cluster who owns the slot of a key: it must be the
// node that says so of itself, for more than half of them.
func confirmOwner(ctx context.Context, cluster *redis.ClusterClient, key string) error {
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return err
	}
	slot := slotOf(key)
	owner, masters, err := slotOwner(ctx, node, slot)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	votes := 0
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		said, _, err := slotOwner(ctx, c, slot)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && said == owner {
			votes++
		}
		return nil
	})
	if err == nil && votes <= masters/2 {
		err = fmt.Errorf("%w: %d of %d masters", errNoMajority, votes, masters)
	}
	return err
}

// slotOwner gives the ID of the node that owns a slot, as another one says, and how many
// masters there are.
func slotOwner(ctx context.Context, c *redis.Client, slot int) (owner string, masters int, err error) {
	ranges, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	if err != nil {
		return "", 0, err
	}
	ids := map[string]bool{}
	for _, r := range ranges {
		if len(r.Nodes) == 0 {
			continue
		}
		ids[r.Nodes[0].ID] = true
		if r.Start <= slot && slot <= r.End {
			owner = r.Nodes[0].ID
		}
	}
	if owner == "" {
		err = fmt.Errorf("%w: nobody owns slot %d", errNoMajority, slot)
	}
	return owner, len(ids), err
}

// slotOf is the slot of a key of ours, which has a tag in braces: CRC-16/XMODEM modulo 16384,
// as the specification of Redis Cluster gives it.
func slotOf(key string) int {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}
