package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/model/witness"
)

// A row of leaf_alloc is a tag. What outlives it when it is deleted is in two tables beside it: how far it had come
// (leaf_alloc_deleted), and how its IDs are shown (shardid_number), which never changes.
//
// A table that Leaf made may ignore case, and so may the two beside it. There one of two names that differ by that is
// unknown, and neither is taken for the other.

// maxTagDescription is the width of leaf_alloc.description, in characters.
const maxTagDescription = 256

// tagRow is a row of leaf_alloc, and how its IDs are shown. A NULL reads as zero.
type tagRow struct {
	BizTag      string
	MaxID       int64
	Step        int64
	Description string
	Updated     int64           // Unix s
	Counter     counterRow      `gorm:"embedded"`
	OwnMaxID    int64           // max_id as shardid stored it; another program may have raised it
	Numbering   model.Numbering `gorm:"embedded"`
	// Buried is the first ID that a tag of the name had not handed out when it was deleted, 0 for none. lockTag
	// raises MaxID to that; Stored is the row's own max_id.
	Buried int64
	Stored int64 `gorm:"-"`
}

// joinNumber adds how the IDs of leaf_alloc as t are shown.
const joinNumber = " LEFT JOIN " + numberTable + " AS n ON n.biz_tag = t.biz_tag"

// tagColumns are those of a tag.
func (s *Store) tagColumns() string {
	return "t.biz_tag, t.max_id, t.step, t.description, t.doubt, t.last_change, t.tokens, t.taken_at, " +
		"t.own_max_id, " + s.unixTime("t.update_time") +
		" AS updated, n.pattern, n.reset_by AS `reset`, n.zone, n.overflow"
}

// tag is the row as others see it.
func (r tagRow) tag(region model.Region) model.Tag {
	return model.Tag{Name: r.BizTag, MaxID: r.MaxID, Step: r.Step, Description: r.Description,
		UpdatedAt: time.Unix(r.Updated, 0), Numbering: r.Numbering, Region: region}
}

// FindTags reads the tags whose name contains a text: the first ones by name, limit at most. It ignores the case of
// letters of which the database knows it, SQLite of ASCII alone. A row that cannot be used is skipped and told to
// Options.OnBadRow. total is how many rows there are, also those that cannot be used. Errors: *model.StoreError.
func (s *Store) FindTags(ctx context.Context, search string, limit int) (tags []model.Tag, total int, err error) {
	const where = "LOWER(t.biz_tag) LIKE LOWER(?) ESCAPE '!'"
	like := "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(search) + "%"
	rows, err := s.readTags(ctx, where+" ORDER BY t.biz_tag LIMIT ?", like, limit)
	if total = len(rows); err == nil && total == limit {
		total, err = query[int](s.gorm.WithContext(ctx), "count",
			"SELECT COUNT(*) FROM "+tagTable+" AS t WHERE "+where, like)
		err = s.explain("count the tags", err)
	}
	return s.usableTags(rows), total, err
}

// TagsNamed reads tags as FindTags does, those of some names; others that the table takes for the same may be among
// them.
func (s *Store) TagsNamed(ctx context.Context, names []string) ([]model.Tag, error) {
	rows, err := s.readTags(ctx, "t.biz_tag IN ?", names)
	return s.usableTags(rows), err
}

// Tag reads one tag. Errors: model.ErrUnknownTag, model.ErrInvalidArgument for a row that cannot be used,
// *model.StoreError.
func (s *Store) Tag(ctx context.Context, name string) (model.Tag, error) {
	rows, err := s.readTags(ctx, "t.biz_tag = ?", name)
	row, err := exactTag(rows, err, name)
	if err != nil {
		return model.Tag{}, err
	}
	tag := row.tag(s.opts.Region)
	return tag, checkTagRow(tag)
}

// exactTag is the row that was found, if it has exactly the name.
func exactTag(rows []tagRow, err error, name string) (tagRow, error) {
	unknown := model.UnknownTag(name)
	row, err := oneRow(rows, err, unknown)
	if err == nil && row.BizTag != name {
		err = unknown
	}
	return row, err
}

// readTags reads the tags of a condition.
func (s *Store) readTags(ctx context.Context, where string, args ...any) (rows []tagRow, err error) {
	const op = "load the tags"
	ctx, end := s.observe(ctx, op)
	defer func() { end(err) }()
	rows, err = query[[]tagRow](s.gorm.WithContext(ctx), "read",
		"SELECT "+s.tagColumns()+" FROM "+tagTable+" AS t"+joinNumber+" WHERE "+where, args...)
	return rows, s.explain(op, err)
}

