package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// tagsAtOnce is how many rows one statement reads: a few hundredths of a second's work,
// so that it ends in time on a busy server, too.
const tagsAtOnce = 5000

// Tags reads every tag, ordered by name. A row that cannot be used is left out
// and told to Options.OnBadRow. Errors: *model.StoreError.
func (s *Store) Tags(ctx context.Context) ([]model.Tag, error) {
	tags, last, err := s.readTags(ctx, "1 = 1")
	for err == nil && last != "" {
		var more []model.Tag
		more, last, err = s.readTags(ctx, "biz_tag > ?", last)
		tags = append(tags, more...)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tags, func(a, b model.Tag) int { return cmp.Compare(a.Name, b.Name) })
	return tags, nil
}

// TagsNamed reads tags as Tags does, those of some names, at most tagsAtOnce. Which names are
// the same is the table's to say.
func (s *Store) TagsNamed(ctx context.Context, names []string) ([]model.Tag, error) {
	tags, _, err := s.readTags(ctx, "biz_tag IN ?", names)
	return tags, err
}

// readTags reads the first tagsAtOnce tags of a condition; last is the name of the last
// row when there are so many.
func (s *Store) readTags(ctx context.Context, where string, args ...any) (tags []model.Tag, last string, err error) {
	const op = "load the tags"
	ctx, end := s.observe(ctx, op)
	defer func() { end(err) }()
	rows, err := s.tagRows(s.gorm.WithContext(ctx), where+" ORDER BY biz_tag LIMIT "+strconv.Itoa(tagsAtOnce), args...)
	if err != nil || len(rows) == 0 {
		return nil, "", s.explain(op, err)
	}
	last = rows[len(rows)-1].Name
	numbers, err := numbersOf(s.gorm.WithContext(ctx), where+" AND biz_tag <= ?", append(args, last)...)
	if err != nil {
		return nil, "", s.explain(op, err)
	}
	for i := range rows {
		rows[i].Numbering = numbers[rows[i].Name]
	}
	if len(rows) < tagsAtOnce {
		last = ""
	}
	return slices.DeleteFunc(rows, func(tag model.Tag) bool {
		err := checkRow(tag)
		if err != nil && s.opts.OnBadRow != nil {
			s.opts.OnBadRow(err)
		}
		return err != nil
	}), last, nil
}

// Tag reads one tag; the row's own name is in the answer. Errors:
// model.ErrUnknownTag, model.ErrInvalidArgument for a row that cannot be used,
// *model.StoreError.
func (s *Store) Tag(ctx context.Context, name string) (model.Tag, error) {
	tag, err := s.findTag(s.gorm.WithContext(ctx), name)
	switch {
	case err == nil:
		err = checkRow(tag)
	case !errors.Is(err, model.ErrUnknownTag):
		err = s.explain("read a tag", err)
	}
	return tag, err
}

// oneTag reads a tag by its exact name: another one that the table's collation takes
// for the same must not be changed in its place. A row that cannot be used is given all
// the same: it can still be mended or deleted. The error may be model.ErrUnknownTag.
func (s *Store) oneTag(g *gorm.DB, name string) (model.Tag, error) {
	tag, err := s.findTag(g, name)
	if err == nil && tag.Name != name {
		err = fmt.Errorf("%w: tag %q: the table has %q", model.ErrUnknownTag, name, tag.Name)
	}
	return tag, err
}

func (s *Store) findTag(g *gorm.DB, name string) (model.Tag, error) {
	rows, err := s.tagRows(g, "biz_tag = ?", name)
	switch {
	case err != nil:
		return model.Tag{}, err
	case len(rows) == 0:
		return model.Tag{}, fmt.Errorf("%w: tag %q", model.ErrUnknownTag, name)
	}
	kept, err := keptOfTag(g, name)
	rows[0].Numbering = kept.Numbering
	return rows[0], err
}

