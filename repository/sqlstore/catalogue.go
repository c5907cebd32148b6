package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

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