// usableTags are the tags of rows that can be used, in their order.
func (s *Store) usableTags(rows []tagRow) []model.Tag {
	tags := make([]model.Tag, 0, len(rows))
	for _, row := range rows {
		tag := row.tag(s.opts.Region)
		if err := checkTagRow(tag); err == nil {
			tags = append(tags, tag)
		} else if s.opts.OnBadRow != nil {
			s.opts.OnBadRow(err)
		}
	}
	return tags
}

// checkTagRow refuses, with model.ErrInvalidArgument, a row that cannot be used.
func checkTagRow(tag model.Tag) error {
	_, numbers := tag.Numbers()
	if err := cmp.Or(model.CheckTag(tag.Name), checkTagStep(tag.Step), numbers); err != nil {
		return fmt.Errorf("%s row %q cannot be used: %w", tagTable, tag.Name, err)
	}
	return nil
}

func checkTagStep(step int64) error {
	if step < 1 || step > model.MaxTagStep {
		return fmt.Errorf("%w: `step` must be in 1…%d, not %d", model.ErrInvalidArgument, int64(model.MaxTagStep), step)
	}
	return nil
}

// checkNewTag refuses, with model.ErrInvalidArgument, what the table could not
// hold and a tag that has no segment left.
func checkNewTag(tag model.Tag) error {
	err := cmp.Or(model.CheckTag(tag.Name), checkTagStep(tag.Step))
	most := model.MaxTagNumber(tag.ShardBits())
	if tag.Pattern == "" || tag.ShardBits() > 0 { // IDs of a business number have its period above the region
		most = tag.Region.MaxNumber(most)
	}
	switch most += 1 - tag.Step; {
	case err != nil:
		return err
	case tag.MaxID < 1 || tag.MaxID > most:
		return fmt.Errorf("%w: `maxId` must be in 1…%d, not %d: it is the first ID to issue, or in a region, or with "+
			"shard bits, the first number, and a step must fit above it", model.ErrInvalidArgument, most, tag.MaxID)
	case utf8.RuneCountInString(tag.Description) > maxTagDescription:
		return fmt.Errorf("%w: `description` must have at most %d characters", model.ErrInvalidArgument,
			maxTagDescription)
	}
	return nil
}

// AllocateTag takes the next segment of a tag, in one transaction under the row's
// lock. When the transaction fails, or its COMMIT is not acknowledged, the segment
// is never issued. Safe for concurrent use, over processes and with Leaf's own
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
		stored, err := row.Numbering.Numbers()
		if err == nil && (!stored.Same(req.Numbers) || row.Numbering.ShardBits() != req.ShardBits) {
			err = fmt.Errorf("%w: tag %q has %v in %s and had others when the tags were read: these never change",
				model.ErrInvalidArgument, req.Tag, row.Numbering, numberTable)
		}
		if err != nil {
			return segment, err
		}
		req.Region, req.Changed = s.opts.Region, m.Changes > row.Counter.LastChange
		_, err = s.take(tx, m, tagStorage(), []countedRow{row.counted(m)}, func(
			_ int, c model.Counter, mark int64,
		) (next model.Counter, _ bool, err error) {
			segment, next, err = req.Next(c, row.Step, mark, m.now, m.local)
			return next, true, howToConfirm(err, "ID", "--tag "+req.Tag)
		})
		return segment, err
	})
}

// lockTag reads the row of the exact name, and what outlives it, and locks it. Its MaxID is raised to what a
// tag of the name had issued before it was deleted. How IDs are shown never changes, and on MySQL it is not locked:
// that would take the right to change it. The error may be model.ErrUnknownTag.
func (s *Store) lockTag(tx *gorm.DB, name string) (tagRow, error) {
	found, err := query[[]tagRow](tx, "lock the row", "SELECT "+s.tagColumns()+", d.max_id AS buried FROM "+tagTable+
		" AS t LEFT JOIN "+deletedTagTable+" AS d ON d.biz_tag = t.biz_tag"+joinNumber+" WHERE t.biz_tag = ?"+
		s.lockOf("t, d"), name)
	row, err := exactTag(found, err, name)
	row.Stored, row.MaxID = row.MaxID, max(row.MaxID, row.Buried)
	return row, err
}

