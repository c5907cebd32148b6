package httpapi

import (
	"context"
	"time"

	"shardid/model"
	"shardid/service/health"
)

// Queue is the service behind /get.
type Queue interface {
	// Next issues count IDs and appends them to dst, all or none. Errors: those
	// of the model package that carry a code, or the context's.
	Next(ctx context.Context, app int, gatePass string, count int, dst []int64) ([]int64, error)
	// Ready is nil or wraps model.ErrNotReady and says what is waited for.
	Ready() error
	// Starved says whether a caller was refused for want of indices within d.
	Starved(d time.Duration) bool
}

// Segment is the service behind /api/segment/get.
type Segment interface {
	// Next issues count IDs of the tag and appends them to dst, all or none.
	// Errors: those of the model package that carry a code, or the context's.
	Next(ctx context.Context, tag string, count int, dst []int64) ([]int64, error)
}

// Generator is a service whose IDs depend on nothing that the caller says: those
// behind /api/snowflake/get and /api/uid/get.
type Generator interface {
	// Next issues count IDs and appends them to dst, all or none. Errors: those
	// of the model package that carry a code, or the context's.
	Next(ctx context.Context, count int, dst []int64) ([]int64, error)
}

// Mode is a way to make IDs, beside the queue, whose readiness is looked at.
type Mode struct {
	Name string // ModeSegment, ModeSnowflake or ModeUID
	// Ready is nil or says what is missing. It must not block.
	Ready func() error
}

// Names of the modes, as they are in the configuration and in the paths.
const (
	ModeQueue     = "queue"
	ModeSegment   = "segment"
	ModeSnowflake = "snowflake"
	ModeUID       = "uid"
)

// Conditions tells how the things the service depends on are doing.
type Conditions interface {
	Conditions() []health.Condition
	OK(names ...string) bool
}

// Tags reads the rows of leaf_alloc. Errors: *model.StoreError, or the context's.
type Tags func(ctx context.Context) ([]model.Tag, error)
