package uid

import (
	"context"

	"shardid/model"
)

// Nodes gives worker IDs to starts. Safe for concurrent use, over processes too.
type Nodes interface {
	// RegisterNode gets a worker ID for a start and stores its MarkSecond. Called
	// again with the same token it returns the same node, so a call whose answer
	// was lost may be repeated. Errors: model.ErrNoWorkerID, *model.StoreError.
	RegisterNode(ctx context.Context, start model.NodeStart) (model.Node, error)
	// MarkNode raises the highest Unix second that the node may issue, durably.
	// Errors: model.ErrLeaseLost when the row is gone or another's;
	// *model.StoreError when it is not known whether the mark was raised.
	MarkNode(ctx context.Context, node model.Node, until int64) error
}

// Reporter is told how something that is tried again and again went: nil when it
// works. It must not block.
type Reporter interface {
	Report(condition string, err error)
}

// The conditions that the service reports.
const (
	ConditionNode = "uid node" // getting a worker ID
	ConditionMark = "uid mark" // raising the mark of the seconds that may be issued
	ConditionFill = "uid fill" // filling the ring
)
