package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"shardid/model"
)

// maxTagDescription is the width of leaf_alloc.description, in characters.
const maxTagDescription = 256

// tagRow is a row of leaf_alloc. A NULL reads as zero.
type tagRow struct {
	BizTag      string
	MaxID       int64
	Step        int64
	Description string
	Updated     int64      // Unix s
	Counter     counterRow `gorm:"embedded"`
	OwnMaxID    int64      // max_id as shardid stored it; another program may have raised it
	MarkLife    string
	// Stored is the row's own max_id where MaxID was raised to what had been handed
	// out before the tag was deleted; see lockTag.
	Stored int64 `gorm:"-"`
	// Numbering is how the IDs are shown; see numberOf.
	Numbering model.Numbering `gorm:"-"`
}

// tag is the row's tag whether it can be used or not.
func (r tagRow) tag() model.Tag {
	return model.Tag{Name: r.BizTag, MaxID: r.MaxID, Step: r.Step, Description: r.Description, UpdatedAt: time.Unix(r.Updated, 0), Numbering: r.Numbering}
}

// check refuses, with model.ErrInvalidArgument, a row that cannot be used.
func (r tagRow) check() error {
	_, numbers := r.Numbering.Numbers()
	if err := cmp.Or(model.CheckTag(r.BizTag), checkStep(r.Step), numbers); err != nil {
		return fmt.Errorf("%s row %q cannot be used: %w", tagTable, r.BizTag, err)
	}
	return nil
}

func checkStep(step int64) error {
	if step < 1 || step > model.MaxTagStep {
		return fmt.Errorf("%w: step %d is not in 1…%d", model.ErrInvalidArgument, step, int64(model.MaxTagStep))
	}
	return nil
}

// checkNewTag refuses, with model.ErrInvalidArgument, what the table could not
// hold and a tag that has no segment left.
func checkNewTag(tag model.Tag) error {
	if err := cmp.Or(model.CheckTag(tag.Name), checkStep(tag.Step)); err != nil {
		return err
	}
	switch {
	case tag.MaxID < 1 || tag.MaxID > model.MaxTagID-tag.Step:
		return fmt.Errorf("%w: max_id %d is not in 1…2^63-1-step: it is the first ID to hand out", model.ErrInvalidArgument, tag.MaxID)
	case utf8.RuneCountInString(tag.Description) > maxTagDescription:
		return fmt.Errorf("%w: the description is longer than %d characters", model.ErrInvalidArgument, maxTagDescription)
	}
	return nil
}

// AllocateTag takes the next segment of a tag, in one transaction under the row's
// lock. Which names are one tag is the table's to say: where its collation
// ignores case, "A" takes from the row "a" and never what that row gave before.
// When the transaction fails, or its COMMIT is not acknowledged, the segment
// is never handed out. Safe for concurrent use, over processes and with Leaf's own
// programs. Errors: model.ErrUnknownTag, model.ErrLimitReached,
// model.ErrInvalidArgument for a row that cannot be used, *model.StoreError.
func (s *Store) AllocateTag(ctx context.Context, req model.TagRequest) (segment model.TagSegment, err error) {
	err = s.do(ctx, "allocate a segment", func(tx *gorm.DB) error {
		row, m, err := s.lockTag(tx, req.Tag)
		if err := cmp.Or(err, m.apart); err != nil {
			return err
		}
		known, err := s.peek(ctx, tagCounter(req.Tag))
		if err != nil {
			return err
		}
		if err := row.sameNumbers(req.Numbers); err != nil {
			return err
		}
		var next model.Counter
		segment, next, err = req.Next(row.counter(m), row.Step, known, m.now, m.local)
		if errors.Is(err, model.ErrUnconfirmed) {
			err = fmt.Errorf("%w: if it was restored, raise max_id above the highest ID in use; then run `shardid confirm --tag %s`", err, req.Tag)
		}
		if err != nil {
			return err
		}
		if err := s.mark(ctx, tagCounter(req.Tag), known, segment.First-1, &next); err != nil {
			return err
		}
		return storeTag(tx, row, next)
	})
	if err != nil {
		return model.TagSegment{}, err
	}
	return segment, nil
}

// lockTag reads the latest committed row and locks it. Its MaxID is raised to what a
// tag of the name had handed out before it was deleted. Errors: model.ErrUnknownTag,
// and those of moment.
func (s *Store) lockTag(tx *gorm.DB, name string) (row tagRow, m moment, err error) {
	var found []tagRow
	err = tx.Raw("SELECT biz_tag, max_id, step, doubt, tokens, taken_at, max_rate, rate_from, own_max_id, mark_life FROM "+tagTable+
		" WHERE biz_tag = ?"+s.forUpdate(), name).Scan(&found).Error
	switch {
	case err != nil:
		return row, m, fmt.Errorf("lock the row: %w", err)
	case len(found) == 0:
		return row, m, fmt.Errorf("%w: tag %q", model.ErrUnknownTag, name)
	}
	row = found[0]
	before, err := tagTombstone(tx, name)
	if err != nil {
		return row, m, err
	}
	row.Stored, row.MaxID = row.MaxID, max(row.MaxID, before)
	if row.Numbering, err = numberOf(tx, name); err != nil {
		return row, m, err
	}
	m, err = s.moment(tx)
	return row, m, err
}