// counted is what the row keeps of its counter. Where another program has raised max_id since, no mark covers it.
func (r tagRow) counted(m *moment) countedRow {
	row := countedRow{
		counterRow: r.Counter, last: max(r.MaxID, 1) - 1, mark: r.mark(),
		unmarked: r.OwnMaxID != 0 && r.OwnMaxID != r.Stored,
		rate:     m.tagRate, rateBefore: func(c witness.Change) int64 { return c.TagRate },
	}
	row.key, row.as = r.BizTag, []any{r.BizTag, r.Stored}
	row.further = func(next model.Counter) []any { return []any{next.Last + 1} }
	if numbers, err := r.Numbering.Numbers(); err == nil && numbers != nil {
		row.periodBits = numbers.Bits()
	}
	return row
}

// mark is the name of the tag at the witness.
func (r tagRow) mark() string { return "t:" + r.BizTag }

// tagStorage is that of leaf_alloc, whose max_id is the first ID that has not been issued.
func tagStorage() storage {
	return storage{
		table: tagTable, key: "biz_tag", as: "(biz_tag = ? AND max_id = ?)", counter: counterColumns(), above: 1,
		further: []string{"own_max_id"}, always: ", update_time = CURRENT_TIMESTAMP",
	}
}

// CreateTag makes a tag and answers it. It begins at MaxID, and above what a tag of the name had issued before it was
// deleted. Its row accounts for no change of the server: the first segment leaves out what a tag of the name may have
// issued that the database lacks. Errors: model.ErrInvalidArgument, model.ErrExists, model.ErrRefused for other numbers
// than the tag had before, *model.StoreError.
func (s *Store) CreateTag(ctx context.Context, tag model.Tag) (model.Tag, error) {
	op := fmt.Sprintf("add tag %q", tag.Name)
	tag.Region = s.opts.Region
	if err := cmp.Or(checkNumber(&tag), checkNewTag(tag), model.CheckText(tag.Name, tag.Description)); err != nil {
		return model.Tag{}, err
	}
	return withMoment(ctx, s, op, []need{toShare}, func(tx *gorm.DB, m *moment) (made model.Tag, err error) {
		err = tx.Exec("INSERT INTO "+tagTable+" (biz_tag, max_id, step, description) VALUES (?, ?, ?, ?)",
			tag.Name, tag.MaxID, tag.Step, tag.Description).Error
		if isDuplicate(err) {
			return made, fmt.Errorf("%w: %w: %q", model.Remedy(takeAnother), model.ErrExists, tag.Name)
		}
		if err != nil {
			return made, err
		}
		kept, err := s.lockTag(tx, tag.Name)
		if err == nil {
			err = keepNumber(tx, tag, kept)
		}
		if err == nil && kept.Buried > tag.MaxID {
			err = write(tx, "continue above what was issued before",
				"UPDATE "+tagTable+" SET max_id = ? WHERE biz_tag = ?", kept.Buried, tag.Name)
		}
		if err != nil {
			return made, err
		}
		made = tag
		made.MaxID, made.UpdatedAt = max(tag.MaxID, kept.Buried), m.now.Truncate(time.Second)
		return made, nil
	})
}

// keepNumber notes how the IDs of a new tag are shown; kept is its row, with what a tag of the name had before
// it was deleted. A tag that comes back is shown as it was: the error is model.ErrRefused otherwise.
func keepNumber(tx *gorm.DB, tag model.Tag, kept tagRow) error {
	switch was := kept.Numbering; {
	case was == tag.Numbering:
		return nil
	case was != model.Numbering{}:
		return fmt.Errorf("%w: %w: with others its IDs could repeat", model.Do("give tag %q %v, as before it was "+
			"deleted, or add a tag of another name", tag.Name, was), model.ErrRefused)
	case kept.Buried > 1:
		return fmt.Errorf("%w: %w: tag %q had plain IDs before it was deleted",
			model.Do("add a tag of another name for %v", tag.Numbering), model.ErrRefused, tag.Name)
	}
	return write(tx, "note how the tag's IDs are shown",
		"INSERT INTO "+numberTable+" (biz_tag, pattern, reset_by, zone, overflow) VALUES (?, ?, ?, ?, ?)",
		tag.Name, tag.Pattern, string(tag.Reset), tag.Zone, string(tag.Overflow))
}

// checkNumber refuses, with model.ErrInvalidArgument, a new tag whose IDs could not be shown,
// and completes its numbering.
func checkNumber(tag *model.Tag) error {
	numbers, err := tag.Numbers()
	if err != nil || numbers == nil {
		return err
	}
	tag.Numbering = numbers.Numbering
	if tag.MaxID != 1 && tag.Reset != model.ResetNone {
		return fmt.Errorf("%w: give no `maxId`: the sequence of a tag with reset %s begins at 1",
			model.ErrInvalidArgument, tag.Reset)
	}
	return nil
}

