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
	claimTable      = "shardid_worker_claim"
	nodeTable       = "WORKER_NODE" // in upper case, as Baidu's programs write it
	mutexTable      = "shardid_lock"
	deploymentTable = "shardid_deployment"
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
	TakenAt     int64 // Unix ms; 0 before the first allocation
	ListHistory string
	LastMaxID   int64
	Doubt       int64
	Tokens      int64
	MaxRate     int64 // 0: as all lists
	RateFrom    int64 // when MaxRate counts, Unix ms
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
		History:     r.ListHistory, Doubt: r.Doubt,
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

// state is what the next segment is chosen from at that moment.
func (r allocRow) state(c model.ListConfig, m moment, rate int64) model.AllocState {
	return model.AllocState{
		Counter: model.Counter{
			Last: r.MaxID, Rate: rateOf(rate, r.MaxRate, r.RateFrom, r.Step, m), Tokens: r.Tokens, At: atMilli(r.TakenAt),
			Doubt: r.Doubt, JumpFrom: time.UnixMilli(m.JumpFrom), Life: r.ListHistory,
		},
		Key: c.Key, Step: r.Step, CurrentStep: r.CurrentStep, LastMaxID: r.LastMaxID, Limit: c.Limit,
	}
}

// rateOf is the highest rate of a counter: its own once that counts, else the common
// one, but always a step a second. 0, a file's, is no bound.
func rateOf(common, own, from, step int64, m moment) int64 {
	if common == 0 {
		return 0
	}
	rate := common
	if own > 0 {
		rate = own
		if m.Now < from {
			rate = min(own, common)
		}
	}
	return max(rate, step)
}

// atMilli is zero for 0.
func atMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
