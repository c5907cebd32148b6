package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"shardid/model"
)

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