// ChangeTag changes a tag and answers it as it was and as it is. Errors:
// model.ErrUnknownTag, ErrInvalidArgument, ErrRefused for a max_id that would go
// down, *model.StoreError.
func (s *Store) ChangeTag(
	ctx context.Context, name string, change model.TagChange,
) (before, after model.Tag, err error) {
	op := fmt.Sprintf("change tag %q", name)
	err = s.inMoment(ctx, op, []need{toShare}, func(tx *gorm.DB, m *moment) error {
		row, err := s.lockTag(tx, name)
		if err != nil {
			return err
		}
		before = row.tag(s.opts.Region)
		current := before
		before.MaxID = row.Stored
		current.MaxID = max(row.MaxID, 1) // it includes what the tag had before it was deleted
		next, err := change.Apply(current)
		if err := cmp.Or(err, checkNewTag(next)); err != nil {
			return err
		}
		if err := m.checkRaise(current, next.MaxID); err != nil {
			return err
		}
		err = write(tx, "store", "UPDATE "+tagTable+" SET max_id = ?, step = ?, description = ?, "+
			"update_time = CURRENT_TIMESTAMP WHERE biz_tag = ?", next.MaxID, next.Step, next.Description, name)
		if err == nil && next.MaxID > current.MaxID { // a copy that lacks it must not walk into it
			err = s.raiseMarks(ctx, m, []witness.Mark{{Counter: row.mark(), Value: next.MaxID - 1}}, nil)
		}
		after, after.UpdatedAt = next, m.now.Truncate(time.Second)
		return err
	})
	return before, after, s.answer(ctx, op, err)
}

// checkRaise refuses, with model.ErrRefused, to raise max_id into a period that has not
// begun: until then texts would show its date.
func (m moment) checkRaise(tag model.Tag, maxID int64) error {
	numbers, err := tag.Numbers()
	if err != nil || numbers == nil || maxID == tag.MaxID {
		return err
	}
	period, err := numbers.Period(m.local)
	if err == nil && numbers.PeriodOf(maxID) > max(period, numbers.PeriodOf(tag.MaxID)) {
		err = fmt.Errorf("%w: %w: %d is in a period of tag %q that has not begun",
			model.Do("give a number of a period that has begun"), model.ErrRefused, maxID, tag.Name)
	}
	return cmp.Or(err, m.apart)
}

// DeleteTag removes a tag and remembers in the same transaction what it had handed
// out, so that it continues above that should it come back. It answers what was
// deleted. Errors: model.ErrUnknownTag, *model.StoreError.
func (s *Store) DeleteTag(ctx context.Context, name string) (model.Tag, error) {
	op, needs := fmt.Sprintf("delete tag %q", name), []need{toShare, toDecide}
	return withMoment(ctx, s, op, needs, func(tx *gorm.DB, m *moment) (tag model.Tag, err error) {
		row, err := s.lockTag(tx, name)
		if err != nil {
			return tag, err
		}
		tag = row.tag(s.opts.Region)
		tag.MaxID = row.Stored
		counters, marks, err := s.readCounters(tx, m, []countedRow{row.counted(m)})
		if err != nil {
			return tag, err
		}
		most := int64(model.MaxTagID - 1)
		if row.counted(m).periodBits > 0 { // what is in doubt lies elsewhere than above max_id
			most = max(counters[0].Last, marks[0])
		}
		last, err := highestIssued(counters[0], marks[0], most, fmt.Sprintf("IDs of tag %q", name), "--tag "+name)
		if err != nil {
			return tag, err
		}
		if err := s.buryTag(tx, name, last+1); err != nil {
			return tag, err
		}
		return tag, write(tx, "delete the row", "DELETE FROM "+tagTable+" WHERE biz_tag = ?", name)
	})
}

// ConfirmTag is ConfirmApp for a tag.
func (s *Store) ConfirmTag(ctx context.Context, tag string) (int64, error) {
	op, needs := fmt.Sprintf("confirm tag %q", tag), []need{toShare, toDecide}
	return withMoment(ctx, s, op, needs, func(tx *gorm.DB, m *moment) (int64, error) {
		row, err := s.lockTag(tx, tag)
		if err != nil {
			return 0, err
		}
		return s.raise(tx, m, tagStorage(), []countedRow{row.counted(m)}, true)
	})
}
