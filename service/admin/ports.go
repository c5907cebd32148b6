package admin

import (
	"context"
	"time"

	"shardid/model"
)

// AppReader reads apps. Errors: model.ErrUnknownApp, *model.StoreError.
type AppReader interface {
	Apps(ctx context.Context) ([]model.AppSummary, error)
	App(ctx context.Context, id uint8) (model.AppSummary, error)
}

// AppWriter changes apps, each call in one transaction. Errors: model.ErrUnknownApp,
// ErrAppExists, ErrInvalidArgument, ErrRefused; after a *model.StoreError it is not
// known whether the change is stored.
type AppWriter interface {
	CreateApp(ctx context.Context, app model.App) (model.AppSummary, error)
	ChangeApp(ctx context.Context, id uint8, change model.AppChange) (before, after model.AppSummary, err error)
	// DeleteApp deletes the app of that ID if it has that name, and remembers what it
	// handed out.
	DeleteApp(ctx context.Context, id uint8, name string) (model.AppSummary, error)
}

// TagReader reads tags. Errors: model.ErrUnknownTag, ErrInvalidArgument for a row that
// cannot be used, *model.StoreError.
type TagReader interface {
	Tags(ctx context.Context) ([]model.Tag, error)
	Tag(ctx context.Context, name string) (model.Tag, error)
}

// TagWriter changes tags, as AppWriter apps. Errors: model.ErrUnknownTag,
// ErrTagExists, ErrInvalidArgument, ErrRefused, *model.StoreError.
type TagWriter interface {
	CreateTag(ctx context.Context, tag model.Tag) (model.Tag, error)
	ChangeTag(ctx context.Context, name string, change model.TagChange) (before, after model.Tag, err error)
	DeleteTag(ctx context.Context, name string) (model.Tag, error)
}

// Workers is the database's registry of worker IDs.
type Workers interface {
	// Free takes a worker ID from the address that has it. Errors:
	// model.ErrInvalidArgument, ErrRefused while it may be in use, *model.StoreError.
	Free(ctx context.Context, workerID int, address string) (model.WorkerEntry, error)
}

// Replica is a mode that this process serves.
type Replica interface {
	// Reload takes over what is stored. Errors: model.ErrNotReady, *model.StoreError,
	// or that of ctx.
	Reload(ctx context.Context) error
	// NextReload is when the replicas begin to read all anew after now.
	NextReload(now time.Time) time.Time
}
