package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"shardid/model"
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

// Load reads every list's configuration, ordered by app and shard. A row that
// cannot be used (out of range on a server that ignores CHECK, or of an unknown
// policy) is left out and told to Options.OnBadRow. Errors: *model.StoreError.
func (s *Store) Load(ctx context.Context) ([]model.ListConfig, error) {
	var rows []allocRow
	if err := s.query(ctx).Order("app_id, shard_id").Find(&rows).Error; err != nil {
		return nil, s.explain("load the lists", err)
	}
	lists := make([]model.ListConfig, 0, len(rows))
	for _, row := range rows {
		list, err := row.config()
		if err == nil {
			lists = append(lists, list)
		} else if s.opts.OnBadRow != nil {
			s.opts.OnBadRow(err)
		}
	}
	return lists, nil
}

// Provision creates the shards of an app, all or none; one that was deleted before
// goes on above what it had handed out. Errors: model.ErrInvalidArgument,
// model.ErrAppExists when the app has any shard, model.ErrRefused for a limit below
// IDs of a deleted app, *model.StoreError.
func (s *Store) Provision(ctx context.Context, app model.App) error {
	_, err := s.CreateApp(ctx, app)
	return err
}

func appRows(app model.App) []allocRow {
	rows := make([]allocRow, model.Shards)
	for shard := range rows {
		rows[shard] = allocRow{
			AppID: int64(app.ID), AppName: app.Name, ShardID: int64(shard), Step: app.Step,
			Description: app.Description, MaxLimitID: app.Limit.MaxID, LimitPolicy: string(app.Limit.Policy),
		}
	}
	return rows
}

func insertRows(tx *gorm.DB, rows []allocRow) error {
	if err := tx.Create(&rows).Error; err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return nil
}

// appExists says what stands in the way.
func (s *Store) appExists(ctx context.Context, id uint8) error {
	apps, err := s.summaries(ctx, "app_id = ?", id)
	if err != nil || len(apps) != 1 {
		return errors.Join(fmt.Errorf("%w: app %d", model.ErrAppExists, id), err)
	}
	return fmt.Errorf("%w: app %d already has %d of %d shards, name %q",
		model.ErrAppExists, id, apps[0].Shards, model.Shards, apps[0].Name)
}

// Apps lists the provisioned apps in order. Errors: *model.StoreError.
func (s *Store) Apps(ctx context.Context) ([]model.AppSummary, error) {
	return s.summaries(ctx, "app_id BETWEEN 0 AND ?", model.Apps-1)
}

// summaryRow is a group of rows; what the shards of an app share is the same in
// each of them.
type summaryRow struct {
	Row     allocRow `gorm:"embedded"`
	Shards  int
	Highest int64
	Total   int64
}

func (s *Store) summaries(ctx context.Context, where string, arg any) ([]model.AppSummary, error) {
	apps, err := readSummaries(s.query(ctx), where, arg)
	if err != nil {
		return nil, s.explain("list the apps", err)
	}
	return apps, nil
}

func readSummaries(g *gorm.DB, where string, arg any) ([]model.AppSummary, error) {
	var rows []summaryRow
	err := g.Table(table).Where(where, arg).Group("app_id").Order("app_id").
		Select("app_id, MIN(app_name) AS app_name, MIN(description) AS description, MIN(step) AS step, " +
			"MIN(max_limit_id) AS max_limit_id, MIN(limit_policy) AS limit_policy, " +
			"COUNT(*) AS shards, MAX(max_id) AS highest, SUM(max_id) AS total").Find(&rows).Error
	if err != nil {
		return nil, err
	}
	apps := make([]model.AppSummary, len(rows))
	for i, r := range rows {
		apps[i] = model.AppSummary{
			App: model.App{
				ID: uint8(r.Row.AppID), Name: r.Row.AppName, Description: r.Row.Description, Step: r.Row.Step,
				Limit: model.Limit{MaxID: r.Row.MaxLimitID, Policy: model.LimitPolicy(r.Row.LimitPolicy)},
			},
			Shards: r.Shards, HighestIndex: r.Highest, TotalIndices: r.Total,
		}
	}
	return apps, nil
}

// App reads one app. Errors: model.ErrUnknownApp, *model.StoreError.
func (s *Store) App(ctx context.Context, id uint8) (model.AppSummary, error) {
	app, err := oneApp(s.query(ctx), id)
	if err != nil {
		return app, s.answer(ctx, "read an app", err)
	}
	return app, nil
}

func oneApp(g *gorm.DB, id uint8) (model.AppSummary, error) {
	apps, err := readSummaries(g, "app_id = ?", id)
	switch {
	case err != nil:
		return model.AppSummary{}, err
	case len(apps) == 0:
		return model.AppSummary{}, unknownApp(id)
	}
	return apps[0], nil
}

func unknownApp(id uint8) error { return fmt.Errorf("%w: app %d", model.ErrUnknownApp, id) }

// CreateApp is Provision that says what it made: an app that was deleted before goes
// on above what it had handed out. Errors: those of Provision.
func (s *Store) CreateApp(ctx context.Context, app model.App) (summary model.AppSummary, err error) {
	op := fmt.Sprintf("provision app %d", app.ID)
	if err := app.Validate(); err != nil {
		return summary, fmt.Errorf("%s: %w", op, err)
	}
	err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
		if err := insertRows(tx, appRows(app)); err != nil {
			return err
		}
		summary, err = resume(tx, app)
		return err
	})
	switch {
	case isDuplicate(err):
		return model.AppSummary{}, s.appExists(ctx, app.ID)
	case err != nil:
		return model.AppSummary{}, s.answer(ctx, op, err)
	}
	return summary, nil
}

