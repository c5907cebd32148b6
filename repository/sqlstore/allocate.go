package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"shardid/model"
)

// Allocate takes the next segment for each request, in one transaction under
// the rows' locks, and answers in the order of the requests, which name distinct
// lists. A list without a row gets model.ErrUnknownShard, one without an index
// left model.ErrLimitReached, and the others still get theirs. When the
// transaction fails, or its COMMIT is not acknowledged, every answer is a
// *model.StoreError and the segments are never issued. Safe for concurrent use,
// over processes too; 64 requests are one SELECT and one UPDATE.
func (s *Store) Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	const op = "allocate"
	if len(reqs) == 0 {
		return nil
	}
	var out []model.Allocation
	err := s.inMoment(ctx, op, []need{toShare, toTake}, func(tx *gorm.DB, m *moment) (err error) {
		out, err = s.takeLists(tx, m, reqs)
		return err
	})
	if err != nil {
		return slices.Repeat([]model.Allocation{{Err: s.answer(ctx, op, err)}}, len(reqs))
	}
	return out
}

func (s *Store) takeLists(tx *gorm.DB, m *moment, reqs []model.AllocRequest) ([]model.Allocation, error) {
	rows, err := s.lockLists(tx, reqs)
	if err != nil {
		return nil, err
	}
	out := make([]model.Allocation, len(reqs))
	var of []int // the places of the requests that have a row that can be used
	var locked []allocRow
	var lists []model.ListConfig
	var counted []countedRow
	for i, req := range reqs {
		row, found := rows[req.Key]
		delete(rows, req.Key) // a second request for the list must not get the same segment
		if !found {
			out[i].Err = fmt.Errorf("%w: %w: list %s",
				model.Do("add its row to "+table), model.ErrUnknownShard, req.Key)
			continue
		}
		list, err := row.config()
		if err != nil {
			out[i].Err = err
			continue
		}
		of, locked, lists = append(of, i), append(locked, row), append(lists, list)
		counted = append(counted, row.counted(m))
	}
	_, err = s.take(tx, m, s.listStorage(), counted, func(
		at int, c model.Counter, mark int64,
	) (model.Counter, bool, error) {
		row, list, req, answer := locked[at], lists[at], reqs[of[at]], &out[of[at]]
		req.Mark, req.Changed = mark, m.Changes > row.Counter.LastChange
		state := model.AllocState{
			Counter: c, Key: list.Key, Step: row.Step, CurrentStep: row.CurrentStep, LastMaxID: row.LastMaxID,
			Limit: list.Limit, Region: m.region,
		}
		allocation, next, err := state.Next(req, m.now)
		if *answer = allocation; err != nil { // of this list alone
			answer.Err = howToConfirm(err, "index", fmt.Sprintf("--app %d --name %q", list.Key.App, list.AppName))
			return c, false, nil
		}
		counted[at].further = func(model.Counter) []any { return []any{next.LastMaxID, next.CurrentStep} }
		return next.Counter, true, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) listStorage() storage {
	return storage{
		table:   table + s.primaryKey(),
		key:     fmt.Sprintf("app_id * %d + shard_id", model.Shards),
		as:      "(app_id = ? AND shard_id = ? AND max_id = ?)",
		counter: counterColumns(), further: []string{"last_max_id", "current_step"},
		always: ", update_time = CURRENT_TIMESTAMP",
	}
}

func (r allocRow) counted(m *moment) countedRow {
	key := model.ListKey{App: uint8(r.AppID), Shard: uint8(r.ShardID)}
	row := m.listCounted(r.Counter, r.MaxID, listCounter(key))
	row.key, row.as = r.AppID*model.Shards+r.ShardID, []any{r.AppID, r.ShardID, r.Stored}
	row.further = func(model.Counter) []any { return []any{r.LastMaxID, r.CurrentStep} }
	return row
}

// countLists gives the locked rows of lists, the lists that have one, and those that are gone.
func countLists(
	rows map[model.ListKey]allocRow, m *moment, reqs []model.AllocRequest,
) (counted []countedRow, there, gone []model.AllocRequest) {
	for _, req := range reqs {
		if row, found := rows[req.Key]; found {
			counted, there = append(counted, row.counted(m)), append(there, req)
		} else {
			gone = append(gone, req)
		}
	}
	return counted, there, gone
}

// raiseLists is raise for lists. Those without a row are gone.
func (s *Store) raiseLists(
	tx *gorm.DB, m *moment, reqs []model.AllocRequest, confirmed bool,
) (raised int64, gone []model.AllocRequest, err error) {
	rows, err := s.lockLists(tx, reqs)
	if err != nil {
		return 0, nil, err
	}
	counted, _, gone := countLists(rows, m, reqs)
	raised, err = s.raise(tx, m, s.listStorage(), counted, confirmed)
	return raised, gone, err
}

// listCounter is the name of a list at the witness.
func listCounter(k model.ListKey) string { return "l:" + k.String() }

// lockLists reads the latest committed rows and locks them, in the order of the
// primary key so that two transactions cannot wait for each other. max_id is raised to the tombstones: a row that
// was inserted by hand, or restored, may have less than was issued before the deletion.
func (s *Store) lockLists(tx *gorm.DB, reqs []model.AllocRequest) (map[model.ListKey]allocRow, error) {
	var found []allocRow
	err := tx.Table(table + s.primaryKey()).Clauses(clause.Locking{Strength: "UPDATE"}).
		Joins("LEFT JOIN " + deletedTable + " AS d USING (app_id, shard_id)").
		Select("app_id, app_name, " + table + ".max_id, shard_id, step, max_limit_id, limit_policy, current_step, " +
			"taken_at, last_max_id, doubt, last_change, tokens, d.max_id AS buried").
		Where(whereKeys(reqs)).Order("app_id, shard_id").Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("lock rows: %w", err)
	}
	rows := make(map[model.ListKey]allocRow, len(found))
	for _, row := range found {
		row.Stored, row.MaxID = row.MaxID, max(row.MaxID, row.Buried)
		rows[model.ListKey{App: uint8(row.AppID), Shard: uint8(row.ShardID)}] = row
	}
	return rows, nil
}

// whereKeys is one condition for each app.
func whereKeys(reqs []model.AllocRequest) clause.Expression {
	shards := map[uint8][]uint16{} // not []uint8, which would be a blob
	for _, r := range reqs {
		shards[r.Key.App] = append(shards[r.Key.App], uint16(r.Key.Shard))
	}
	var or []clause.Expression
	for app, list := range shards {
		or = append(or, clause.Expr{SQL: "(app_id = ? AND shard_id IN ?)", Vars: []any{app, list}})
	}
	return clause.Or(or...)
}
