package sqlstore

import (
	"cmp"
	"context"
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
	Updated     int64 // Unix s
	ReadOnly    string
	// Stored is the row's own max_id where MaxID was raised to what had been handed
	// out before the tag was deleted; see lockTag.
	Stored int64 `gorm:"-"`
}

// tag checks the row and gives its tag; the error is model.ErrInvalidArgument.
func (r tagRow) tag() (model.Tag, error) {
	err := model.CheckTag(r.BizTag)
	if err == nil {
		err = checkStep(r.Step)
	}
	if err != nil {
		return model.Tag{}, fmt.Errorf("%s row %q cannot be used: %w", tagTable, r.BizTag, err)
	}
	return r.asIs(), nil
}

// asIs is the row's tag whether it can be used or not.
func (r tagRow) asIs() model.Tag {
	return model.Tag{Name: r.BizTag, MaxID: r.MaxID, Step: r.Step, Description: r.Description, UpdatedAt: time.Unix(r.Updated, 0)}
}

func checkStep(step int64) error {
	if step < 1 || step > model.MaxTagStep {
		return fmt.Errorf("%w: step %d is not in 1…%d", model.ErrInvalidArgument, step, int64(model.MaxTagStep))
	}
	return nil
}

// AllocateTag takes the next segment of a tag, in one transaction under the row's
// lock. Which names are one tag is the table's to say: where its collation
// ignores case, "A" takes from the row "a" and never what that row gave before.
// When the transaction fails, or its COMMIT is not acknowledged, the segment is
// lost for good. Safe for concurrent use, over processes and with Leaf's own
// programs. Errors: model.ErrUnknownTag, model.ErrLimitReached,
// model.ErrInvalidArgument for a row that cannot be used, *model.StoreError.
func (s *Store) AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error) {
	var segment model.TagSegment
	err := s.inTx(ctx, func(tx *gorm.DB) (err error) {
		segment, err = s.allocateTag(tx, req)
		return err
	})
	if err != nil {
		return model.TagSegment{}, s.answer(ctx, "allocate a segment", err)
	}
	return segment, nil
}

func (s *Store) allocateTag(tx *gorm.DB, req model.TagRequest) (model.TagSegment, error) {
	row, err := s.lockTag(tx, req.Tag)
	if err != nil {
		return model.TagSegment{}, err
	}
	segment, err := req.Next(row.MaxID, row.Step)
	if err != nil {
		return model.TagSegment{}, err
	}
	res := tx.Exec("UPDATE "+tagTable+" SET max_id = ?, update_time = CURRENT_TIMESTAMP WHERE biz_tag = ? AND max_id = ?",
		segment.End, req.Tag, row.Stored)
	if res.Error != nil || res.RowsAffected != 1 {
		return model.TagSegment{}, fmt.Errorf("store: %w", cmp.Or(res.Error, errRowChanged))
	}
	return segment, nil
}

// lockTag reads the latest committed row and locks it. Its MaxID is raised to what a
// tag of the name had handed out before it was deleted.
func (s *Store) lockTag(tx *gorm.DB, name string) (tagRow, error) {
	var found []tagRow
	err := tx.Raw("SELECT biz_tag, max_id, step, "+s.readOnlyColumn()+" AS read_only FROM "+tagTable+
		" WHERE biz_tag = ?"+s.forUpdate(), name).Scan(&found).Error
	switch {
	case err != nil:
		return tagRow{}, fmt.Errorf("lock the row: %w", err)
	case len(found) == 0:
		return tagRow{}, fmt.Errorf("%w: tag %q", model.ErrUnknownTag, name)
	case isOn(found[0].ReadOnly):
		return tagRow{}, errReadOnly
	}
	row := found[0]
	before, err := tagTombstone(tx, name)
	row.Stored, row.MaxID = row.MaxID, max(row.MaxID, before)
	return row, err
}

// Tags reads every tag, ordered by name. A row that cannot be used is left out
// and told to Options.OnBadRow. Errors: *model.StoreError.
func (s *Store) Tags(ctx context.Context) ([]model.Tag, error) {
	rows, err := s.tagRows(s.query(ctx), "1 = 1")
	if err != nil {
		return nil, s.explain("load the tags", err)
	}
	tags := make([]model.Tag, 0, len(rows))
	for _, row := range rows {
		tag, err := row.tag()
		if err == nil {
			tags = append(tags, tag)
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
	rows, err := s.tagRows(s.query(ctx), "biz_tag = ?", name)
	if err != nil {
		return model.Tag{}, s.explain("read a tag", err)
	}
	if len(rows) == 0 {
		return model.Tag{}, fmt.Errorf("%w: tag %q", model.ErrUnknownTag, name)
	}
	return rows[0].tag()
}

// tagRows asks for seconds since 1970, which no time zone of the server's or of
// the connection changes.
func (s *Store) tagRows(g *gorm.DB, where string, args ...any) (rows []tagRow, err error) {
	updated := "UNIX_TIMESTAMP(update_time)"
	if s.server == nil {
		updated = "CAST(strftime('%s', update_time) AS INTEGER)"
	}
	err = g.Raw("SELECT biz_tag, max_id, step, description, "+updated+" AS updated FROM "+tagTable+
		" WHERE "+where, args...).Scan(&rows).Error
	return rows, err
}

// AddTag provisions a tag. Its first segment starts at MaxID, or above what a tag of
// the name had handed out before it was deleted. Errors: model.ErrInvalidArgument,
// model.ErrTagExists, *model.StoreError.
func (s *Store) AddTag(ctx context.Context, tag model.Tag) error {
	_, err := s.CreateTag(ctx, tag)
	return err
}

// checkNewTag refuses, with model.ErrInvalidArgument, what the table could not
// hold and a tag that has no segment left.
func checkNewTag(tag model.Tag) error {
	if err := model.CheckTag(tag.Name); err != nil {
		return err
	}
	if err := checkStep(tag.Step); err != nil {
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
