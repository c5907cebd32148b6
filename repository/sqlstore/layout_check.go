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
// recorded, in whole seconds; 0 when none is. Errors: *model.StoreError.
func (s *Store) LayoutAge(ctx context.Context, kind string) (time.Duration, error) {
	age := "TIMESTAMPDIFF(SECOND, recorded_at, CURRENT_TIMESTAMP)"
	if s.server == nil {
		age = "unixepoch() - unixepoch(recorded_at)"
	}
	var seconds []int64
	err := s.query(ctx).Raw("SELECT "+age+" FROM "+layoutTable+" WHERE kind = ?", kind).Scan(&seconds).Error
	if err != nil || len(seconds) == 0 {
		return 0, s.answerIf(ctx, "read the layout", wrapRead(err))
	}
	return time.Duration(seconds[0]) * time.Second, nil
}

func wrapRead(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read: %w", err)
}
