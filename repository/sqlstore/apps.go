package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/model/witness"
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
	LastMaxID   int64
	Counter     counterRow `gorm:"embedded"`
	// Buried is what had been handed out before the app was deleted, to which lockLists raises MaxID, and
	// Stored the row's own max_id.
	Buried int64 `gorm:"->"`
	Stored int64 `gorm:"-"`
}

// config checks the row and gives its list. The error, model.ErrInvalidArgument,
// names the row: app 300 must not be taken for app 44.
func (r allocRow) config() (model.ListConfig, error) {
	key, err := model.NewListKey(r.AppID, r.ShardID)
	policy, bad := model.ParseLimitPolicy(r.LimitPolicy)
	switch err = cmp.Or(err, bad); {
	case err != nil:
	case r.Step < 1 || r.Step > model.MaxStep:
		err = fmt.Errorf("step %d is not in 1…%d", r.Step, model.MaxStep)
	case r.MaxID < 0:
		err = fmt.Errorf("max_id %d is negative", r.MaxID)
	case r.MaxLimitID < 0:
		err = fmt.Errorf("max_limit_id %d is negative", r.MaxLimitID)
	}
	if err != nil {
		return model.ListConfig{}, fmt.Errorf("%w: %s row (app_id %d, shard_id %d) cannot be used: %w",
			model.ErrInvalidArgument, table, r.AppID, r.ShardID, err)
	}
	return model.ListConfig{
		Key: key, AppName: r.AppName, MaxID: r.MaxID, Step: r.Step,
		CurrentStep: max(r.CurrentStep, r.Step),
		Limit:       model.Limit{MaxID: r.MaxLimitID, Policy: policy},
	}, nil
}

// Load reads every list's configuration, ordered by app and shard. A row that
// cannot be used (out of range on a server that ignores CHECK, or of an unknown
// policy) is told to Options.OnBadRow, and is a list with an Err, or left out where it names
// none. Unconfirmed is told without asking the witness for marks, which could only lessen a
// doubt. Errors: *model.StoreError.
func (s *Store) Load(ctx context.Context) ([]model.ListConfig, error) {
	var (
		rows    []allocRow
		secrets map[int64]scrambleRow
		m       moment
	)
	const op = "load the lists"
	ctx, end := s.observe(ctx, op)
	err := s.gorm.WithContext(ctx).Table(table).Order("app_id, shard_id").Find(&rows).Error
	if err == nil {
		secrets, err = scrambled(s.gorm.WithContext(ctx))
	}
	if err == nil && s.server != nil {
		if m, err = s.readMoment(s.gorm.WithContext(ctx), ""); err == nil {
			err = m.readChanges(s.gorm.WithContext(ctx), 0)
		}
	}
	end(err)
	if err != nil {
		return nil, s.explain(op, err)
	}
	lists := make([]model.ListConfig, 0, len(rows))
	for _, row := range rows {
		list, err := row.config()
		if secret, is := secrets[row.AppID]; err == nil && is {
			list.Scramble = secret.ScrambleSecret
			err = cmp.Or(secret.check(), model.CheckScramble(list.Limit))
		}
		if err == nil {
			list.Unconfirmed = row.counted(&m).counter(&m).Unconfirmed(0,
				min(list.Limit.LastIndex(list.Key), s.opts.Region.MaxIndex()))
			lists = append(lists, list)
			continue
		}
		if s.opts.OnBadRow != nil {
			s.opts.OnBadRow(err)
		}
		if key, none := model.NewListKey(row.AppID, row.ShardID); none == nil {
			lists = append(lists, model.ListConfig{Key: key, AppName: row.AppName, Err: err})
		}
	}
	return lists, nil
}

// Apps lists the provisioned apps in order. Errors: *model.StoreError.
func (s *Store) Apps(ctx context.Context) ([]model.AppSummary, error) {
	apps, err := readSummaries(s.gorm.WithContext(ctx), "app_id BETWEEN 0 AND ?", model.Apps-1)
	return apps, s.explain("list the apps", err)
}

