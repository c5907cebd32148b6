package sqlstore

import (
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"shardid/model"
)

// What was issued of an app, a tag or a space before it was deleted is remembered in a table for each kind: should
// one come back under its ID or name, by whatever road, it continues above that. Rows of these tables only rise, and
// stay for ever.

// tombstones is what the lists that have one had issued. It reads without a lock and must
// follow the statement that keeps others from the lists: it then sees the deletion of whatever was there before.
func tombstones(tx *gorm.DB, reqs []model.AllocRequest) (map[model.ListKey]int64, error) {
	var found []struct{ AppID, ShardID, MaxID int64 }
	err := tx.Table(deletedTable).Select("app_id, shard_id, max_id").Where(whereKeys(reqs)).Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("read what was issued before a deletion: %w", err)
	}
	highest := make(map[model.ListKey]int64, len(found))
	for _, t := range found {
		highest[model.ListKey{App: uint8(t.AppID), Shard: uint8(t.ShardID)}] = t.MaxID
	}
	return highest, nil
}

// buryLists leaves tombstones for lists, up to their Floor.
func (s *Store) buryLists(tx *gorm.DB, lists []model.AllocRequest) error {
	rows := make([][]any, len(lists))
	for i, l := range lists {
		rows[i] = []any{l.Key.App, l.Key.Shard, l.Floor}
	}
	return s.bury(tx, deletedTable+" (app_id, shard_id, max_id, deleted_at)", "(?, ?, ?, CURRENT_TIMESTAMP)", rows...)
}

// buryTag leaves a tombstone for a tag, whose next ID is maxID.
func (s *Store) buryTag(tx *gorm.DB, name string, maxID int64) error {
	return s.bury(tx, deletedTagTable+" (biz_tag, max_id, deleted_at)", "(?, ?, CURRENT_TIMESTAMP)", []any{name, maxID})
}

// burySpace leaves a tombstone for a space.
func (s *Store) burySpace(tx *gorm.DB, name string, highest, now int64) error {
	return s.bury(tx, deletedSequenceTable+" (name, max_id, deleted_at)", "(?, ?, ?)", []any{name, highest, now})
}

func (s *Store) bury(tx *gorm.DB, into, values string, rows ...[]any) error {
	if len(rows) == 0 {
		return nil
	}
	return write(tx, "remember what was issued", "INSERT INTO "+into+" VALUES "+values+
		strings.Repeat(", "+values, len(rows)-1)+s.orRaise(),
		slices.Concat(rows...)...)
}