// counter is what the row says. Where another program has raised max_id since, no mark
// covers it.
func (r tagRow) counter(m moment) model.Counter {
	life := r.MarkLife
	if r.OwnMaxID > 0 && r.OwnMaxID != r.Stored {
		life = ""
	}
	c := r.Counter.counter(m, m.tagRate, max(r.MaxID, 1)-1, life, r.Step)
	if numbers, err := r.Numbering.Numbers(); err == nil && numbers != nil {
		c.PeriodBits = numbers.Bits()
	}
	return c
}

// sameNumbers refuses, with model.ErrInvalidArgument, a caller who would show the IDs as
// others than the table says.
func (r tagRow) sameNumbers(numbers *model.Numbers) error {
	stored, err := r.Numbering.Numbers()
	if err == nil && !stored.Same(numbers) {
		err = fmt.Errorf("%w: the pattern of tag %q is %q in %s and was another when the tags were read: a pattern never changes", model.ErrInvalidArgument, r.BizTag, r.Numbering.Pattern, numberTable)
	}
	return err
}

func tagCounter(name string) string { return "t:" + name }

// storeTag writes what a tag has handed out, if its max_id is still the one that was
// read.
func storeTag(tx *gorm.DB, row tagRow, c model.Counter) error {
	return updateRows(tx, 1, "store", "UPDATE "+tagTable+" SET doubt = ?, tokens = ?, taken_at = ?, mark_life = ?, own_max_id = ?, max_id = ?, "+
		"update_time = CURRENT_TIMESTAMP WHERE biz_tag = ? AND max_id = ?",
		c.Doubt, c.Tokens, max(0, c.At.UnixMilli()), c.Life, c.Last+1, c.Last+1, row.BizTag, row.Stored)
}

// settleTags marks at the witness, in its present life, the tags that this life does not
// cover yet, and ends the doubts that its marks can end.
func (s *Store) settleTags(ctx context.Context, life string) error {
	var names []string
	err := s.gorm.WithContext(ctx).Raw("SELECT biz_tag FROM "+tagTable+" WHERE doubt = 0 AND mark_life <> ? OR doubt > 0 AND mark_life <> ''", life).Scan(&names).Error
	for _, name := range names {
		if err != nil {
			break
		}
		err = s.inTx(ctx, func(tx *gorm.DB) error {
			row, m, err := s.lockTag(tx, name)
			if err := cmp.Or(err, m.apart); err != nil {
				return err
			}
			stored := row.counter(m)
			next, err := s.settleCounter(ctx, tagCounter(name), stored)
			if err != nil || next == stored {
				return err
			}
			return storeTag(tx, row, next)
		})
		if errors.Is(err, model.ErrUnknownTag) || errors.Is(err, errMarkAhead) {
			err = nil
		}
	}
	return err
}

// Tags reads every tag, ordered by name. A row that cannot be used is left out
// and told to Options.OnBadRow. Errors: *model.StoreError.
func (s *Store) Tags(ctx context.Context) ([]model.Tag, error) {
	rows, err := s.tagRows(s.gorm.WithContext(ctx), "1 = 1")
	if err != nil {
		return nil, s.explain("load the tags", err)
	}
	numbers, err := allNumbers(s.gorm.WithContext(ctx))
	if err != nil {
		return nil, s.explain("load the tags", err)
	}
	tags := make([]model.Tag, 0, len(rows))
	for _, row := range rows {
		row.Numbering = numbers[row.BizTag]
		if err := row.check(); err == nil {
			tags = append(tags, row.tag())
		} else if s.opts.OnBadRow != nil {
			s.opts.OnBadRow(err)
		}
	}
	slices.SortFunc(tags, func(a, b model.Tag) int { return cmp.Compare(a.Name, b.Name) })
	return tags, nil
}

// Tag reads one tag; the row's own name is in the answer. Errors:
// model.ErrUnknownTag, model.ErrInvalidArgument for a row that cannot be used,
// *model.StoreError.
func (s *Store) Tag(ctx context.Context, name string) (model.Tag, error) {
	rows, err := s.tagRows(s.gorm.WithContext(ctx), "biz_tag = ?", name)
	if err != nil {
		return model.Tag{}, s.explain("read a tag", err)
	}
	if len(rows) == 0 {
		return model.Tag{}, fmt.Errorf("%w: tag %q", model.ErrUnknownTag, name)
	}
	if rows[0].Numbering, err = numberOf(s.gorm.WithContext(ctx), name); err != nil {
		return model.Tag{}, s.explain("read a tag", err)
	}
	return rows[0].tag(), rows[0].check()
}

