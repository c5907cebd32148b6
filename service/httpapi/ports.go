package httpapi

import (
	"context"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/monitor"
)

// Queue is the service behind /get.
type Queue interface {
	// Next issues count IDs and appends them to dst, all or none. Errors: those
	// of the model package that carry a code, or the context's.
	Next(ctx context.Context, app int, gatePass string, count int, dst []int64) ([]int64, error)
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

// Mode is a way to make IDs whose readiness is looked at.
type Mode struct {
	Name string // ModeQueue, ModeSegment, ModeSnowflake or ModeUID
	// Ready is nil while the mode can serve anything, or says what is missing. It must
	// not block.
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
	Conditions() []model.Condition
}

// Tags reads the rows of leaf_alloc. Errors: *model.StoreError, or the context's.
type Tags func(ctx context.Context) ([]model.Tag, error)

// Admin administrates apps and tags, for whoever the guard lets through.
type Admin interface {
	AppAdmin
	AppReader
	TagAdmin
	TagReader
}

// AppReader reads apps. Errors: model.ErrUnknownApp, *model.StoreError.
type AppReader interface {
	Apps(ctx context.Context) ([]model.AppSummary, error)
	App(ctx context.Context, id uint8) (model.AppSummary, error)
}

// AppAdmin changes apps and says from when on that counts. Errors: model.ErrUnknownApp,
// ErrAppExists, ErrInvalidArgument, ErrRefused, *model.StoreError.
type AppAdmin interface {
	CreateApp(ctx context.Context, by admin.Actor, app model.App) (model.AppSummary, admin.Effect, error)
	ChangeApp(ctx context.Context, by admin.Actor, id uint8, c model.AppChange) (model.AppSummary, admin.Effect, error)
	DeleteApp(ctx context.Context, by admin.Actor, id uint8, name string) (model.AppSummary, admin.Effect, error)
}

// TagReader reads tags. Errors: model.ErrUnknownTag, ErrInvalidArgument for a row that
// cannot be used, *model.StoreError.
type TagReader interface {
	Tags(ctx context.Context) ([]model.Tag, error)
	Tag(ctx context.Context, name string) (model.Tag, error)
}

// TagAdmin changes tags, as AppAdmin apps. Errors: model.ErrUnknownTag, ErrTagExists,
// ErrInvalidArgument, ErrRefused, *model.StoreError.
type TagAdmin interface {
	CreateTag(ctx context.Context, by admin.Actor, tag model.Tag) (model.Tag, admin.Effect, error)
	ChangeTag(ctx context.Context, by admin.Actor, name string, c model.TagChange) (model.Tag, admin.Effect, error)
	DeleteTag(ctx context.Context, by admin.Actor, name, confirm string) (model.Tag, admin.Effect, error)
}

// History remembers what happened in the last minutes.
type History interface {
	// History is what the whole replica did, AppHistory what it issued of one app.
	History() monitor.Chart
	AppHistory(app uint8) monitor.Chart
}

// Replicas knows all replicas of the deployment.
type Replicas interface {
	View(ctx context.Context) monitor.View
}
