package main

import (
	"context"
	"errors"
	"time"

	"shardid/model"
	"shardid/service/metrics"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"
)

// Names of the stores in the metrics.
const (
	storeDatabase  = "database"
	storeRedis     = "redis"
	storeMemory    = "memory"
	storeZooKeeper = "zookeeper"
	storeFile      = "file"
)

// meteredLists times the calls of a store of lists.
type meteredLists struct {
	queue.Lists
	pop, state, push, remove *metrics.Operation
}

func (a *App) meterLists(l listStore) meteredLists {
	op := a.operations(l.name())
	return meteredLists{l, op("pop"), op("state"), op("push"), op("delete")}
}

// Pop implements queue.Lists.
func (m meteredLists) Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error) {
	began := time.Now()
	p, err := m.Lists.Pop(ctx, key, n)
	m.pop.Done(began, err)
	return p, err
}

// State implements queue.Lists.
func (m meteredLists) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	began := time.Now()
	states := m.Lists.State(ctx, keys)
	m.state.Done(began, first(states, func(s model.ListState) error { return s.Err }))
	return states
}

// Probe implements queue.Lists; it is a state like others.
func (m meteredLists) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	began := time.Now()
	states := m.Lists.Probe(ctx, keys)
	m.state.Done(began, first(states, func(s model.ListState) error { return s.Err }))
	return states
}

// Push implements queue.Lists.
func (m meteredLists) Push(ctx context.Context, reqs []model.PushRequest) []error {
	began := time.Now()
	errs := m.Lists.Push(ctx, reqs)
	m.push.Done(began, first(errs, func(err error) error { return err }))
	return errs
}

// Delete implements queue.Lists.
func (m meteredLists) Delete(ctx context.Context, keys []model.ListKey) error {
	began := time.Now()
	err := m.Lists.Delete(ctx, keys)
	m.remove.Done(began, err)
	return err
}

// meteredAllocator times the calls that take segments.
type meteredAllocator struct {
	queue.Allocator
	allocate, raise *metrics.Operation
}

func (a *App) meterAllocator(next queue.Allocator) meteredAllocator {
	op := a.operations(storeDatabase)
	return meteredAllocator{next, op("allocate"), op("raise")}
}

// Allocate implements queue.Allocator.
func (m meteredAllocator) Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	began := time.Now()
	out := m.Allocator.Allocate(ctx, reqs)
	m.allocate.Done(began, first(out, func(a model.Allocation) error { return a.Err }))
	return out
}

// Settle implements queue.Allocator.
func (m meteredAllocator) Settle(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	began := time.Now()
	out := m.Allocator.Settle(ctx, reqs)
	m.raise.Done(began, first(out, func(a model.Allocation) error { return a.Err }))
	return out
}

// meteredCatalogue times the reading of the configuration of all lists.
type meteredCatalogue struct {
	queue.Catalogue
	load *metrics.Operation
}

func (a *App) meterCatalogue(next queue.Catalogue) meteredCatalogue {
	return meteredCatalogue{next, a.operations(storeDatabase)("load")}
}

// Load implements queue.Catalogue.
func (m meteredCatalogue) Load(ctx context.Context) ([]model.ListConfig, error) {
	began := time.Now()
	configs, err := m.Catalogue.Load(ctx)
	m.load.Done(began, err)
	return configs, err
}

// meteredTable times the calls of leaf_alloc.
type meteredTable struct {
	segment.Table
	allocate, read *metrics.Operation
}

func (a *App) meterTable(next segment.Table) meteredTable {
	op := a.operations(storeDatabase)
	return meteredTable{next, op("allocate_tag"), op("tags")}
}

// AllocateTag implements segment.Table.
func (m meteredTable) AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error) {
	began := time.Now()
	s, err := m.Table.AllocateTag(ctx, req)
	m.allocate.Done(began, err)
	return s, err
}

// Tags implements segment.Table.
func (m meteredTable) Tags(ctx context.Context) ([]model.Tag, error) {
	began := time.Now()
	tags, err := m.Table.Tags(ctx)
	m.read.Done(began, err)
	return tags, err
}

// meteredRegistry times the calls that decide about a worker ID.
type meteredRegistry struct {
	worker.Registry
	acquire, renew, release *metrics.Operation
}

func (a *App) meterRegistry(next worker.Registry) meteredRegistry {
	op := a.operations(registryStore(a.cfg))
	return meteredRegistry{next, op("acquire_worker"), op("renew_worker"), op("release_worker")}
}

// registryStore is where the worker IDs of the configuration come from.
func registryStore(cfg Config) string {
	switch cfg.Snowflake.Worker.Mode {
	case workerMySQL:
		return storeDatabase
	case workerRedis:
		return storeRedis
	case workerLocal:
		return storeFile
	}
	return storeZooKeeper
}

// Acquire implements worker.Registry.
func (m meteredRegistry) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	began := time.Now()
	lease, err := m.Registry.Acquire(ctx, owner)
	m.acquire.Done(began, err)
	return lease, err
}

// Renew implements worker.Registry.
func (m meteredRegistry) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	began := time.Now()
	got, err := m.Registry.Renew(ctx, lease)
	m.renew.Done(began, err)
	return got, err
}

// Release implements worker.Registry.
func (m meteredRegistry) Release(ctx context.Context, lease model.Lease) error {
	began := time.Now()
	err := m.Registry.Release(ctx, lease)
	m.release.Done(began, err)
	return err
}

// meteredNodes times the calls of WORKER_NODE.
type meteredNodes struct {
	uid.Nodes
	register, mark *metrics.Operation
}

func (a *App) meterNodes(next uid.Nodes) meteredNodes {
	op := a.operations(storeDatabase)
	return meteredNodes{next, op("register_node"), op("mark_node")}
}

// RegisterNode implements uid.Nodes.
func (m meteredNodes) RegisterNode(ctx context.Context, start model.NodeStart) (model.Node, error) {
	began := time.Now()
	node, err := m.Nodes.RegisterNode(ctx, start)
	m.register.Done(began, err)
	return node, err
}

// MarkNode implements uid.Nodes.
func (m meteredNodes) MarkNode(ctx context.Context, node model.Node, until int64) error {
	began := time.Now()
	err := m.Nodes.MarkNode(ctx, node, until)
	m.mark.Done(began, err)
	return err
}

// operations adds operations of one store to the metrics.
func (a *App) operations(store string) func(name string) *metrics.Operation {
	return func(name string) *metrics.Operation { return a.stores.Operation(store, name) }
}

// first is the first error of answers that says that the store could not be used. The
// others, such as that of a list at its limit, are answers.
func first[T any](answers []T, failure func(T) error) error {
	for _, answer := range answers {
		var store *model.StoreError
		if err := failure(answer); err != nil && errors.As(err, &store) {
			return err
		}
	}
	return nil
}
