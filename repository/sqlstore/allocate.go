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
		out, err = s.allocate(tx, reqs)
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

// change is one row to store.
type change struct {
	key  model.ListKey
	old  int64 // max_id as it was read
	next model.AllocState
}

// allocate is the body of the transaction.
func (s *Store) allocate(tx *gorm.DB, reqs []model.AllocRequest) ([]model.Allocation, error) {
	rows, err := s.lockLists(tx, reqs)
	if err != nil {
		return nil, err
	}
	server, err := s.identify(tx)
	if err != nil {
		return nil, err
	}
	now := s.opts.Now()
	out := make([]model.Allocation, len(reqs))
	var changes []change
	for i, req := range reqs {
		row, found := rows[req.Key]
		delete(rows, req.Key) // a second request for the list must not get the same segment
		var c change
		if !found {
			out[i].Err = fmt.Errorf("%w: list %s", model.ErrUnknownShard, req.Key)
		} else if out[i], c = row.take(req, now, server); out[i].Err == nil {
			changes = append(changes, c)
		}
	}
	return out, storeChanges(tx, changes, now, server)
}

// take chooses the row's next segment.
func (r allocRow) take(req model.AllocRequest, now time.Time, on model.Server) (model.Allocation, change) {
	cfg, err := r.config()
	if err != nil {
		return model.Allocation{Err: err}, change{}
	}
	state := r.state(cfg)
	segment, next, err := state.Next(req, now, on)
	if err != nil {
		return model.Allocation{Err: err}, change{}
	}
	return state.Answer(req, segment), change{key: req.Key, old: r.Stored, next: next}
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
		Select("app_id, app_name, max_id, shard_id, step, max_limit_id, limit_policy, current_step, allocated_at, " +
			"db_server, db_booted_at, list_history, last_max_id, " +
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
func storeChanges(tx *gorm.DB, changes []change, now time.Time, on model.Server) error {
	if len(changes) == 0 {
		return nil
	}
	sql, args := updateSQL(tx.Name(), changes, now, on)
	res := tx.Exec(sql, args...)
	if res.Error != nil {
		return fmt.Errorf("store: %w", res.Error)
	}
	if res.RowsAffected != int64(len(changes)) {
		return fmt.Errorf("store: %w: %d of %d rows were as read", errRowChanged, res.RowsAffected, len(changes))
	}
	return nil
}

func updateSQL(dialect string, changes []change, now time.Time, on model.Server) (string, []any) {
	var maxIDs, steps, histories, where []any
	for _, c := range changes {
		id := int64(c.key.App)*model.Shards + int64(c.key.Shard)
		maxIDs = append(maxIDs, id, c.next.MaxID)
		steps = append(steps, id, c.next.CurrentStep)
		histories = append(histories, id, c.next.History)
		where = append(where, c.key.App, c.key.Shard, c.old)
	}
	index := ""
	if dialect == MySQL {
		index = " FORCE INDEX (PRIMARY)"
	}
	n := len(changes)
	cases := fmt.Sprintf("CASE app_id * %d + shard_id%s END", model.Shards, strings.Repeat(" WHEN ? THEN ?", n))
	match := "(app_id = ? AND shard_id = ? AND max_id = ?)"
	sql := "UPDATE " + table + index + " SET max_id = " + cases + ", last_max_id = " + cases + ", current_step = " + cases +
		", list_history = " + cases +
		", allocated_at = ?, db_server = ?, db_booted_at = ?, update_time = CURRENT_TIMESTAMP WHERE " +
		match + strings.Repeat(" OR "+match, n-1)
	args := slices.Concat(maxIDs, maxIDs, steps, histories,
		[]any{now.UnixMilli(), on.ID, max(on.BootedAt.Unix(), 0)}, where)
	return sql, args
}
