package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"shardid/model"
)

// errRowChanged would mean that the rows were not locked, or that the table
// cannot roll back.
var errRowChanged = errors.New("a row changed under its lock")

// Allocate takes the next segment for each request, in one transaction under
// the rows' locks, and answers in the order of the requests, which name distinct
// lists. A list without a row gets model.ErrUnknownShard, one without an index
// left model.ErrLimitReached, and the others still get theirs. When the
// transaction fails, or its COMMIT is not acknowledged, every answer is a
// *model.StoreError and the segments are lost for good. Safe for concurrent use,
// over processes too; 64 requests are one SELECT and one UPDATE.
func (s *Store) Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	var out []model.Allocation
	if len(reqs) == 0 {
		return out
	}
	err := s.inTx(ctx, func(tx *gorm.DB) (err error) {
		out, err = s.change(tx, reqs, func(state model.AllocState, req model.AllocRequest, now time.Time) (model.Allocation, model.AllocState, error) {
			return state.Next(req, now)
		})
		return err
	})
	if err != nil {
		return failAll(len(reqs), s.fail(ctx, "allocate", err))
	}
	return out
}

func failAll(n int, err error) []model.Allocation {
	out := make([]model.Allocation, n)
	for i := range out {
		out[i].Err = err
	}
	return out
}

// Settle brings each request's row up to what the request knows and takes no segment:
// max_id is raised to Floor, by which much Lifted says, a mark that covers the row ends
// a doubt about it, and the row then names the mark's history. Otherwise it is as
// Allocate.
func (s *Store) Settle(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	var out []model.Allocation
	if len(reqs) == 0 {
		return out
	}
	err := s.inTx(ctx, func(tx *gorm.DB) (err error) {
		out, err = s.change(tx, reqs, func(state model.AllocState, req model.AllocRequest, _ time.Time) (model.Allocation, model.AllocState, error) {
			next := state.Settle(req)
			return model.Allocation{Lifted: max(0, next.Last-state.Last)}, next, nil
		})
		return err
	})
	if err != nil {
		return failAll(len(reqs), s.fail(ctx, "settle", err))
	}
	return out
}

// change is one row to store.
type change struct {
	key  model.ListKey
	old  int64 // max_id as it was read
	next model.AllocState
}

// choice is what becomes of a row; its error is that of the one list.
type choice func(state model.AllocState, req model.AllocRequest, now time.Time) (model.Allocation, model.AllocState, error)

// change is the body of a transaction.
func (s *Store) change(tx *gorm.DB, reqs []model.AllocRequest, choose choice) ([]model.Allocation, error) {
	rows, err := s.lockLists(tx, reqs)
	if err != nil {
		return nil, err
	}
	m, err := s.counting(tx)
	if err != nil {
		return nil, err
	}
	rate, _ := s.rates(m)
	out := make([]model.Allocation, len(reqs))
	var changes []change
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
		listRate := rate
		if req.MaxRate > 0 {
			listRate = min(rate, req.MaxRate)
		}
		state := row.state(cfg, m, listRate)
		allocation, next, err := choose(state, req, m.now)
		if errors.Is(err, model.ErrUnconfirmed) {
			err = fmt.Errorf("%w: if it was restored, raise max_id above the highest index in use; then run `shardid confirm --app %d --name %q`", err, cfg.Key.App, cfg.AppName)
		}
		out[i], out[i].Err = allocation, err
		if err == nil && (next != state || row.Stored != row.MaxID) {
			changes = append(changes, change{key: req.Key, old: row.Stored, next: next})
		}
	}
	return out, storeChanges(tx, changes)
}

// lockedRow also says whether the server takes writes from ordinary users: one
// that does not is no primary, even if this user may write to it.
type lockedRow struct {
	Row      allocRow `gorm:"embedded"`
	ReadOnly string
}

// lockRows reads the latest committed rows and locks them, in the order of the
// primary key so that two transactions cannot wait for each other. As the first
// statement it sees the latest rows under every isolation level. SQLite's lock
// was taken by BEGIN; its dialect leaves FOR UPDATE out.
func (s *Store) lockRows(tx *gorm.DB, reqs []model.AllocRequest) (map[model.ListKey]allocRow, error) {
	var found []lockedRow
	err := tx.Table(s.lockTable()).Clauses(clause.Locking{Strength: "UPDATE"}).
		Select("app_id, app_name, max_id, shard_id, step, max_limit_id, limit_policy, current_step, taken_at, " +
			"list_history, last_max_id, doubt, tokens, max_rate, rate_from, " +
			s.readOnlyColumn() + " AS read_only").
		Where(whereKeys(reqs)).Order("app_id, shard_id").Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("lock rows: %w", err)
	}
	rows := make(map[model.ListKey]allocRow, len(found))
	for _, f := range found {
		if isOn(f.ReadOnly) {
			return nil, errReadOnly
		}
		rows[model.ListKey{App: uint8(f.Row.AppID), Shard: uint8(f.Row.ShardID)}] = f.Row
	}
	return rows, nil
}