// readSummaries groups the rows of a condition by their apps. What the shards of an app share is the same in each of
// its rows, but for a table of another program, where some may have a limit.
func readSummaries(g *gorm.DB, where string, arg any) (apps []model.AppSummary, err error) {
	var rows []allocRow
	if err := g.Table(table).Where(where, arg).Order("app_id, shard_id").Find(&rows).Error; err != nil {
		return nil, err
	}
	scrambled, err := scrambled(g.Session(&gorm.Session{NewDB: true}))
	for i, r := range rows {
		if i == 0 || r.AppID != rows[i-1].AppID {
			_, isScrambled := scrambled[r.AppID]
			apps = append(apps, model.AppSummary{App: model.App{
				ID: uint8(r.AppID), Name: r.AppName, Description: r.Description, Step: r.Step,
				Limit:    model.Limit{MaxID: r.MaxLimitID, Policy: model.LimitPolicy(r.LimitPolicy)},
				Scramble: isScrambled,
			}})
		}
		a := &apps[len(apps)-1]
		a.MixedLimits = a.MixedLimits || a.Limit.MaxID != r.MaxLimitID
		a.Limit.MaxID = max(a.Limit.MaxID, r.MaxLimitID)
		// An app of which some shards reject counts as one that rejects: a switch to wrap asks to be confirmed.
		a.Limit.Policy = min(a.Limit.Policy, model.LimitPolicy(r.LimitPolicy))
		a.Step = min(a.Step, r.Step)
		a.Shards, a.HighestIndex, a.TotalIndices = a.Shards+1, max(a.HighestIndex, r.MaxID), a.TotalIndices+r.MaxID
	}
	return apps, err
}

// App reads one app. Errors: model.ErrUnknownApp, *model.StoreError.
func (s *Store) App(ctx context.Context, id uint8) (model.AppSummary, error) {
	app, err := oneApp(s.gorm.WithContext(ctx), id)
	return app, s.answer(ctx, "read an app", err)
}

func oneApp(g *gorm.DB, id uint8) (model.AppSummary, error) {
	apps, err := readSummaries(g, "app_id = ?", id)
	return oneRow(apps, err, model.UnknownApp(id))
}

// CreateApp makes the shards of an app, all or none, and answers what it made, and where it
// begins: an app that was deleted before continues above what it had issued, and one that the
// database may lack above that. Errors: model.ErrInvalidArgument, model.ErrExists when the app
// has any shard, model.ErrRefused for a limit below IDs of a deleted app and for one that was
// scrambled and shall not be, or the reverse, *model.StoreError.
func (s *Store) CreateApp(ctx context.Context, app model.App) (summary model.AppSummary, err error) {
	op := fmt.Sprintf("provision app %d", app.ID)
	if err := cmp.Or(app.Validate(), model.CheckText(app.Name, app.Description), app.CheckNewLimit(),
		s.opts.Region.Refuses(app.Limit)); err != nil {
		return summary, err
	}
	// Nobody asks for its lists meanwhile, or deletes them.
	err = s.inMoment(ctx, op, []need{toOwn, toDecide}, func(tx *gorm.DB, m *moment) error {
		reqs := wholeApp(app.ID)
		graves, err := query[[]struct{ ShardID, MaxID int64 }](tx, "read what was issued before a deletion",
			"SELECT shard_id, max_id FROM "+deletedTable+" WHERE app_id = ? AND shard_id < ?", app.ID, model.Shards)
		if err != nil {
			return err
		}
		var before [model.Shards]int64
		for _, grave := range graves {
			before[grave.ShardID] = grave.MaxID
		}
		// A new row accounts for no change of the server, as the database may lack another of the ID.
		rows, counted := make([]allocRow, len(reqs)), make([]countedRow, len(reqs))
		for i := range reqs {
			rows[i] = allocRow{
				AppID: int64(app.ID), AppName: app.Name, ShardID: int64(i), Step: app.Step, MaxID: before[i],
				Description: app.Description, MaxLimitID: app.Limit.MaxID, LimitPolicy: string(app.Limit.Policy),
			}
			counted[i] = rows[i].counted(m)
		}
		if err := tx.Table(table).Create(&rows).Error; err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		counters, marks, err := s.readCounters(tx, m, counted)
		if err != nil {
			return err
		}
		summary = model.AppSummary{App: app, Shards: model.Shards}
		for i, req := range reqs {
			c := counters[i].Raise(marks[i])
			if err := app.Limit.Check(req.Key, c.Last); err != nil {
				return err
			}
			summary.HighestIndex = max(summary.HighestIndex, min(c.Last+c.Doubt, model.MaxIndex))
			summary.TotalIndices += c.Last
		}
		return keepScramble(tx, summary, len(graves) > 0)
	})
	if isDuplicate(err) {
		err = fmt.Errorf("%w: %w: app %d", model.Do("leave it, by --if-missing if it is the same, or change it with "+
			"`shardid apps set --app %d`", app.ID), model.ErrExists, app.ID)
		if there, readErr := s.App(ctx, app.ID); readErr == nil {
			err = fmt.Errorf("%w has %d of %d shards, name %q", err, there.Shards, model.Shards, there.Name)
		}
	}
	if err != nil {
		return model.AppSummary{}, s.answer(ctx, op, err)
	}
	return summary, nil
}

