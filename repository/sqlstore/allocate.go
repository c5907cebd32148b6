package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"shardid/model"
)

// Allocate takes the next segment for each request, in one transaction under
// the rows' locks, and answers in the order of the requests, which name distinct
// lists. A list without a row gets model.ErrUnknownShard, one without an index
// left model.ErrLimitReached, and the others still get theirs. When the
// transaction fails, or its COMMIT is not acknowledged, every answer is a
// *model.StoreError and the segments are never handed out. Safe for concurrent use,
// over processes too; 64 requests are one SELECT and one UPDATE.
func (s *Store) Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	return s.change(ctx, "allocate", reqs, model.AllocState.Next)
}

// choice is what becomes of a row; its error is that of the one list.
type choice func(state model.AllocState, req model.AllocRequest, now time.Time) (model.Allocation, model.AllocState, error)

// change locks the rows of the requests, lets choose decide about each, and stores that.
func (s *Store) change(ctx context.Context, op string, reqs []model.AllocRequest, choose choice) []model.Allocation {
	if len(reqs) == 0 {
		return nil
	}
	var out []model.Allocation
	err := s.inTx(ctx, op, func(tx *gorm.DB) error {
		m, err := s.moment(tx, toShare, toTake)
		if err == nil {
			out, err = s.changeRows(tx, m, reqs, choose)
		}
		return err
	})
	if err != nil {
		return slices.Repeat([]model.Allocation{{Err: s.fail(ctx, op, err)}}, len(reqs))
	}
	return out
}

func (s *Store) changeRows(tx *gorm.DB, m moment, reqs []model.AllocRequest, choose choice) ([]model.Allocation, error) {
	rows, err := s.lockLists(tx, reqs)
	if err != nil {
		return nil, err
	}
	known, err := s.marks(tx.Statement.Context, m, listCounters(reqs))
	if err != nil {
		return nil, err
	}
	if err := m.readChanges(tx, oldestChange(rows)); err != nil {
		return nil, err
	}
	out := make([]model.Allocation, len(reqs))
	var changes []change
	var marks []model.Mark
	var before []int64
	for i, req := range reqs {
		row, found := rows[req.Key]
		delete(rows, req.Key) // a second request for the list must not get the same segment
		if !found {
			out[i].Err = fmt.Errorf("%w: list %s", model.ErrUnknownShard, req.Key)
			continue
		}
		cfg, err := row.config()
		if err != nil {
			out[i].Err = err
			continue
		}
		if mark := known[i]; mark > req.Floor {
			if m.Changes <= row.Counter.LastChange {
				req.Uncommitted = mark - req.Floor
			}
			req.Floor = mark
		}
		state := row.state(&m, cfg)
		allocation, next, err := choose(state, req, m.now)
		if errors.Is(err, model.ErrUnconfirmed) {
			err = fmt.Errorf("%w: if it was restored, raise max_id above the highest index in use; then run `shardid confirm --app %d --name %q`", err, cfg.Key.App, cfg.AppName)
		}
		out[i], out[i].Err = allocation, err
		if err == nil && (next != state || row.Stored != row.MaxID) {
			changes = append(changes, change{key: req.Key, old: row.Stored, accounts: m.Changes, next: next})
			marks = append(marks, model.Mark{Counter: listCounter(req.Key), Value: next.Last})
			before = append(before, known[i])
		}
	}
	if err := s.raise(tx.Statement.Context, m, marks, before); err != nil {
		return nil, err
	}
	return out, storeChanges(tx, changes)
}

// state is what the row says at that moment of its list.
func (r allocRow) state(m *moment, cfg model.ListConfig) model.AllocState {
	return model.AllocState{
		Counter: r.Counter.counter(m, r.MaxID, m.listRate, listRate, true),
		Key:     cfg.Key, Step: r.Step, CurrentStep: r.CurrentStep, LastMaxID: r.LastMaxID, Limit: cfg.Limit, Region: m.region,
	}
}

// listCounter is the name of a list at the witness.
func listCounter(k model.ListKey) string { return "l:" + k.String() }

