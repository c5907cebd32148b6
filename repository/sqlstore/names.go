package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// nameRow is a row of shardid_name. Times are Unix ms. SeqBits has the shard bits from its ninth bit on: holders refuse
// a lease of a replica of 0.4, which does not know them.
type nameRow struct {
	Name                string
	EpochMs             int64
	WorkerBits, SeqBits uint
	HoldMs              int64
	WasHoldMs, SetAt    int64
	LowHoldMs, LowUntil int64
	MadeAt, DeletedAt   int64
	Leased              int64 `gorm:"->"` // its leases that live
}

func (r nameRow) name() model.Name {
	const ms = time.Millisecond
	return model.Name{
		Name: r.Name, Layout: model.NameLayout(r.EpochMs, r.WorkerBits, r.SeqBits&0xff, r.SeqBits>>8),
		Hold: time.Duration(r.HoldMs) * ms,
		Note: model.NameNote{
			WasHold: time.Duration(r.WasHoldMs) * ms, SetMs: r.SetAt,
			LowHold: time.Duration(r.LowHoldMs) * ms, LowMs: r.LowUntil,
		},
	}
}

// lockName reads the row of a name under its lock; as the first statement of the transaction
// it makes all that follow see what the others before it have stored. Errors: those of moment.
func (s *Store) lockName(tx *gorm.DB, name string) (rows []nameRow, at moment, err error) {
	rows, err = query[[]nameRow](tx, "lock the name", "SELECT * FROM "+nameTable+" WHERE name = ?"+
		s.forUpdate(), name)
	if err == nil {
		at, err = s.moment(tx, toCount)
	}
	return rows, at, err
}

// presentName is lockName of one that must be there. Errors: model.ErrUnknownName too.
func (s *Store) presentName(tx *gorm.DB, name string) (model.Name, moment, error) {
	rows, at, err := s.lockName(tx, name)
	row, err := oneRow(rows, err, model.UnknownName(name))
	if err == nil && row.DeletedAt != 0 {
		err = model.UnknownName(name)
	}
	return row.name(), at, err
}

// oneRow is the row that was found, or the error that says that there is none.
func oneRow[T any](rows []T, err, unknown error) (row T, _ error) {
	switch {
	case err != nil:
		return row, err
	case len(rows) == 0:
		return row, unknown
	}
	return rows[0], nil
}

// CreateName makes a name. One that was deleted comes back with the layout that it had, and its
// leases are remembered. Errors: model.ErrExists, ErrInvalidArgument, ErrRefused for another
// layout, *model.StoreError.
func (s *Store) CreateName(ctx context.Context, n model.Name) (model.Name, error) {
	return within(ctx, s, "add the name", func(tx *gorm.DB) (model.Name, error) {
		rows, at, err := s.lockName(tx, n.Name)
		if err = cmp.Or(err, n.Validate(at.now)); err != nil {
			return n, err
		}
		if _, count := s.opts.Region.Workers(n.WorkerBits); count == 0 {
			return n, fmt.Errorf("%w: give the name more `workerBits`: %d hold no worker ID of region %s",
				model.ErrInvalidArgument, n.WorkerBits, s.opts.Region)
		}
		if len(rows) > 0 {
			old := rows[0].name()
			switch {
			case rows[0].DeletedAt == 0:
				return n, fmt.Errorf("%w: %w: %q, with %s",
					model.Remedy(takeAnother), model.ErrExists, n.Name, old.LayoutText())
			case old.LayoutText() != n.LayoutText():
				return n, fmt.Errorf("%w: %w: IDs of the name %q were made with %s, and IDs of another layout may "+
					"equal them", model.Do("add it with the layout it had, or choose another name"),
					model.ErrRefused, n.Name, old.LayoutText())
			}
			n = old.WithHold(n.Hold, at.Now)
			return n, storeName(tx, n, 0)
		}
		n.Note = model.NameNote{}
		err = tx.Table(nameTable).Create(&nameRow{Name: n.Name, EpochMs: n.Epoch, WorkerBits: n.WorkerBits,
			SeqBits: n.SeqBits | n.ShardBits<<8, HoldMs: n.Hold.Milliseconds(), MadeAt: at.Now}).Error
		if isDuplicate(err) { // another operator was faster
			err = fmt.Errorf("%w: %w: %q", model.Remedy(takeAnother), model.ErrExists, n.Name)
		}
		return n, err
	})
}