// oneTag reads a tag by its exact name: another one that the table's collation takes
// for the same must not be changed in its place. A row that cannot be used is given all
// the same: it can still be mended or deleted. The error may be model.ErrUnknownTag.
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
	rows[0].Numbering, err = numberOf(g, name)
	return rows[0].tag(), err
}

// tagRows asks for seconds since 1970, which no time zone of the server's or of
// the connection changes.
func (s *Store) tagRows(g *gorm.DB, where string, args ...any) (rows []tagRow, err error) {
	updated := s.either("UNIX_TIMESTAMP(update_time)", "CAST(strftime('%s', update_time) AS INTEGER)")
	err = g.Raw("SELECT biz_tag, max_id, step, description, "+updated+" AS updated FROM "+tagTable+
		" WHERE "+where, args...).Scan(&rows).Error
	return rows, err
}

// CreateTag makes a tag and answers it. Its first segment starts at MaxID, or above what
// a tag of the name had handed out before it was deleted. Errors:
// model.ErrInvalidArgument, model.ErrTagExists, model.ErrRefused for other numbers than the
// tag had before, *model.StoreError.
func (s *Store) CreateTag(ctx context.Context, tag model.Tag) (made model.Tag, err error) {
	op := fmt.Sprintf("add tag %q", tag.Name)
	if err := cmp.Or(checkNumber(&tag), checkNewTag(tag), model.CheckText(tag.Name, tag.Description)); err != nil {
		return model.Tag{}, fmt.Errorf("%s: %w", op, err)
	}
	err = s.do(ctx, op, func(tx *gorm.DB) error {
		err := tx.Exec("INSERT INTO "+tagTable+" (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?)",
			tag.Name, tag.MaxID, tag.Step, tag.Description).Error
		if isDuplicate(err) {
			return model.ErrTagExists
		}
		if err != nil {
			return err
		}
		before, err := tagTombstone(tx, tag.Name)
		if err == nil {
			err = keepNumber(tx, tag, before)
		}
		if err == nil && before > tag.MaxID {
			err = write(tx, "go on above what was handed out before", "UPDATE "+tagTable+" SET max_id = ? WHERE biz_tag = ?", before, tag.Name)
		}
		if err == nil {
			made, err = s.oneTag(tx, tag.Name)
		}
		return err
	})
	return made, err
}

// ChangeTag changes a tag and answers it as it was and as it is. Errors:
// model.ErrUnknownTag, ErrInvalidArgument, ErrRefused for a max_id that would go
// down, *model.StoreError.
func (s *Store) ChangeTag(ctx context.Context, name string, change model.TagChange) (before, after model.Tag, err error) {
	err = s.do(ctx, fmt.Sprintf("change tag %q", name), func(tx *gorm.DB) error {
		row, m, err := s.lockTag(tx, name)
		if err != nil {
			return err
		}
		if before, err = s.oneTag(tx, name); err != nil {
			return err
		}
		current := before
		current.MaxID = max(row.MaxID, 1) // it includes what the tag had before it was deleted
		next, err := change.Apply(current)
		if err := cmp.Or(err, checkNewTag(next)); err != nil {
			return err
		}
		if err := m.checkRaise(current, next.MaxID); err != nil {
			return err
		}
		err = write(tx, "store", "UPDATE "+tagTable+" SET max_id = ?, step = ?, description = ?, update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?",
			next.MaxID, next.Step, next.Description, name)
		if err == nil && change.MaxRate != nil {
			err = write(tx, "store", "UPDATE "+tagTable+" SET max_rate = ?, rate_from = "+s.rateFrom()+" WHERE biz_tag = ?", *change.MaxRate, name)
		}
		if err == nil {
			after, err = s.oneTag(tx, name)
		}
		return err
	})
	if err != nil {
		return before, before, err
	}
	return before, after, nil
}

// DeleteTag removes a tag and remembers in the same transaction what it had handed
// out, so that it goes on above that should it come back. It answers what was
// deleted. Errors: model.ErrUnknownTag, *model.StoreError.
func (s *Store) DeleteTag(ctx context.Context, name string) (deleted model.Tag, err error) {
	err = s.do(ctx, fmt.Sprintf("delete tag %q", name), func(tx *gorm.DB) error {
		row, _, err := s.lockTag(tx, name)
		if err != nil {
			return err
		}
		if deleted, err = s.oneTag(tx, name); err != nil {
			return err
		}
		if err := buryTag(tx, row); err != nil {
			return err
		}
		return write(tx, "delete the row", "DELETE FROM "+tagTable+" WHERE biz_tag = ?", name)
	})
	return deleted, err
}

// ConfirmTag is ConfirmApp for a tag.
func (s *Store) ConfirmTag(ctx context.Context, tag string) (tags int64, err error) {
	exists := func(tx *gorm.DB) error { _, err := s.oneTag(tx, tag); return err }
	return s.confirm(ctx, fmt.Sprintf("confirm tag %q", tag), exists,
		"UPDATE "+tagTable+" SET doubt = 0, mark_life = '', update_time = CURRENT_TIMESTAMP WHERE biz_tag = ? AND doubt > 0", tag)
}
