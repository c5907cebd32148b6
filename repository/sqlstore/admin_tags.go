package sqlstore

import (
	"cmp"
	"context"
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

// CreateTag is AddTag that says what it made: a tag that was deleted before goes on
// above what it had handed out. Errors: those of AddTag.
func (s *Store) CreateTag(ctx context.Context, tag model.Tag) (model.Tag, error) {
	op := fmt.Sprintf("add tag %q", tag.Name)
	if err := cmp.Or(checkNewTag(tag), model.CheckText(tag.Name, tag.Description)); err != nil {
		return model.Tag{}, fmt.Errorf("%s: %w", op, err)
	}
	var made model.Tag
	err := s.inTx(ctx, func(tx *gorm.DB) (err error) {
		made, err = s.createTag(tx, tag)
		return err
	})
	switch {
	case isDuplicate(err):
		return model.Tag{}, fmt.Errorf("%s: %w", op, model.ErrTagExists)
	case err != nil:
		return model.Tag{}, s.answer(ctx, op, err)
	}
	return made, nil
}

func (s *Store) createTag(tx *gorm.DB, tag model.Tag) (model.Tag, error) {
	err := tx.Exec("INSERT INTO "+tagTable+" (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?)",
		tag.Name, tag.MaxID, tag.Step, tag.Description).Error
	if err != nil {
		return model.Tag{}, err
	}
	before, err := tagTombstone(tx, tag.Name)
	if err != nil {
		return model.Tag{}, err
	}
	if before > tag.MaxID {
		err := tx.Exec("UPDATE "+tagTable+" SET max_id = ? WHERE biz_tag = ?", before, tag.Name).Error
		if err != nil {
			return model.Tag{}, fmt.Errorf("go on above what was handed out before: %w", err)
		}
	}
	return s.oneTag(tx, tag.Name)
}

// oneTag reads a tag by its exact name: another one that the table's collation takes
// for the same must not be changed in its place. The error may be
// model.ErrUnknownTag.
func (s *Store) oneTag(g *gorm.DB, name string) (model.Tag, error) {
	rows, err := s.tagRows(g, "biz_tag = ?", name)
	switch {
	case err != nil:
		return model.Tag{}, err
	case len(rows) == 0:
		return model.Tag{}, fmt.Errorf("%w: tag %q", model.ErrUnknownTag, name)
	case rows[0].BizTag != name:
		return model.Tag{}, fmt.Errorf("%w: tag %q: the table has %q", model.ErrUnknownTag, name, rows[0].BizTag)
	}
	r := rows[0] // whatever it holds: what cannot be used can still be mended or deleted
	return r.asIs(), nil
}

// ChangeTag changes a tag and answers it as it was and as it is. Errors:
// model.ErrUnknownTag, ErrInvalidArgument, ErrRefused for a max_id that would go
// down, *model.StoreError.
func (s *Store) ChangeTag(ctx context.Context, name string, change model.TagChange) (before, after model.Tag, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
		before, after, err = s.changeTag(tx, name, change)
		return err
	})
	if err != nil {
		return before, before, s.answer(ctx, fmt.Sprintf("change tag %q", name), err)
	}
	return before, after, nil
}

func (s *Store) changeTag(tx *gorm.DB, name string, change model.TagChange) (before, after model.Tag, err error) {
	row, err := s.lockTag(tx, name)
	if err != nil {
		return before, after, err
	}
	if before, err = s.oneTag(tx, name); err != nil {
		return before, after, err
	}
	current := before
	current.MaxID = max(row.MaxID, 1) // it includes what the tag had before it was deleted
	next, err := change.Apply(current)
	if err != nil {
		return before, after, err
	}
	if err := checkNewTag(next); err != nil {
		return before, after, err
	}
	err = tx.Exec("UPDATE "+tagTable+" SET max_id = ?, step = ?, description = ?, update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?",
		next.MaxID, next.Step, next.Description, name).Error
	if err == nil && change.MaxRate != nil {
		err = tx.Exec("UPDATE "+tagTable+" SET max_rate = ?, rate_from = "+s.rateFrom()+" WHERE biz_tag = ?", *change.MaxRate, name).Error
	}
	if err != nil {
		return before, after, fmt.Errorf("store: %w", err)
	}
	after, err = s.oneTag(tx, name)
	return before, after, err
}

// DeleteTag removes a tag and remembers in the same transaction what it had handed
// out, so that it goes on above that should it come back. It answers what was
// deleted. Errors: model.ErrUnknownTag, *model.StoreError.
func (s *Store) DeleteTag(ctx context.Context, name string) (deleted model.Tag, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
		deleted, err = s.deleteTag(tx, name)
		return err
	})
	if err != nil {
		return deleted, s.answer(ctx, fmt.Sprintf("delete tag %q", name), err)
	}
	return deleted, nil
}

func (s *Store) deleteTag(tx *gorm.DB, name string) (model.Tag, error) {
	row, err := s.lockTag(tx, name)
	if err != nil {
		return model.Tag{}, err
	}
	tag, err := s.oneTag(tx, name)
	if err != nil {
		return tag, err
	}
	if err := buryTag(tx, row); err != nil {
		return tag, err
	}
	if err := tx.Exec("DELETE FROM "+tagTable+" WHERE biz_tag = ?", name).Error; err != nil {
		return tag, fmt.Errorf("delete the row: %w", err)
	}
	return tag, nil
}