// wholeApp names all lists of an app.
func wholeApp(app uint8) []model.AllocRequest {
	reqs := make([]model.AllocRequest, model.Shards)
	for shard := range reqs {
		reqs[shard].Key = model.ListKey{App: app, Shard: uint8(shard)}
	}
	return reqs
}

// lockApp locks the lists of an app and reads it.
func (s *Store) lockApp(tx *gorm.DB, id uint8) (rows map[model.ListKey]allocRow, app model.AppSummary, err error) {
	if rows, err = s.lockLists(tx, wholeApp(id)); err == nil {
		app, err = oneApp(tx, id)
	}
	return rows, app, err
}

// ChangeApp changes what all shards of an app share, and raises their max_id to
// change.MinIndex, in one transaction under their locks. It answers the app as it was
// and as it is. Errors: model.ErrUnknownApp, ErrInvalidArgument, ErrRefused,
// *model.StoreError.
func (s *Store) ChangeApp(
	ctx context.Context, id uint8, change model.AppChange,
) (before, after model.AppSummary, err error) {
	op := fmt.Sprintf("change app %d", id)
	err = s.inMoment(ctx, op, []need{toShare}, func(tx *gorm.DB, m *moment) error {
		rows, app, err := s.lockApp(tx, id)
		if before = app; err != nil {
			return err
		}
		// Rows as they are: those that cannot be used are what the change may be for.
		lists := make([]model.ListConfig, 0, len(rows))
		for key, row := range rows {
			limit := model.Limit{MaxID: row.MaxLimitID, Policy: model.LimitPolicy(row.LimitPolicy)}
			lists = append(lists, model.ListConfig{Key: key, MaxID: row.MaxID, Limit: limit})
		}
		next, err := change.Apply(before.App, lists)
		if most := s.opts.Region.MaxIndex(); change.MinIndex != nil && *change.MinIndex >= most {
			err = fmt.Errorf("%w: leave the region out of `minIndex`, which must be in 0…%d, not %d",
				model.ErrInvalidArgument, most-1, *change.MinIndex)
		}
		if err := cmp.Or(err, s.opts.Region.Refuses(next.Limit)); err != nil {
			return err
		}
		if sets, args := changes(next, change); len(sets) > 0 {
			sql := "UPDATE " + table + " SET " + strings.Join(sets, ", ") +
				", update_time = CURRENT_TIMESTAMP WHERE app_id = ?"
			if err := write(tx, "store", sql, append(args, id)...); err != nil {
				return err
			}
		}
		if change.MinIndex != nil { // a copy that lacks it must not walk into it
			marks := make([]witness.Mark, 0, len(rows))
			for key := range rows {
				marks = append(marks, witness.Mark{Counter: listCounter(key), Value: *change.MinIndex})
			}
			if err := s.raiseMarks(ctx, m, marks, nil); err != nil {
				return err
			}
		}
		after, err = oneApp(tx, id)
		return err
	})
	return before, after, s.answer(ctx, op, err)
}