// takeAnother is what to do about model.ErrExists.
const takeAnother = "leave it, by --if-missing if it is the same, or choose another name"

// storeName writes what may change of a name. It is deleted at a time, Unix ms, or there, at 0.
func storeName(tx *gorm.DB, n model.Name, deletedAt int64) error {
	return write(tx, "store the name", "UPDATE "+nameTable+" SET hold_ms = ?, was_hold_ms = ?, set_at = ?, "+
		"low_hold_ms = ?, low_until = ?, deleted_at = ? WHERE name = ?",
		n.Hold.Milliseconds(), n.Note.WasHold.Milliseconds(), n.Note.SetMs, n.Note.LowHold.Milliseconds(),
		n.Note.LowMs, deletedAt, n.Name)
}

// ChangeName gives a name another hold. A shorter one counts from the next renewal on, a longer
// one after model.RaiseDelay. Errors: model.ErrUnknownName, ErrInvalidArgument, *model.StoreError.
func (s *Store) ChangeName(ctx context.Context, name string, hold time.Duration) (
	before model.Name, after model.NameUse, err error,
) {
	err = s.do(ctx, "change the name", func(tx *gorm.DB) error {
		old, at, err := s.presentName(tx, name)
		if err = cmp.Or(err, model.CheckHold(hold)); err != nil {
			return err
		}
		if err := storeName(tx, old.WithHold(hold, at.Now), 0); err != nil {
			return err
		}
		found, err := usesOfNames(tx, at, " AND name = ?", name)
		if err == nil {
			before, after = old, found[0]
		}
		return err
	})
	return before, after, err
}

// DeleteName makes a name unknown, once none of its leases lives. Errors: model.ErrUnknownName,
// ErrRefused, *model.StoreError.
func (s *Store) DeleteName(ctx context.Context, name string) (model.Name, error) {
	return within(ctx, s, "delete the name", func(tx *gorm.DB) (model.Name, error) {
		n, at, err := s.presentName(tx, name)
		if err != nil {
			return n, err
		}
		last, err := query[int64](tx, "look for leases that live",
			"SELECT COALESCE(MAX(until_ms), 0) FROM "+leaseTable+" WHERE name = ? AND secret <> '' AND until_ms > ?",
			name, at.Now)
		if err == nil && last > 0 {
			err = fmt.Errorf("%w: %w: worker IDs of the name %q are leased until %s, and longer if they are renewed",
				model.Do("stop their holders, and wait"),
				model.ErrRefused, name, time.UnixMilli(last).UTC().Format(time.RFC3339))
		}
		if err != nil {
			return n, err
		}
		return n, storeName(tx, n, at.Now)
	})
}

// Names gives all names in order, with how much of each is in use. Errors: *model.StoreError.
func (s *Store) Names(ctx context.Context) ([]model.NameUse, error) {
	return look(ctx, s, "read the names", func(tx *gorm.DB, at moment) ([]model.NameUse, error) {
		return usesOfNames(tx, at, "")
	})
}

// Name gives one. Errors: model.ErrUnknownName, *model.StoreError.
func (s *Store) Name(ctx context.Context, name string) (model.NameUse, error) {
	return look(ctx, s, "read the names", func(tx *gorm.DB, at moment) (model.NameUse, error) {
		found, err := usesOfNames(tx, at, " AND name = ?", name)
		return oneRow(found, err, model.UnknownName(name))
	})
}

// usesOfNames reads names with how much of each is in use at a moment.
func usesOfNames(tx *gorm.DB, at moment, where string, args ...any) ([]model.NameUse, error) {
	rows, err := query[[]nameRow](tx, "read the names", "SELECT n.*, (SELECT COUNT(*) FROM "+leaseTable+
		" AS l WHERE l.name = n.name AND secret <> '' AND until_ms > ?) AS leased FROM "+nameTable+
		" AS n WHERE deleted_at = 0"+where+" ORDER BY name", append([]any{at.Now}, args...)...)
	names := make([]model.NameUse, len(rows))
	for i, r := range rows {
		names[i] = model.NameUse{Name: r.name(), Leased: r.Leased}
	}
	return names, err
}