// ChangeApp changes what all shards of an app share, and raises their max_id to
// change.MinIndex, in one transaction under their locks. It answers the app as it was
// and as it is. Errors: model.ErrUnknownApp, ErrInvalidArgument, ErrRefused,
// *model.StoreError.
func (s *Store) ChangeApp(ctx context.Context, id uint8, change model.AppChange) (before, after model.AppSummary, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
		before, after, err = s.changeApp(tx, id, change)
		return err
	})
	if err != nil {
		return before, before, s.answer(ctx, fmt.Sprintf("change app %d", id), err)
	}
	return before, after, nil
}

func (s *Store) changeApp(tx *gorm.DB, id uint8, change model.AppChange) (before, after model.AppSummary, err error) {
	rows, err := s.lockLists(tx, wholeApp(id))
	if err != nil {
		return before, after, err
	}
	if before, err = oneApp(tx, id); err != nil {
		return before, after, err
	}
	next, err := change.Apply(before.App, limits(rows))
	if err != nil {
		return before, after, err
	}
	if sql, args := changeSQL(id, next, change, s.rateFrom()); sql != "" {
		if err := tx.Exec(sql, args...).Error; err != nil {
			return before, after, fmt.Errorf("store: %w", err)
		}
	}
	after, err = oneApp(tx, id)
	return before, after, err
}

// limits says how far each list has come and may go. It takes rows as they are: those
// that cannot be used are what the change may be for.
func limits(rows map[model.ListKey]allocRow) []model.ListConfig {
	lists := make([]model.ListConfig, 0, len(rows))
	for key, row := range rows {
		limit := model.Limit{MaxID: row.MaxLimitID, Policy: model.LimitPolicy(row.LimitPolicy)}
		lists = append(lists, model.ListConfig{Key: key, MaxID: row.MaxID, Limit: limit})
	}
	return lists
}

// rateFrom is SQL for the moment from which on a rate counts that is stored now, Unix
// ms.
func (s *Store) rateFrom() string {
	if s.server == nil {
		return "0"
	}
	return fmt.Sprintf("TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 + %d", model.RaiseDelay.Milliseconds())
}

// changeSQL sets only what is to change: an operator may have given shards values of
// their own. Empty when there is nothing.
func changeSQL(id uint8, next model.App, change model.AppChange, rateFrom string) (string, []any) {
	var sets []string
	var args []any
	add := func(set string, values ...any) {
		sets, args = append(sets, set), append(args, values...)
	}
	if change.Name != nil {
		add("app_name = ?", next.Name)
	}
	if change.Description != nil {
		add("description = ?", next.Description)
	}
	if change.Step != nil {
		add("step = ?", next.Step)
	}
	if change.MaxLimitID != nil {
		add("max_limit_id = ?", next.Limit.MaxID)
	}
	if change.LimitPolicy != nil {
		add("limit_policy = ?", string(next.Limit.Policy))
	}
	if change.MinIndex != nil {
		add("max_id = CASE WHEN max_id < ? THEN ? ELSE max_id END", *change.MinIndex, *change.MinIndex)
	}
	if change.MaxRate != nil {
		add("max_rate = ?, rate_from = "+rateFrom, *change.MaxRate)
	}
	if len(sets) == 0 {
		return "", nil
	}
	return "UPDATE " + table + " SET " + strings.Join(sets, ", ") + ", update_time = CURRENT_TIMESTAMP WHERE app_id = ?", append(args, id)
}

// DeleteApp removes all rows of the app whose name is confirmed, and remembers in the
// same transaction what each shard had handed out, so that the app goes on above that
// should it come back. It answers what was deleted. Errors: model.ErrUnknownApp,
// ErrInvalidArgument for another name, *model.StoreError.
func (s *Store) DeleteApp(ctx context.Context, id uint8, name string) (deleted model.AppSummary, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
		deleted, err = s.deleteApp(tx, id, name)
		return err
	})
	if err != nil {
		return deleted, s.answer(ctx, fmt.Sprintf("delete app %d", id), err)
	}
	return deleted, nil
}

func (s *Store) deleteApp(tx *gorm.DB, id uint8, name string) (model.AppSummary, error) {
	rows, err := s.lockLists(tx, wholeApp(id))
	if err != nil {
		return model.AppSummary{}, err
	}
	app, err := oneApp(tx, id)
	switch {
	case err != nil:
		return app, err
	case name != app.Name:
		return app, fmt.Errorf("%w: confirm the deletion with the app's name, which is %q", model.ErrInvalidArgument, app.Name)
	}
	if err := bury(tx, id, rows); err != nil {
		return app, err
	}
	if err := tx.Exec("DELETE FROM "+table+" WHERE app_id = ?", id).Error; err != nil {
		return app, fmt.Errorf("delete the rows: %w", err)
	}
	return app, nil
}

// ConfirmApp ends the doubts about an app's lists: whoever calls it says that max_id of
// each is right. name must be the app's, so that nobody confirms another one. It gives
// how many lists waited for it, and changes nothing when none did. Errors:
// model.ErrUnknownApp, ErrInvalidArgument for another name, *model.StoreError.
func (s *Store) ConfirmApp(ctx context.Context, app uint8, name string) (lists int64, err error) {
	return s.confirm(ctx, fmt.Sprintf("confirm app %d", app), func(tx *gorm.DB) (int64, error) {
		found, err := oneApp(tx, app)
		switch {
		case err != nil:
			return 0, err
		case found.Name != name:
			return 0, fmt.Errorf("%w: confirm it with the app's name, which is %q", model.ErrInvalidArgument, found.Name)
		}
		res := tx.Exec("UPDATE "+table+" SET doubt = 0, list_history = '', update_time = CURRENT_TIMESTAMP WHERE app_id = ? AND doubt > 0", app)
		return res.RowsAffected, res.Error
	})
}