func listCounters(reqs []model.AllocRequest) []string {
	names := make([]string, len(reqs))
	for i, r := range reqs {
		names[i] = listCounter(r.Key)
	}
	return names
}

// oldestChange is the least change that one of the rows accounts for.
func oldestChange(rows map[model.ListKey]allocRow) int64 {
	oldest := int64(math.MaxInt64)
	for _, row := range rows {
		oldest = min(oldest, row.Counter.LastChange)
	}
	return oldest
}

// lockLists reads the latest committed rows and locks them, in the order of the
// primary key so that two transactions cannot wait for each other. As the first
// statement it sees the latest rows under every isolation level. MySQL would scan, and
// lock, the whole of a small table without the index. SQLite's lock was taken by
// BEGIN; its dialect leaves FOR UPDATE out. max_id is raised to the tombstones: a row that
// was inserted by hand, or restored, may have less than was handed out before the deletion.
// What is stored is in Stored.
func (s *Store) lockLists(tx *gorm.DB, reqs []model.AllocRequest) (map[model.ListKey]allocRow, error) {
	var found []allocRow
	err := tx.Table(table + s.either(" FORCE INDEX (PRIMARY)", "")).Clauses(clause.Locking{Strength: "UPDATE"}).
		Select("app_id, app_name, max_id, shard_id, step, max_limit_id, limit_policy, current_step, taken_at, " +
			"last_max_id, doubt, last_change, tokens, max_rate").
		Where(whereKeys(reqs)).Order("app_id, shard_id").Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("lock rows: %w", err)
	}
	rows := make(map[model.ListKey]allocRow, len(found))
	if len(found) == 0 {
		return rows, nil
	}
	before, err := tombstones(tx, reqs)
	for _, row := range found {
		key := model.ListKey{App: uint8(row.AppID), Shard: uint8(row.ShardID)}
		row.Stored, row.MaxID = row.MaxID, max(row.MaxID, before[key])
		rows[key] = row
	}
	return rows, err
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

// change is one row to store.
type change struct {
	key  model.ListKey
	old  int64 // max_id as it was read
	next model.AllocState
	// accounts is the change of the server that next accounts for.
	accounts int64
}

// storeChanges writes all rows with one statement, each only if its max_id is
// still the one that was read.
func storeChanges(tx *gorm.DB, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	var sql strings.Builder
	var args []any
	sql.WriteString("UPDATE " + table)
	if tx.Name() == MySQL {
		sql.WriteString(" FORCE INDEX (PRIMARY)")
	}
	sql.WriteString(" SET ")
	for _, column := range []struct {
		name  string
		value func(model.AllocState) any
	}{
		// max_id comes last: MySQL assigns in this order, and WHERE has the old one.
		{"last_max_id", func(s model.AllocState) any { return s.LastMaxID }},
		{"current_step", func(s model.AllocState) any { return s.CurrentStep }},
		{"doubt", func(s model.AllocState) any { return s.Doubt }},
		{"tokens", func(s model.AllocState) any { return s.Tokens }},
		{"taken_at", func(s model.AllocState) any { return max(0, s.At.UnixMilli()) }},
		{"max_id", func(s model.AllocState) any { return s.Last }},
	} {
		fmt.Fprintf(&sql, "%s = CASE app_id * %d + shard_id%s END, ", column.name, model.Shards, strings.Repeat(" WHEN ? THEN ?", len(changes)))
		for _, c := range changes {
			args = append(args, int64(c.key.App)*model.Shards+int64(c.key.Shard), column.value(c.next))
		}
	}
	const match = "(app_id = ? AND shard_id = ? AND max_id = ?)"
	fmt.Fprintf(&sql, "last_change = %d, update_time = CURRENT_TIMESTAMP WHERE ", changes[0].accounts)
	sql.WriteString(match + strings.Repeat(" OR "+match, len(changes)-1))
	for _, c := range changes {
		args = append(args, c.key.App, c.key.Shard, c.old)
	}
	return updateRows(tx, len(changes), "store", sql.String(), args...)
}
