package sqlstore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"shardid/model"
)

// portRandom bounds the random part of a machine's PORT: 0…99999, Baidu's
// DisposableWorkerIdAssigner.
const portRandom = 100_000

// NodesOptions are the options of a registry of worker IDs for UIDs.
type NodesOptions struct {
	Host    string // at most 64 bytes; longer ones are cut
	Port    string // at most 64 bytes; empty: each start makes up its own, so that rows differ
	Type    int    // model.NodeContainer or model.NodeActual
	Workers int64  // worker IDs are 0…Workers-1
}

// Nodes is the registry of worker IDs for UIDs, the table WORKER_NODE: each process gets a worker ID of its own, the
// ID of its row. The row's mark is what is reserved of the lease. It keeps no time beside it, and whoever gets the
// worker ID next begins above it, so a lease does not end as long as the row is the process's. Safe for concurrent
// use, over processes too.
type Nodes struct {
	store *Store
	opts  NodesOptions
}

// Nodes gives the registry of worker IDs for UIDs.
func (s *Store) Nodes(opts NodesOptions) *Nodes { return &Nodes{s, opts} }

// Acquire implements worker.Registry with RegisterNode. Until the first Renew the mark is the second before, so
// where others need worker IDs that early they may take it.
func (n *Nodes) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	now := time.Now()
	port := n.opts.Port
	if port == "" {
		port = fmt.Sprintf("%d-%d", now.UnixMilli(), rand.IntN(portRandom))
	}
	node, err := n.store.RegisterNode(ctx, model.NodeStart{
		Host: n.opts.Host[:min(len(n.opts.Host), maxNodeText)], Port: port, Type: n.opts.Type,
		Token: owner.Token, Workers: n.opts.Workers, NowSecond: now.Unix(), UsedUntil: now.Unix() - 1,
	})
	if err != nil {
		return model.Lease{}, err
	}
	after := min(node.AfterSecond, math.MaxInt64/1000) * 1000
	return model.Lease{WorkerID: int(node.WorkerID), Owner: owner, Registry: nodeTable, After: after}, nil
}

// Renew implements worker.Registry with MarkNode: a mark that stays is not written again.
func (n *Nodes) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	id := int64(lease.WorkerID)
	return lease, n.store.MarkNode(ctx, model.Node{ID: id, WorkerID: id, Token: lease.Owner.Token}, lease.Reserved/1000)
}

// Release implements worker.Registry. The mark stays as it is: a lower one could be lost with its commit, and it
// costs nothing, as every start gets another worker ID.
func (n *Nodes) Release(context.Context, model.Lease) error { return nil }

// Peers implements worker.Registry: clocks are not compared, as the time in UIDs need not be the clock's.
func (n *Nodes) Peers(context.Context) ([]model.WorkerPeer, error) { return nil, nil }