// tagRows asks for seconds since 1970, which no time zone of the server's or of
// the connection changes. A NULL reads as zero.
func (s *Store) tagRows(g *gorm.DB, where string, args ...any) (tags []model.Tag, err error) {
	updated := s.either("UNIX_TIMESTAMP(update_time)", "CAST(strftime('%s', update_time) AS INTEGER)")
	rows, err := query[[]struct {
		Name                string
		MaxID, Step, Stored int64
		Description         string
	}](g, "read", "SELECT biz_tag AS name, COALESCE(max_id, 0) AS max_id, COALESCE(step, 0) AS step, "+
		"COALESCE("+updated+", 0) AS stored, COALESCE(description, '') AS description FROM "+tagTable+" WHERE "+where,
		args...)
	for _, r := range rows {
		tags = append(tags, model.Tag{Name: r.Name, MaxID: r.MaxID, Step: r.Step, Description: r.Description,
			UpdatedAt: time.Unix(r.Stored, 0), Region: s.opts.Region})
	}
	return tags, err
}

// checkRow refuses, with model.ErrInvalidArgument, a row that cannot be used.
func checkRow(tag model.Tag) error {
	_, numbers := tag.Numbers()
	if err := cmp.Or(model.CheckTag(tag.Name), checkStep(tag.Step), numbers); err != nil {
		return fmt.Errorf("%s row %q cannot be used: %w", tagTable, tag.Name, err)
	}
	return nil
}

const (
	numberColumns = "biz_tag, pattern, reset_by, zone, overflow"
	numberRows    = "SELECT biz_tag, pattern, reset_by AS `reset`, zone, overflow FROM " + numberTable + " WHERE "
)

// tagKept is what outlives a tag of a name: the first ID that it had not handed out when it was
// deleted, 0 for one that never was, and how its IDs are shown, zero for a plain tag.
type tagKept struct {
	Buried int64
	model.Numbering
}

// keptOfTag reads that without a lock. It must follow the statement that locked or inserted the tag's
// row: it then sees the deletion of whatever was there before it.
func keptOfTag(tx *gorm.DB, name string) (tagKept, error) {
	return query[tagKept](tx, "read what outlives a tag",
		"SELECT d.max_id AS buried, n.pattern, n.reset_by AS `reset`, n.zone, n.overflow FROM (SELECT 1) AS one "+
			"LEFT JOIN "+deletedTagTable+" AS d ON d.biz_tag = ? LEFT JOIN "+numberTable+" AS n ON n.biz_tag = ?",
		name, name)
}

// numbersOf is how the IDs of the tags of a condition are shown.
func numbersOf(tx *gorm.DB, where string, args ...any) (map[string]model.Numbering, error) {
	rows, err := query[[]struct {
		BizTag string
		model.Numbering
	}](tx, "read how the IDs of tags are shown", numberRows+where, args...)
	all := make(map[string]model.Numbering, len(rows))
	for _, row := range rows {
		all[row.BizTag] = row.Numbering
	}
	return all, err
}

// keepNumber notes how the IDs of a new tag are shown; kept is what a tag of the name had before
// it was deleted. A tag that comes back is shown as it was: the error is model.ErrRefused otherwise.
func keepNumber(tx *gorm.DB, tag model.Tag, kept tagKept) error {
	switch was := kept.Numbering; {
	case was == model.Numbering{} && tag.Numbering == model.Numbering{}:
		return nil
	case was == tag.Numbering: // its name may differ by what the collation ignores
		return write(tx, "note how the tag's IDs are shown", "UPDATE "+numberTable+" SET biz_tag = ? WHERE biz_tag = ?",
			tag.Name, tag.Name)
	case was != model.Numbering{}:
		return fmt.Errorf("%w: tag %q had the pattern %s with reset %s, zone %s and overflow %s before it was "+
			"deleted, and texts of another could repeat its texts: give the same, or add a tag of another name",
			model.ErrRefused, tag.Name, was.Pattern, was.Reset, was.Zone, was.Overflow)
	case kept.Buried > 0:
		return fmt.Errorf("%w: tag %q had plain IDs before it was deleted: add one with a pattern under another "+
			"name", model.ErrRefused, tag.Name)
	}
	return write(tx, "note how the tag's IDs are shown",
		"INSERT INTO "+numberTable+" ("+numberColumns+") VALUES (?, ?, ?, ?, ?)",
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
		return fmt.Errorf("%w: the sequence of a tag with reset %s begins at 1, so max_id cannot be given",
			model.ErrInvalidArgument, tag.Reset)
	}
	return nil
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
		err = fmt.Errorf("%w: max_id %d is in a period of tag %q that has not begun", model.ErrRefused, maxID, tag.Name)
	}
	return cmp.Or(err, m.apart)
}
