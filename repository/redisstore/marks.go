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

	"shardid/model"
	"shardid/model/witness"
)

// Marks remembers how far the deployment's counters in the database have come. In
// each call, life names a time in which the server has forgotten nothing; in another one
// the call fails with model.ErrLifeChanged, and marks of an earlier life are dropped. All
// calls may be repeated. Other errors: *model.StoreError. Safe for concurrent use.
type Marks struct{ store *Store }

// Marks gives the marks of the deployment, over the connections of the store.
func (s *Store) Marks() Marks { return Marks{s} }

// Place names the server, or the servers, and the way to reach them.
func (m Marks) Place() string { return m.store.opts.place() }

// Life is the present life; the error is also that of a server that takes no writes.
func (m Marks) Life(ctx context.Context) (string, error) {
	life, _, err := m.run(ctx, "beat", "", "life")
	return life, err
}

// Confirm is Life, asked through new connections. With Sentinel and Cluster the server must be
// the one that the majority takes for the master.
func (m Marks) Confirm(ctx context.Context) (life string, err error) {
	fresh, err := m.store.reconnect(ctx, m.key())
	if err != nil {
		return "", err
	}
	defer fresh.Close()
	return Marks{fresh}.Life(ctx)
}

// Raise raises marks and gives, in order, what they were before; 0 is none. A mark of 0 is only read.
func (m Marks) Raise(ctx context.Context, life string, marks []witness.Mark) ([]int64, error) {
	const op = "raise marks"
	args := []any{"raise"}
	for _, mark := range marks {
		args = append(args, mark.Counter, fmt.Sprintf("%019d", max(mark.Value, 0)))
	}
	_, answer, err := m.run(ctx, op, life, args...)
	if err != nil {
		return nil, err
	}
	before := make([]int64, len(marks))
	for i := range before {
		if before[i], err = markIn(answer, i); err != nil {
			return nil, explain(op, err)
		}
	}
	return before, nil
}

// markIn is the mark at a place of an answer.
func markIn(answer []string, at int) (int64, error) {
	if at < len(answer) {
		if mark, err := strconv.ParseInt(answer[at], 10, 64); err == nil && mark >= 0 {
			return mark, nil
		}
	}
	return 0, fmt.Errorf("%w: no mark at %d of %.80q", errMalformed, at, answer)
}

// Scan gives some marks; each that exists all the time comes at least once until next is 0.
func (m Marks) Scan(ctx context.Context, life string, from uint64) (marks []witness.Mark, next uint64, err error) {
	const op = "scan the marks"
	_, answer, err := m.run(ctx, op, life, "scan", from)
	if err != nil {
		return nil, 0, err
	}
	if len(answer) == 0 {
		return nil, 0, explain(op, errMalformed)
	}
	if next, err = strconv.ParseUint(answer[0], 10, 64); err != nil {
		return nil, 0, explain(op, fmt.Errorf("%w: cursor %.80q", errMalformed, answer[0]))
	}
	for i := 1; i < len(answer); i += 2 {
		value, err := markIn(answer, i+1)
		if err != nil {
			return nil, 0, explain(op, err)
		}
		marks = append(marks, witness.Mark{Counter: answer[i], Value: value})
	}
	return marks, next, nil
}

func (m Marks) key() string { return "id.gen.marks_{" + m.store.deploymentID() + "}" }

// run gives the present life, and what follows it in the answer of the script.
func (m Marks) run(ctx context.Context, op, want string, args ...any) (life string, rest []string, err error) {
	args = append([]any{m.store.deploymentID(), want}, args...)
	answer, err := m.store.run(ctx, m.store.client, marksScript, []string{m.key()}, args...).StringSlice()
	switch {
	case err != nil:
		return "", nil, explain(op, err)
	case len(answer) == 0 || len(answer[0]) > maxLife:
		return "", nil, explain(op, fmt.Errorf("%w: marks answered %.80q", errMalformed, answer))
	case want != "" && want != answer[0]:
		return "", nil, model.ErrLifeChanged
	}
	return answer[0], answer[1:], nil
}

