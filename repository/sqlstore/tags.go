package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"shardid/model"
)

// maxTagDescription is the width of leaf_alloc.description, in characters.
const maxTagDescription = 256

// tagRow is a row of leaf_alloc that is locked. A NULL reads as zero.
type tagRow struct {
	BizTag   string
	MaxID    int64
	Step     int64
	Counter  counterRow `gorm:"embedded"`
	OwnMaxID int64      // max_id as shardid stored it; another program may have raised it
	// Stored is the row's own max_id where MaxID was raised to what had been handed
	// out before the tag was deleted; see lockTag.
	Stored int64 `gorm:"-"`
	// Numbering is how the IDs are shown; see keptOfTag.
	Numbering model.Numbering `gorm:"-"`
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
	err := cmp.Or(model.CheckTag(tag.Name), checkStep(tag.Step), model.CheckFresh("tag", tag.Fresh, tag.Name))
	if err != nil {
		return err
	}
	switch {
	case tag.MaxID < 1 || tag.MaxID > model.MaxTagID-tag.Step:
		return fmt.Errorf("%w: max_id %d is not in 1…2^63-1-step: it is the first ID to hand out",
			model.ErrInvalidArgument, tag.MaxID)
	case utf8.RuneCountInString(tag.Description) > maxTagDescription:
		return fmt.Errorf("%w: the description is longer than %d characters", model.ErrInvalidArgument,
			maxTagDescription)
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
func (s *Store) AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error) {
	const op = "allocate a segment"
	return withMoment(ctx, s, op, []need{toShare, toTake}, func(
		tx *gorm.DB, m *moment,
	) (segment model.TagSegment, err error) {
		row, err := s.lockTag(tx, req.Tag)
		if err != nil {
			return segment, err
		}
		if err := row.sameNumbers(req.Numbers); err != nil {
			return segment, err
		}
		req.Region, req.Changed = s.opts.Region, m.Changes > row.Counter.LastChange
		var next model.Counter
		counted := []countedRow{row.counted(m)}
		err = s.take(tx, m, counted, func(_ int, c model.Counter, mark int64) (model.Counter, bool, error) {
			segment, next, err = req.Next(c, row.Step, mark, m.now, m.local)
			if errors.Is(err, model.ErrUnconfirmed) {
				err = fmt.Errorf("%w: if it was restored, raise max_id above the highest ID in use; "+
					"then run `shardid confirm --tag %s`", err, req.Tag)
			}
			return next, true, err
		})
		if err == nil {
			err = storeTag(tx, m, row, next)
		}
		return segment, err
	})
}

// lockTag reads the latest committed row and locks it. Its MaxID is raised to what a
// tag of the name had handed out before it was deleted. The error may be model.ErrUnknownTag.
func (s *Store) lockTag(tx *gorm.DB, name string) (row tagRow, err error) {
	found, err := query[[]tagRow](tx, "lock the row",
		"SELECT biz_tag, max_id, step, doubt, last_change, tokens, taken_at, max_rate, own_max_id FROM "+
			tagTable+" WHERE biz_tag = ?"+s.forUpdate(), name)
	switch {
	case err != nil:
		return row, err
	case len(found) == 0:
		return row, fmt.Errorf("%w: tag %q", model.ErrUnknownTag, name)
	}
	row = found[0]
	kept, err := keptOfTag(tx, name)
	row.Stored, row.MaxID, row.Numbering = row.MaxID, max(row.MaxID, kept.Buried), kept.Numbering
	return row, err
}

// lockExactly is lockTag for the tag of the exact name, with all that the table says of it.
func (s *Store) lockExactly(tx *gorm.DB, name string) (row tagRow, tag model.Tag, err error) {
	if row, err = s.lockTag(tx, name); err == nil {
		tag, err = s.oneTag(tx, name)
	}
	return row, tag, err
}

// counted is what the row keeps of its counter. Where another program has raised max_id since, no mark covers it.
func (r tagRow) counted(m *moment) countedRow {
	row := countedRow{
		counterRow: r.Counter, last: max(r.MaxID, 1) - 1, mark: r.mark(),
		unmarked: r.OwnMaxID != 0 && r.OwnMaxID != r.Stored,
		rate:     m.tagRate, rateBefore: func(c model.Change) int64 { return c.TagRate },
	}
	if numbers, err := r.Numbering.Numbers(); err == nil && numbers != nil {
		row.periodBits = numbers.Bits()
	}
	return row
}

// mark is the name of the tag at the witness: the row's own, whichever of its names is used.
func (r tagRow) mark() string { return "t:" + r.BizTag }

// sameNumbers refuses, with model.ErrInvalidArgument, a caller who would show the IDs as
// others than the table says.
func (r tagRow) sameNumbers(numbers *model.Numbers) error {
	stored, err := r.Numbering.Numbers()
	if err == nil && !stored.Same(numbers) {
		err = fmt.Errorf("%w: the pattern of tag %q is %q in %s and was another when the tags were read: a pattern "+
			"never changes", model.ErrInvalidArgument, r.BizTag, r.Numbering.Pattern, numberTable)
	}
	return err
}

// storeTag writes what a tag has handed out, if its max_id is still the one that was
// read.
func storeTag(tx *gorm.DB, m *moment, row tagRow, c model.Counter) error {
	return updateRows(tx, 1, "store", "UPDATE "+tagTable+" SET doubt = ?, last_change = ?, tokens = ?, "+
		"taken_at = ?, own_max_id = ?, max_id = ?, "+
		"update_time = CURRENT_TIMESTAMP WHERE biz_tag = ? AND max_id = ?",
		c.Doubt, m.Changes, c.Tokens, max(0, c.At.UnixMilli()), c.Last+1, c.Last+1, row.BizTag, row.Stored)
}

// CreateTag makes a tag and answers it, and where it begins: at MaxID, above what a tag of the name
// had handed out before it was deleted, or above what one that the database lacks may have. Errors:
// model.ErrInvalidArgument, model.ErrTagExists, model.ErrRefused for other numbers than the
// tag had before and for a fresh one that was used, *model.StoreError.
func (s *Store) CreateTag(ctx context.Context, tag model.Tag) (model.Tag, error) {
	op, needs := fmt.Sprintf("add tag %q", tag.Name), []need{toShare, toDecide}
	tag.Region = s.opts.Region
	if err := cmp.Or(checkNumber(&tag), checkNewTag(tag), model.CheckText(tag.Name, tag.Description)); err != nil {
		return model.Tag{}, fmt.Errorf("%s: %w", op, err)
	}
	return withMoment(ctx, s, op, needs, func(tx *gorm.DB, m *moment) (made model.Tag, err error) {
		err = tx.Exec("INSERT INTO "+tagTable+" (biz_tag, max_id, step, description, last_change) "+
			"VALUES (?, ?, ?, ?, ?)",
			tag.Name, tag.MaxID, tag.Step, tag.Description, m.accountedFor(tag.Fresh)).Error
		if isDuplicate(err) {
			return made, model.ErrTagExists
		}
		if err != nil {
			return made, err
		}
		kept, err := keptOfTag(tx, tag.Name)
		if err == nil {
			err = keepNumber(tx, tag, kept)
		}
		if err == nil && kept.Buried > tag.MaxID {
			err = write(tx, "go on above what was handed out before",
				"UPDATE "+tagTable+" SET max_id = ? WHERE biz_tag = ?", kept.Buried, tag.Name)
		}
		if err == nil {
			made, err = s.oneTag(tx, tag.Name)
		}
		if err == nil {
			err = s.beginTag(tx, m, &made, tag, kept.Buried)
		}
		return made, err
	})
}

// beginTag says where a tag begins that was just made: its MaxID is the first ID that it gives.
// before is the first ID that a tag of the name had not handed out before it was deleted.
func (s *Store) beginTag(tx *gorm.DB, m *moment, made *model.Tag, tag model.Tag, before int64) error {
	row := tagRow{BizTag: made.Name, MaxID: made.MaxID, Numbering: made.Numbering}
	row.Counter.LastChange = m.accountedFor(tag.Fresh)
	c, mark, err := s.readCounter(tx, m, row.counted(m))
	if err != nil {
		return err
	}
	if used := max(before-1, mark); used > 0 && tag.Fresh != "" {
		return errUsed("tag "+strconv.Quote(tag.Name), used)
	}
	made.Fresh = tag.Fresh
	if c.Doubt == 0 && mark < made.MaxID {
		return nil
	}
	numbers, err := made.Numbers()
	if err != nil {
		return err
	}
	c.Rate, c.JumpFrom = 0, time.Time{} // which only hold the first segment up
	req := model.TagRequest{Tag: made.Name, Region: s.opts.Region, Numbers: numbers}
	first, _, err := req.Next(c, made.Step, mark, m.now, m.local)
	if made.Waits = errors.Is(err, model.ErrUnconfirmed); made.Waits {
		made.Skipped = c.Doubt
		return nil
	}
	made.MaxID, made.Skipped = first.First, first.Jumped
	return err
}

// ChangeTag changes a tag and answers it as it was and as it is. Errors:
// model.ErrUnknownTag, ErrInvalidArgument, ErrRefused for a max_id that would go
// down, *model.StoreError.
func (s *Store) ChangeTag(
	ctx context.Context, name string, change model.TagChange,
) (before, after model.Tag, err error) {
	err = s.do(ctx, fmt.Sprintf("change tag %q", name), func(tx *gorm.DB) error {
		m, err := s.moment(tx, toShare)
		if err != nil {
			return err
		}
		row, current, err := s.lockExactly(tx, name)
		if before = current; err != nil {
			return err
		}
		current.MaxID = max(row.MaxID, 1) // it includes what the tag had before it was deleted
		next, err := change.Apply(current)
		if err := cmp.Or(err, checkNewTag(next)); err != nil {
			return err
		}
		if err := m.checkRaise(current, next.MaxID); err != nil {
			return err
		}
		err = write(tx, "store", "UPDATE "+tagTable+" SET max_id = ?, step = ?, description = ?, "+
			"update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?",
			next.MaxID, next.Step, next.Description, name)
		if err == nil && change.MaxRate != nil {
			err = write(tx, "store", "UPDATE "+tagTable+" SET max_rate = ? WHERE biz_tag = ?", *change.MaxRate, name)
		}
		if err == nil && next.MaxID > current.MaxID { // a copy that lacks it must not walk into it
			err = s.raiseMarks(ctx, &m, []model.Mark{{Counter: row.mark(), Value: next.MaxID - 1}}, nil)
		}
		if err == nil {
			after, err = s.oneTag(tx, name)
		}
		return err
	})
	return before, after, err
}

// DeleteTag removes a tag and remembers in the same transaction what it had handed
// out, so that it goes on above that should it come back. It answers what was
// deleted. Errors: model.ErrUnknownTag, *model.StoreError.
func (s *Store) DeleteTag(ctx context.Context, name string) (model.Tag, error) {
	op, needs := fmt.Sprintf("delete tag %q", name), []need{toShare, toDecide}
	return withMoment(ctx, s, op, needs, func(tx *gorm.DB, m *moment) (model.Tag, error) {
		row, tag, err := s.lockExactly(tx, name)
		if err != nil {
			return tag, err
		}
		c, mark, err := s.readCounter(tx, m, row.counted(m))
		c = c.Raise(mark)
		// In a period of business numbers what is in doubt lies elsewhere than above max_id.
		if c.Doubt > 0 && (row.Numbering.Pattern != "" || c.Doubt > model.MaxTagID-max(c.Last, 0)-1) {
			err = cmp.Or(err, fmt.Errorf("%w: the database may be a copy that lacks IDs of tag %q: "+
				"run `shardid confirm --tag %[2]s` before the deletion", model.ErrRefused, row.BizTag))
		}
		if err == nil {
			err = buryTag(tx, row.BizTag, c.Last+c.Doubt+1)
		}
		if err == nil {
			err = write(tx, "delete the row", "DELETE FROM "+tagTable+" WHERE biz_tag = ?", name)
		}
		return tag, err
	})
}

// ConfirmTag is ConfirmApp for a tag.
func (s *Store) ConfirmTag(ctx context.Context, tag string) (int64, error) {
	op, needs := fmt.Sprintf("confirm tag %q", tag), []need{toShare, toDecide}
	return withMoment(ctx, s, op, needs, func(tx *gorm.DB, m *moment) (int64, error) {
		row, _, err := s.lockExactly(tx, tag)
		if err != nil {
			return 0, err
		}
		c, mark, err := s.readCounter(tx, m, row.counted(m))
		if err != nil || c.Doubt == 0 {
			return 0, err
		}
		c = c.Raise(mark)
		c.Doubt = 0
		return 1, storeTag(tx, m, row, c)
	})
}
