package segment

import (
	"context"

	"shardid/model"
)

// Table is leaf_alloc. Safe for concurrent use, over processes too.
type Table interface {
	// AllocateTag takes the next segment of a tag, as model.TagRequest.Next
	// chooses it, in one transaction: a segment is returned only when it is
	// committed for sure. After an error it may have been committed and must not
	// be used. Errors: model.ErrUnknownTag, ErrLimitReached, ErrInvalidArgument
	// for a row that cannot be used, *model.StoreError.
	AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error)
	// Tags reads all rows, as they are committed. Errors: *model.StoreError.
	Tags(ctx context.Context) ([]model.Tag, error)
}

// Reporter is told how something that is tried again and again went: nil when it
// works. It must not block.
type Reporter interface {
	Report(condition string, err error)
}

// The conditions that the service reports.
const (
	ConditionLoad   = "segment load"
	ConditionReload = "segment reload"
)