// maxLife is the width of a life in the database, in bytes.
const maxLife = 80

// errNoMajority: those that decide who the master is do not agree, or do not answer.
var errNoMajority = errors.New("no majority says which Redis is the master")

// place names how the marks are reached, the same in every process with the same
// configuration.
func (o Options) place() string {
	addrs := slices.Sorted(slices.Values(o.Addrs))
	place := strings.Join([]string{o.Mode, o.MasterName, strings.Join(addrs, ","), strconv.Itoa(o.DB)}, " ")
	return place[:min(len(place), 255)] // the width of shardid_deployment.witness_place
}

// reconnect gives the store with new connections to the Redis that keeps a key: to the one that the majority takes for
// its master, where there is a majority to ask.
func (s *Store) reconnect(ctx context.Context, key string) (*Store, error) {
	const op = "ask who the master is"
	o := s.opts
	if o.Mode == ModeSentinel {
		master, err := o.electedMaster(ctx)
		if err != nil {
			return nil, explain(op, err)
		}
		o.Mode, o.Addrs, o.MasterName = ModeSingle, []string{master}, ""
	}
	fresh := &Store{opts: s.opts, client: o.connect()}
	if cluster, ok := fresh.client.(*redis.ClusterClient); ok {
		if err := confirmOwner(ctx, cluster, key); err != nil {
			return nil, explain(op, errors.Join(err, cluster.Close()))
		}
	}
	fresh.SetDeployment(s.deploymentID())
	return fresh, nil
}

// electedMaster is the address of the master that the majority of all Sentinels names: of those that one of them knows,
// and of as many as are configured, as a Sentinel that was reset knows no others. A Sentinel may be asked under several
// addresses, by its host and by its IP address, and has one vote: those that know the same others are one.
func (o Options) electedMaster(ctx context.Context) (string, error) {
	votes, all := map[string]int{}, len(o.Addrs)
	asked, voted := map[string]bool{}, map[string]bool{}
	for todo := slices.Clone(o.Addrs); len(todo) > 0; {
		addr := todo[0]
		todo = todo[1:]
		if asked[addr] {
			continue
		}
		asked[addr] = true
		master, others, ids, err := o.askSentinel(ctx, addr)
		if err == nil && !voted[ids] {
			voted[ids] = true
			votes[master]++
			all = max(all, len(others)+1)
			todo = append(todo, others...)
		}
		for master, n := range votes {
			if n > all/2 && len(asked) >= len(o.Addrs) {
				return master, nil
			}
		}
	}
	return "", fmt.Errorf("%w: Sentinels answered %v, of %d", errNoMajority, votes, all)
}

// askSentinel gives the master that one Sentinel names, and the addresses and the IDs of the others.
func (o Options) askSentinel(ctx context.Context, addr string) (master string, others []string, ids string, err error) {
	u := o.universal()
	simple := u.Simple()
	simple.Addr, simple.DB, simple.Username, simple.Password = addr, 0, o.SentinelUsername, o.SentinelPassword
	// Three are asked within one timeout.
	simple.DialTimeout, simple.ReadTimeout, simple.MaxRetries = u.DialTimeout*3/10, u.ReadTimeout*3/10, -1
	c := redis.NewSentinelClient(simple)
	defer c.Close()
	at, err := c.GetMasterAddrByName(ctx, o.MasterName).Result()
	if err != nil || len(at) != 2 {
		return "", nil, "", errors.Join(err, errNoMajority)
	}
	list, err := c.Sentinels(ctx, o.MasterName).Result()
	var known []string
	for _, s := range list {
		others, known = append(others, net.JoinHostPort(s["ip"], s["port"])), append(known, s["runid"])
	}
	return net.JoinHostPort(at[0], at[1]), others, strings.Join(slices.Sorted(slices.Values(known)), " "), err
}

// confirmOwner asks every master of a cluster who owns the slot of a key: it must be the
// node that says so of itself, for more than half of them.
func confirmOwner(ctx context.Context, cluster *redis.ClusterClient, key string) error {
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return err
	}
	number, err := node.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return err
	}
	slot := int(number)
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
