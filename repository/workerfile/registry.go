package workerfile

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"shardid/model"
)

const (
	// ModeLocal is the registry that knows worker IDs by the configuration.
	ModeLocal = "local"
	// ModeOrdinal is the registry that knows the worker ID by the name of the host, as a StatefulSet of
	// Kubernetes numbers its pods.
	ModeOrdinal = "ordinal"
)

// Fixed is a registry of worker IDs that are known beforehand. It keeps nothing and has no clock: what an
// instance reserved is in its worker file alone, and nobody but the operator keeps two with one worker ID
// from running at the same time. Safe for concurrent use.
type Fixed struct {
	name string // of the registry
	find func(address string) (id int, err error)
}

// Local makes the registry from snowflake.worker.local_map, ip:port to worker ID, which the configuration has
// checked: no two have the same.
func Local(ids map[string]int) *Fixed {
	return &Fixed{name: ModeLocal, find: func(address string) (int, error) {
		id, listed := ids[address]
		if !listed {
			return 0, fmt.Errorf("%w: %w: %s is not in snowflake.worker.local_map", model.Do("add the address "+
				"with a worker ID of its own, or set snowflake.advertise to one that is listed"), model.ErrNoWorkerID,
				address)
		}
		return id, nil
	}}
}

var hostWithNumber = regexp.MustCompile(`^(.+)-(0|[1-9][0-9]*)$`)

// Ordinal makes the registry from the name of the host, shardid-3 for example; there are so many worker
// IDs. A name that does not fit makes Acquire fail.
func Ordinal(host string, workers int) *Fixed {
	name, _, _ := strings.Cut(host, ".")
	parts := hostWithNumber.FindStringSubmatch(name)
	var err error
	if parts == nil {
		parts = make([]string, 3)
		err = fmt.Errorf("%w: %w: snowflake.worker.mode is ordinal, and the host's name %q does not end in a hyphen "+
			"and a number", model.Do("run it in a StatefulSet, whose pods are named shardid-0, shardid-1 and so on, "+
			"or choose another mode"), model.ErrNoWorkerID, host)
	}
	id, noNumber := strconv.ParseUint(parts[2], 10, 31)
	if err == nil && (noNumber != nil || id >= uint64(workers)) {
		err = fmt.Errorf("%w: %w: the number at the end of the host's name %q is not a worker ID, 0…%d",
			model.Do("run fewer replicas, or choose another snowflake.worker.mode"),
			model.ErrNoWorkerID, host, workers-1)
	}
	return &Fixed{name: ModeOrdinal + " " + parts[1], find: func(string) (int, error) { return int(id), err }}
}

// Open opens the worker file of a pod. Errors: those of Open, model.ErrInvalidArgument for the file of another
// worker ID.
func (r *Fixed) Open(o Options) (*File, error) {
	f, err := Open(o)
	if err != nil {
		return nil, err
	}
	last, known := f.Load()
	if id, err := r.find(o.Address); known && err == nil && last.WorkerID != id { // Acquire says that there is none
		_ = f.Close() // the refusal is the error to tell
		return nil, fmt.Errorf("%w: give each pod the volume of its own, or delete the worker file: that in %s is of "+
			"worker ID %d, and the host's name says %d", model.ErrInvalidArgument, o.Dir, last.WorkerID, id)
	}
	return f, nil
}

// Acquire gives the worker ID of the owner's address or of this host. Errors: model.ErrNoWorkerID when
// there is none.
func (r *Fixed) Acquire(_ context.Context, owner model.Owner) (model.Lease, error) {
	id, err := r.find(owner.Address)
	if err != nil {
		return model.Lease{}, err
	}
	return model.Lease{WorkerID: id, Owner: owner, Registry: r.name}, nil
}

// Renew returns the lease, which no other instance can take, without a time of its own.
func (r *Fixed) Renew(_ context.Context, lease model.Lease) (model.Lease, error) {
	lease.ServerTime = 0
	return lease, nil
}

// Release does nothing.
func (r *Fixed) Release(context.Context, model.Lease) error { return nil }
