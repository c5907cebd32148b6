package tracing

import (
	"context"

	"shardid/model"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"

	"go.opentelemetry.io/otel/attribute"
)

// What the spans of the other modes tell.
const (
	tagKey    = attribute.Key("shardid.tag")
	workerKey = attribute.Key("shardid.worker_id")
)

// Table observes a store of tags.
func (t *Tracer) Table(store string, next segment.Table) segment.Table {
	if t == nil {
		return next
	}
	return table{t, store, next}
}

type table struct {
	*Tracer
	store string
	next  segment.Table
}

func (t table) AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error) {
	ctx, span := t.begin(ctx, "segment load", t.store, tagKey.String(req.Tag))
	s, err := t.next.AllocateTag(ctx, req)
	span.SetAttributes(stepKey.Int64(s.End - s.First))
	end(span, err)
	return s, err
}

func (t table) Tags(ctx context.Context) ([]model.Tag, error) {
	ctx, span := t.begin(ctx, "tags load", t.store)
	tags, err := t.next.Tags(ctx)
	span.SetAttributes(gotKey.Int(len(tags)))
	end(span, err)
	return tags, err
}

// Registry observes a registry of worker IDs.
func (t *Tracer) Registry(store string, next worker.Registry) worker.Registry {
	if t == nil {
		return next
	}
	return registry{t, store, next}
}

type registry struct {
	*Tracer
	store string
	next  worker.Registry
}

func (r registry) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	ctx, span := r.begin(ctx, "lease acquire", r.store)
	lease, err := r.next.Acquire(ctx, owner)
	span.SetAttributes(workerKey.Int(lease.WorkerID))
	end(span, err)
	return lease, err
}

func (r registry) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	ctx, span := r.begin(ctx, "lease renew", r.store, workerKey.Int(lease.WorkerID))
	renewed, err := r.next.Renew(ctx, lease)
	end(span, err)
	return renewed, err
}

func (r registry) Release(ctx context.Context, lease model.Lease) error {
	ctx, span := r.begin(ctx, "lease release", r.store, workerKey.Int(lease.WorkerID))
	err := r.next.Release(ctx, lease)
	end(span, err)
	return err
}

func (r registry) Peers(ctx context.Context) ([]model.WorkerPeer, error) {
	ctx, span := r.begin(ctx, "lease peers", r.store)
	peers, err := r.next.Peers(ctx)
	span.SetAttributes(gotKey.Int(len(peers)))
	end(span, err)
	return peers, err
}

// Nodes observes a store of UID nodes.
func (t *Tracer) Nodes(store string, next uid.Nodes) uid.Nodes {
	if t == nil {
		return next
	}
	return nodes{t, store, next}
}

type nodes struct {
	*Tracer
	store string
	next  uid.Nodes
}

func (n nodes) RegisterNode(ctx context.Context, start model.NodeStart) (model.Node, error) {
	ctx, span := n.begin(ctx, "uid node", n.store)
	node, err := n.next.RegisterNode(ctx, start)
	span.SetAttributes(workerKey.Int64(node.WorkerID))
	end(span, err)
	return node, err
}

func (n nodes) MarkNode(ctx context.Context, node model.Node, until int64) error {
	ctx, span := n.begin(ctx, "uid mark", n.store, workerKey.Int64(node.WorkerID))
	err := n.next.MarkNode(ctx, node, until)
	end(span, err)
	return err
}
