package sqlstore

import (
	"context"
	"fmt"
	"time"

	"shardid/model"
)

// CheckLayout refuses, with *model.LayoutChangedError, a layout that is not the
// recorded one; none recorded is fine, and none is. Errors: *model.StoreError too.
func (s *Store) CheckLayout(ctx context.Context, want model.LayoutRecord) error {
	_, err := s.hasLayout(ctx, want)
	return s.answerIf(ctx, "read the layout", err)
}

// LayoutAge is for how long, by the database's clock, the layout of a kind has been
// recorded, to the millisecond; 0 when none is. Errors: *model.StoreError.
func (s *Store) LayoutAge(ctx context.Context, kind string) (time.Duration, error) {
	age := "TIMESTAMPDIFF(MICROSECOND, recorded_at, CURRENT_TIMESTAMP(3)) DIV 1000"
	if s.server == nil {
		age = "CAST(round((julianday('now') - julianday(recorded_at)) * 86400000) AS INTEGER)"
	}
	var ms []int64
	err := s.query(ctx).Raw("SELECT "+age+" FROM "+layoutTable+" WHERE kind = ?", kind).Scan(&ms).Error
	if err != nil {
		return 0, s.answer(ctx, "read the layout", fmt.Errorf("read: %w", err))
	}
	if len(ms) == 0 {
		return 0, nil
	}
	return time.Duration(ms[0]) * time.Millisecond, nil
}
