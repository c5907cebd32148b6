package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// spaceRests is how long a deleted space is not made again: a replica may have it for the length
// of a lease, which gives numbers of sections that the new one may not have.
const spaceRests = 15 * time.Second

// CreateSpace makes a space. One that there was before begins above what it had issued.
// Errors: model.ErrExists, ErrInvalidArgument, ErrRefused for one that was deleted a moment
// ago, *model.StoreError.
func (s *Store) CreateSpace(ctx context.Context, space model.Space) (model.Space, error) {
	if err := space.Validate(); err != nil {
		return space, err
	}
	const op = "add the space"
	err := s.inMoment(ctx, op, []need{toOwn}, func(tx *gorm.DB, m *moment) error {
		err := write(tx, "insert the space", "INSERT INTO "+sequenceTable+" (name, sections, step) VALUES (?, ?, ?)",
			space.Name, space.Sections, space.Step)
		if isDuplicate(err) {
			err = fmt.Errorf("%w: %w: %q", model.Remedy(takeAnother), model.ErrExists, space.Name)
		}
		if err != nil {
			return err
		}
		grave, err := query[struct{ MaxID, DeletedAt int64 }](tx, "read what was issued before a deletion",
			"SELECT max_id, deleted_at FROM "+deletedSequenceTable+" WHERE name = ?", space.Name)
		if err != nil {
			return err
		}
		if wait := grave.DeletedAt + spaceRests.Milliseconds() - m.Now; wait > 0 && grave.DeletedAt > 0 {
			return fmt.Errorf("%w: %w: the space %q was deleted a moment ago, and replicas may still have it",
				model.Do("add it again in %d s", wait/1000+1), model.ErrRefused, space.Name)
		}
		known, err := s.readMarks(tx, m, []string{spaceCounter(space.Name)}, 0)
		if err != nil {
			return err
		}
		// A copy of the database may lack that there was a space of the name: the doubt of that is the rows', and for
		// a while others may give its numbers.
		c := m.listCounted(counterRow{}, max(grave.MaxID, known[0]), "").counter(m)
		rows := make([]sectionRow, space.Sections)
		for i := range rows {
			rows[i] = sectionRow{Space: space.Name, Section: i, MaxID: c.Last,
				Counter: counterRow{Doubt: c.Doubt, LastChange: m.Changes}}
			if m.Changes > 0 && m.now.Sub(m.times().Since) < spaceRests {
				rows[i].Life = model.UnknownLife
			}
		}
		return tx.Table(sectionTable).CreateInBatches(rows, 1000).Error
	})
	return space, s.answer(ctx, op, err)
}

// ChangeSpace gives a space another step. Errors: model.ErrUnknownSpace, ErrInvalidArgument,
// *model.StoreError.
func (s *Store) ChangeSpace(ctx context.Context, name string, step int64) (before, after model.Space, err error) {
	err = s.do(ctx, "change the space", func(tx *gorm.DB) error {
		if _, before, err = s.lockSpace(tx, name); err != nil {
			return err
		}
		after = before
		after.Step = step
		if err := after.Validate(); err != nil {
			return err
		}
		return write(tx, "store the space", "UPDATE "+sequenceTable+" SET step = ? WHERE name = ?", step, name)
	})
	return before, after, err
}

func (s *Store) lockSpace(tx *gorm.DB, name string) (m moment, space model.Space, err error) {
	if m, err = s.moment(tx, toOwn, toDecide); err != nil {
		return m, space, err
	}
	found, err := query[[]model.Space](tx, "read the space",
		"SELECT name, sections, step FROM "+sequenceTable+" WHERE name = ?", name)
	space, err = oneRow(found, err, model.UnknownSpace(name))
	return m, space, err
}

// DeleteSpace removes a space, and remembers what its sections had issued, so that one of
// that name continues above it. The leases of the lives of Redis that had them end, so that a replica
// that stood still meanwhile does not continue with them. Errors: model.ErrUnknownSpace, ErrRefused
// while it is not known what they had issued, *model.StoreError.
func (s *Store) DeleteSpace(ctx context.Context, name string) (model.Space, error) {
	return within(ctx, s, "delete the space", func(tx *gorm.DB) (space model.Space, err error) {
		m, space, err := s.lockSpace(tx, name)
		if err != nil {
			return space, err
		}
		rows, err := s.lockSpaceSections(tx, name)
		if err != nil {
			return space, err
		}
		marks, err := s.readMarks(tx, &m, []string{spaceCounter(name)}, 0)
		if err != nil {
			return space, err
		}
		highest, lost := marks[0], map[string]bool{}
		for _, row := range rows {
			last, err := highestIssued(row.counted(&m).counter(&m), highest, model.MaxSequence,
				fmt.Sprintf("numbers of %q", name), "--space "+name)
			if err != nil {
				return space, err
			}
			highest, lost[model.ServerOf(row.Life)] = max(highest, last), true
		}
		if _, err = endLeases(tx, lost); err != nil {
			return space, err
		}
		if err := s.burySpace(tx, name, highest, m.Now); err != nil {
			return space, err
		}
		err = write(tx, "delete the sections", "DELETE FROM "+sectionTable+" WHERE space = ?", name)
		if err != nil {
			return space, err
		}
		return space, write(tx, "delete the space", "DELETE FROM "+sequenceTable+" WHERE name = ?", name)
	})
}

func (s *Store) lockSpaceSections(tx *gorm.DB, space string) ([]sectionRow, error) {
	return query[[]sectionRow](tx, "lock the sections", "SELECT * FROM "+sectionTable+
		" WHERE space = ? ORDER BY section"+s.forUpdate(), space)
}

// ConfirmSpace ends the doubts about the sections of a space: the caller says that max_id of each
// is right. It gives how many waited for that. Errors: model.ErrUnknownSpace, *model.StoreError.
func (s *Store) ConfirmSpace(ctx context.Context, name string) (int64, error) {
	return within(ctx, s, fmt.Sprintf("confirm space %q", name), func(tx *gorm.DB) (confirmed int64, err error) {
		m, _, err := s.lockSpace(tx, name)
		if err != nil {
			return 0, err
		}
		rows, err := s.lockSpaceSections(tx, name)
		if err != nil {
			return 0, err
		}
		for part := range slices.Chunk(rows, 64) {
			n, err := s.raiseSections(tx, &m, part, true)
			if err != nil {
				return 0, err
			}
			confirmed += n
		}
		return confirmed, nil
	})
}

// Spaces gives all spaces in order, with how much of each was used. Errors: *model.StoreError.
func (s *Store) Spaces(ctx context.Context) ([]model.SpaceUse, error) {
	return s.usesOfSpaces(ctx, "")
}

// Space gives one. Errors: model.ErrUnknownSpace, *model.StoreError.
func (s *Store) Space(ctx context.Context, name string) (model.SpaceUse, error) {
	found, err := s.usesOfSpaces(ctx, " WHERE name = ?", name)
	return oneRow(found, err, model.UnknownSpace(name))
}

func (s *Store) usesOfSpaces(ctx context.Context, where string, args ...any) ([]model.SpaceUse, error) {
	found, err := query[[]model.SpaceUse](s.gorm.WithContext(ctx), "read", "SELECT name, sections, step, "+
		"(SELECT COUNT(*) FROM "+sectionTable+" WHERE space = name AND term > 0) AS used, "+
		"(SELECT COALESCE(MAX(max_id), 0) FROM "+sectionTable+" WHERE space = name) AS highest FROM "+
		sequenceTable+where+" ORDER BY name", args...)
	return found, s.explain("read the spaces", err)
}
