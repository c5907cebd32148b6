package sqlstore

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// LayoutOnce records the layout of a kind of IDs unless one is recorded. Of several starters at once with different
// layouts one wins. A record is never changed, so a call that failed may be repeated. Errors: model.ErrLayoutChanged
// when another one is recorded, *model.StoreError.
func (s *Store) LayoutOnce(ctx context.Context, want model.LayoutRecord) error {
	if found, err := s.HasLayout(ctx, want); found || err != nil {
		return err
	}
	err := s.gorm.WithContext(ctx).Exec("INSERT INTO "+layoutTable+" (kind, layout) VALUES (?, ?)", want.Kind,
		want.Layout).Error
	if isDuplicate(err) { // another starter was faster
		_, err = s.HasLayout(ctx, want)
		return err
	}
	return s.answer(ctx, "record the layout", err)
}

// HasLayout says whether the layout is recorded, and records nothing. Errors:
// model.ErrLayoutChanged when another one is, *model.StoreError.
func (s *Store) HasLayout(ctx context.Context, want model.LayoutRecord) (bool, error) {
	found, err := query[[]string](s.gorm.WithContext(ctx), "read", "SELECT layout FROM "+layoutTable+" WHERE kind = ?",
		want.Kind)
	if err == nil && len(found) > 0 && found[0] != want.Layout {
		err = fmt.Errorf("%w: %w: %s IDs have been issued with %s, the configuration says %s: IDs of both could be "+
			"equal",
			model.Do("set the recorded values again; only where IDs of both never meet in one column, or cannot be "+
				"equal (docs/uid.md), delete the row of %s in id_layout", want.Kind),
			model.ErrLayoutChanged, want.Kind, found[0], want.Layout)
	}
	return err == nil && len(found) > 0, s.answer(ctx, "read the layout", err)
}

// LayoutAge is for how long IDs of a kind may have been issued, to the millisecond: since
// their layout was recorded, by the database's clock, and 0 when none is. A database that has
// noted a change of its server may lack an earlier record: there it is since 1970. Errors:
// *model.StoreError.
func (s *Store) LayoutAge(ctx context.Context, kind string) (time.Duration, error) {
	return within(ctx, s, "read the layout", func(tx *gorm.DB) (time.Duration, error) {
		m, err := s.moment(tx)
		if err == nil && m.Changes == 0 {
			m.Now, err = query[int64](tx, "read", "SELECT "+s.ageOf("recorded_at")+" FROM "+layoutTable+
				" WHERE kind = ?", kind)
		}
		return time.Duration(m.Now) * time.Millisecond, err
	})
}
