package sqlstore

import (
	"fmt"
	"time"

	"shardid/model"
)

// The tables of the modes.
const (
	table           = "id_alloc" // of the queue mode, and of all functions that name none
	tagTable        = "leaf_alloc"
	layoutTable     = "id_layout"
	workerTable     = "leaf_workerid_alloc"
	nodeTable       = "WORKER_NODE" // in upper case, as Baidu's programs write it
	mutexTable      = "shardid_lock"
	deletedTable    = "id_alloc_deleted"
	deletedTagTable = "leaf_alloc_deleted"
)

// allocRow is a row of id_alloc. Numbers are as wide as the table's, so that a
// value out of range is seen and not cut off.
type allocRow struct {
	AppID       int64
	AppName     string
	MaxID       int64
	ShardID     int64
	Step        int64
	Description string
	MaxLimitID  int64
	LimitPolicy string
	CurrentStep int64
	AllocatedAt int64 // Unix ms; 0 before the first allocation
	DBServer    string
	DBBootedAt  int64 // Unix s
	ListHistory string
	LastMaxID   int64
	// Stored is the row's own max_id where MaxID was raised to what had been handed
	// out before the app was deleted; see lockLists.
	Stored int64 `gorm:"-"`
}

// TableName tells gorm the table.
func (allocRow) TableName() string { return table }

// config checks the row and gives its list. The error, model.ErrInvalidArgument,
// names the row: app 300 must not be taken for app 44.
func (r allocRow) config() (model.ListConfig, error) {
	key, err := model.NewListKey(r.AppID, r.ShardID)
	if err != nil {
		return model.ListConfig{}, r.bad(err)
	}
	policy, err := model.ParseLimitPolicy(r.LimitPolicy)
	if err != nil {
		return model.ListConfig{}, r.bad(err)
	}
	if err := r.checkNumbers(); err != nil {
		return model.ListConfig{}, r.bad(err)
	}
	return model.ListConfig{
		Key: key, AppName: r.AppName, MaxID: r.MaxID, Step: r.Step,
		CurrentStep: max(r.CurrentStep, r.Step),
		Limit:       model.Limit{MaxID: r.MaxLimitID, Policy: policy},
	}, nil
}

func (r allocRow) checkNumbers() error {
	switch {
	case r.Step < 1 || r.Step > model.MaxStep:
		return fmt.Errorf("%w: step %d is not in 1…%d", model.ErrInvalidArgument, r.Step, model.MaxStep)
	case r.MaxID < 0:
		return fmt.Errorf("%w: max_id %d is negative", model.ErrInvalidArgument, r.MaxID)
	case r.MaxLimitID < 0:
		return fmt.Errorf("%w: max_limit_id %d is negative", model.ErrInvalidArgument, r.MaxLimitID)
	}
	return nil
}

func (r allocRow) bad(err error) error {
	return fmt.Errorf("%s row (app_id %d, shard_id %d) cannot be used: %w", table, r.AppID, r.ShardID, err)
}

// state is what the next segment is chosen from.
func (r allocRow) state(c model.ListConfig) model.AllocState {
	s := model.AllocState{
		Key: c.Key, MaxID: r.MaxID, Step: r.Step, CurrentStep: r.CurrentStep, Limit: c.Limit,
		History: r.ListHistory, LastMaxID: r.LastMaxID,
	}
	if r.DBServer != "" {
		s.Server = model.Server{ID: r.DBServer, BootedAt: time.Unix(r.DBBootedAt, 0)}
	}
	if r.AllocatedAt > 0 {
		s.AllocatedAt = time.UnixMilli(r.AllocatedAt)
	}
	return s
}