// changes are the SET clauses of what is to change and no others: an operator may have
// given shards values of their own.
func changes(next model.App, change model.AppChange) (sets []string, args []any) {
	add := func(given bool, set string, values ...any) {
		if given {
			sets, args = append(sets, set), append(args, values...)
		}
	}
	add(change.Name != nil, "app_name = ?", next.Name)
	add(change.Description != nil, "description = ?", next.Description)
	add(change.Step != nil, "step = ?", next.Step)
	add(change.MaxLimitID != nil, "max_limit_id = ?", next.Limit.MaxID)
	add(change.LimitPolicy != nil, "limit_policy = ?", string(next.Limit.Policy))
	add(change.MinIndex != nil, "max_id = CASE WHEN max_id < ? THEN ? ELSE max_id END",
		change.MinIndex, change.MinIndex)
	return sets, args
}

// DeleteApp removes all rows of the app whose name is confirmed, and remembers in the
// same transaction what each shard had issued, so that the app continues above that
// should it come back. It answers what was deleted. Errors: model.ErrUnknownApp,
// ErrInvalidArgument for another name, ErrRefused while it is not known what they had issued,
// *model.StoreError.
func (s *Store) DeleteApp(ctx context.Context, id uint8, name string) (model.AppSummary, error) {
	op, needs := fmt.Sprintf("delete app %d", id), []need{toOwn, toDecide}
	return withMoment(ctx, s, op, needs, func(tx *gorm.DB, m *moment) (model.AppSummary, error) {
		rows, app, err := s.lockApp(tx, id)
		if err == nil && name != app.Name {
			err = fmt.Errorf("%w: confirm the deletion with the app's name, %q", model.ErrInvalidArgument,
				app.Name)
		}
		if err != nil {
			return app, err
		}
		counted, lists, _ := countLists(rows, m, wholeApp(id))
		counters, marks, err := s.readCounters(tx, m, counted)
		if err != nil {
			return app, err
		}
		for i, l := range lists { // what a list may have issued without its row's knowledge counts, too
			lists[i].Floor, err = highestIssued(counters[i], marks[i], model.MaxIndex,
				"indices of list "+l.Key.String(), fmt.Sprintf("--app %d --name %q", id, app.Name))
			if err != nil {
				return app, err
			}
		}
		if err := s.buryLists(tx, lists); err != nil {
			return app, err
		}
		return app, write(tx, "delete the rows", "DELETE FROM "+table+" WHERE app_id = ?", id)
	})
}

// ConfirmApp ends the doubts about an app's lists: the caller says that max_id of
// each is right. name must be the app's, so that no other one is confirmed. It gives
// how many lists waited for it, and changes nothing when none did. Errors:
// model.ErrUnknownApp, ErrInvalidArgument for another name, *model.StoreError.
func (s *Store) ConfirmApp(ctx context.Context, app uint8, name string) (int64, error) {
	op, needs := fmt.Sprintf("confirm app %d", app), []need{toShare, toDecide}
	return withMoment(ctx, s, op, needs, func(tx *gorm.DB, m *moment) (int64, error) {
		lists, _, err := s.raiseLists(tx, m, wholeApp(app), true)
		if err != nil {
			return 0, err
		}
		found, err := oneApp(tx, app)
		if err == nil && found.Name != name {
			err = fmt.Errorf("%w: confirm it with the app's name, %q", model.ErrInvalidArgument, found.Name)
		}
		return lists, err
	})
}
