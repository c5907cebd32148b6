package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"shardid/model"
)

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
	if err := cmp.Or(app.Validate(), model.CheckText(app.Name, app.Description)); err != nil {
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