// lockTable keeps MySQL from scanning, and locking, the whole of a small table.
func (s *Store) lockTable() string {
	if s.server == nil {
		return table
	}
	return table + " FORCE INDEX (PRIMARY)"
}

func (s *Store) readOnlyColumn() string {
	if s.server == nil {
		return "'0'"
	}
	return "@@global.read_only"
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

// storeChanges writes all rows with one statement, each only if its max_id is
// still the one that was read.
func storeChanges(tx *gorm.DB, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	sql, args := updateSQL(tx.Name(), changes)
	res := tx.Exec(sql, args...)
	if res.Error != nil {
		return fmt.Errorf("store: %w", res.Error)
	}
	if res.RowsAffected != int64(len(changes)) {
		return fmt.Errorf("store: %w: %d of %d rows were as read", errRowChanged, res.RowsAffected, len(changes))
	}
	return nil
}

func updateSQL(dialect string, changes []change) (string, []any) {
	index := ""
	if dialect == MySQL {
		index = " FORCE INDEX (PRIMARY)"
	}
	var sql strings.Builder
	var args []any
	sql.WriteString("UPDATE " + table + index + " SET ")
	for _, column := range []struct {
		name  string
		value func(model.AllocState) any
	}{
		// max_id comes last: MySQL assigns in this order, and WHERE has the old one.
		{"last_max_id", func(s model.AllocState) any { return s.LastMaxID }},
		{"current_step", func(s model.AllocState) any { return s.CurrentStep }},
		{"list_history", func(s model.AllocState) any { return s.Life }},
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
	sql.WriteString("update_time = CURRENT_TIMESTAMP WHERE " + match + strings.Repeat(" OR "+match, len(changes)-1))
	for _, c := range changes {
		args = append(args, c.key.App, c.key.Shard, c.old)
	}
	return sql.String(), args
}

// leftoverRow is a run of indices that were allocated and not popped.
type leftoverRow struct {
	AppID      int64
	ShardID    int64
	FirstIndex int64
	LastIndex  int64
	MaxID      int64
}

// TableName tells gorm the table.
func (leftoverRow) TableName() string { return "id_alloc_leftover" }

// KeepLeftovers stores what lists in the process held when they were used for the last
// time, for the next process. Only a SQLite file can: a server may go back in time.
// Errors: *model.StoreError.
func (s *Store) KeepLeftovers(ctx context.Context, left []model.Leftover) error {
	if s.server != nil || len(left) == 0 {
		return nil
	}
	err := s.inTx(ctx, func(tx *gorm.DB) error {
		for part := range slices.Chunk(left, 1000) {
			rows := make([]leftoverRow, len(part))
			for i, l := range part {
				rows[i] = leftoverRow{AppID: int64(l.Key.App), ShardID: int64(l.Key.Shard), FirstIndex: l.Segment.First, LastIndex: l.Segment.Last}
			}
			if err := tx.Create(&rows).Error; err != nil {
				return fmt.Errorf("insert: %w", err)
			}
		}
		return tx.Exec("UPDATE id_alloc_leftover SET max_id = COALESCE((SELECT max_id FROM id_alloc a " +
			"WHERE a.app_id = id_alloc_leftover.app_id AND a.shard_id = id_alloc_leftover.shard_id), -1) WHERE max_id = 0").Error
	})
	return s.explainLeftovers("keep", err)
}

// TakeLeftovers takes out what KeepLeftovers stored, but for lists whose max_id has
// changed since: then an operator may have said that higher indices are in use. What
// it returns was deleted for sure, so nobody gets it twice. Errors: *model.StoreError.
func (s *Store) TakeLeftovers(ctx context.Context) ([]model.Leftover, error) {
	if s.server != nil {
		return nil, nil
	}
	var rows []leftoverRow
	err := s.inTx(ctx, func(tx *gorm.DB) error {
		rows = nil
		err := tx.Table("id_alloc_leftover l").Select("l.*").
			Joins("JOIN id_alloc a ON a.app_id = l.app_id AND a.shard_id = l.shard_id AND a.max_id = l.max_id").
			Order("l.app_id, l.shard_id, l.first_index").Find(&rows).Error
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		return tx.Exec("DELETE FROM id_alloc_leftover").Error
	})
	if err != nil {
		return nil, s.explainLeftovers("take out", err)
	}
	left := make([]model.Leftover, len(rows))
	for i, r := range rows {
		left[i] = model.Leftover{Key: model.ListKey{App: uint8(r.AppID), Shard: uint8(r.ShardID)}, Segment: model.Segment{First: r.FirstIndex, Last: r.LastIndex}}
	}
	return left, nil
}

func (s *Store) explainLeftovers(what string, err error) error {
	if err == nil {
		return nil
	}
	return s.explain(what+" what the lists held", err)
}
