package sqlstore

import (
	"cmp"
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

// numberRow is a row of shardid_number: how the IDs of a tag are shown.
type numberRow struct {
	BizTag   string
	Pattern  string
	ResetBy  string
	Zone     string
	Overflow string
}

// numbering is zero for a row that does not exist.
func (r numberRow) numbering() model.Numbering {
	return model.Numbering{Pattern: r.Pattern, Reset: model.Reset(r.ResetBy), Zone: r.Zone, Overflow: model.Overflow(r.Overflow)}
}

const (
	numberColumns = "biz_tag, pattern, reset_by, zone, overflow"
	numberRows    = "SELECT " + numberColumns + " FROM " + numberTable + " WHERE "
)

// numberOf is how the IDs of a tag are shown, zero for those of a plain tag. It must follow
// the statement that read the tag's row: a row of shardid_number is made with its tag and
// never changed nor removed.
func numberOf(tx *gorm.DB, name string) (model.Numbering, error) {
	row, err := query[numberRow](tx, "read how the tag's IDs are shown", numberRows+"biz_tag = ?", name)
	return row.numbering(), err
}

// numbersOf is numberOf for the tags of a condition.
func numbersOf(tx *gorm.DB, where string, args ...any) (map[string]model.Numbering, error) {
	rows, err := query[[]numberRow](tx, "read how the IDs of tags are shown", numberRows+where, args...)
	all := make(map[string]model.Numbering, len(rows))
	for _, row := range rows {
		all[row.BizTag] = row.numbering()
	}
	return all, err
}

// keepNumber notes how the IDs of a new tag are shown; before is what a tag of the name had
// handed out before it was deleted. A tag that comes back is shown as it was: the error is
// model.ErrRefused otherwise.
func keepNumber(tx *gorm.DB, tag model.Tag, before int64) error {
	was, err := numberOf(tx, tag.Name)
	switch {
	case err != nil:
		return err
	case was == model.Numbering{} && tag.Numbering == model.Numbering{}:
		return nil
	case was == tag.Numbering: // its name may differ by what the collation ignores
		return write(tx, "note how the tag's IDs are shown", "UPDATE "+numberTable+" SET biz_tag = ? WHERE biz_tag = ?", tag.Name, tag.Name)
	case was != model.Numbering{}:
		return fmt.Errorf("%w: tag %q had the pattern %s with reset %s, zone %s and overflow %s before it was deleted, and texts of another could repeat its texts: give the same, or add a tag of another name",
			model.ErrRefused, tag.Name, was.Pattern, was.Reset, was.Zone, was.Overflow)
	case before > 0:
		return fmt.Errorf("%w: tag %q had plain IDs before it was deleted: add one with a pattern under another name", model.ErrRefused, tag.Name)
	}
	return write(tx, "note how the tag's IDs are shown", "INSERT INTO "+numberTable+" ("+numberColumns+") VALUES (?, ?, ?, ?, ?)",
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
		return fmt.Errorf("%w: the sequence of a tag with reset %s begins at 1, so max_id cannot be given", model.ErrInvalidArgument, tag.Reset)
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
