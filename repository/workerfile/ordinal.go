package workerfile

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shardid/model"
)

// ModeOrdinal is the registry that knows the worker ID by the name of the host, as a
// StatefulSet of Kubernetes numbers its pods.
const ModeOrdinal = "ordinal"

// OrdinalRegistry gives this instance the number at the end of its host's name. It keeps
// nothing and has no clock: what an instance reserved is in its worker file alone, and
// nothing but the StatefulSet keeps two pods of one name from running at the same time.
// Safe for concurrent use.
type OrdinalRegistry struct {
	stateless
	set string // the host's name without its number
	id  int
	err error // the name has no number that can be a worker ID
	// unknown is up to when an earlier life, of which the file tells nothing, may have
	// issued IDs, Unix ms; 0 when the file tells.
	unknown atomic.Int64
}

// Ordinal makes the registry from the name of the host, shardid-3 for example; there are
// so many worker IDs. A name that does not fit makes Acquire fail.
func Ordinal(host string, workers int) *OrdinalRegistry {
	name, _, _ := strings.Cut(host, ".")
	parts := regexp.MustCompile(`^(.+)-(0|[1-9][0-9]*)$`).FindStringSubmatch(name)
	if parts == nil {
		return &OrdinalRegistry{err: fmt.Errorf("%w: snowflake.worker.mode is ordinal, and the host's name %q does not end in "+
			"a hyphen and a number: run it in a StatefulSet, whose pods are named shardid-0, shardid-1 and so on, "+
			"or choose another mode", model.ErrNoWorkerID, host)}
	}
	id, err := strconv.ParseUint(parts[2], 10, 31)
	if err != nil || id >= uint64(workers) {
		return &OrdinalRegistry{err: fmt.Errorf("%w: the number at the end of the host's name %q is not a worker ID, 0…%d: "+
			"run fewer replicas, or choose another snowflake.worker.mode", model.ErrNoWorkerID, host, workers-1)}
	}
	return &OrdinalRegistry{set: parts[1], id: int(id)}
}

// Open opens the worker file. When that tells nothing of this worker ID, an earlier
// life may have lost its file: Acquire then leaves out what that could have reserved, which
// is as far ahead as wait. Errors: those of Open, model.ErrInvalidArgument for the file of
// another worker ID.
func (o *OrdinalRegistry) Open(opts Options, wait time.Duration) (*File, error) {
	f, err := Open(opts)
	if err != nil || o.err != nil {
		return f, err
	}
	last, known := f.Load()
	if known && last.WorkerID != o.id {
		_ = f.Close() // the refusal is the error to tell
		return nil, fmt.Errorf("%w: the worker file in %s is that of worker ID %d, and the host's name says %d: "+
			"give each pod the volume of its own, or delete the file", model.ErrInvalidArgument, opts.Dir, last.WorkerID, o.id)
	}
	if !known {
		o.unknown.Store(time.Now().Add(wait).UnixMilli())
	}
	return f, nil
}

// Acquire gives the worker ID of the host. Errors: model.ErrNoWorkerID when its name has
// none, that of the context.
func (o *OrdinalRegistry) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	if err := done(ctx); err != nil {
		return model.Lease{}, err
	}
	if o.err != nil {
		return model.Lease{}, o.err
	}
	after := o.unknown.Load()
	return model.Lease{
		WorkerID: o.id, Owner: owner, Registry: ModeOrdinal + " " + o.set, After: after, Reserved: after, Expires: after,
	}, nil
}
