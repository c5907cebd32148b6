package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

// Renew stores Reserved, Expires and Reported; the first two never go down. It
// answers what is stored. Errors: model.ErrLeaseLost when the row is not the
// owner's any more, *model.StoreError when that is not known.
func (w *Workers) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	err := w.change(ctx, &lease, func(row workerRow, now int64) workerRow {
		row.ReservedUntil = max(row.ReservedUntil, lease.Reserved)
		row.ExpiresAt = max(row.ExpiresAt, lease.Expires)
		row.MaxTimestamp, row.OwnTimestamp = lease.Reported, lease.Reported
		row.ClaimedAt, row.SeenAt = 0, now
		return row
	})
	if err != nil {
		return model.Lease{}, w.store.answer(ctx, "renew worker ID", err)
	}
	return lease, nil
}

// Release gives the lease up: the same identity may follow at once, above its
// Reserved, the last time issued; others follow at and above its Expires. A lost
// lease is no error. Errors: *model.StoreError.
func (w *Workers) Release(ctx context.Context, lease model.Lease) error {
	err := w.change(ctx, &lease, func(row workerRow, _ int64) workerRow {
		bound := max(lease.Reserved, lease.After) // what came before this lease stays issued
		row.Token, row.ReservedUntil, row.ExpiresAt, row.ClaimedAt = "", bound, max(bound, lease.Expires), 0
		return row
	})
	if err != nil && !errors.Is(err, model.ErrLeaseLost) {
		return w.store.fail(ctx, "release worker ID", err)
	}
	return nil
}

// change edits the row of the owner's lease under its lock and puts what is then
// stored into the lease.
func (w *Workers) change(ctx context.Context, lease *model.Lease, edit func(row workerRow, now int64) workerRow) error {
	return w.store.inTx(ctx, func(tx *gorm.DB) error {
		row, at, err := w.own(tx, *lease)
		if err != nil {
			return err
		}
		row, err = storeWorker(tx, row, edit(row, at.Now))
		if err != nil {
			return err
		}
		lease.Reserved, lease.Expires = row.ReservedUntil, row.ExpiresAt
		lease.ServerTime, lease.KeptSince = at.Now, max(lease.KeptSince, at.kept)
		return nil
	})
}

// lockedWorker also says whether the server takes writes from ordinary users.
type lockedWorker struct {
	Row      workerRow `gorm:"embedded"`
	ReadOnly string
}

// own reads the latest committed row of the owner's lease and locks it.
func (w *Workers) own(tx *gorm.DB, lease model.Lease) (workerRow, moment, error) {
	var found []lockedWorker
	err := tx.Raw("SELECT "+workerColumns+", "+w.store.readOnlyColumn()+" AS read_only FROM "+workerTable+
		" WHERE id = ?"+w.store.forUpdate(), workerRowID(lease.WorkerID)).Scan(&found).Error
	switch {
	case err != nil:
		return workerRow{}, moment{}, fmt.Errorf("lock the row: %w", err)
	case len(found) == 0 || !found[0].Row.heldBy(lease.Owner):
		return workerRow{}, moment{}, fmt.Errorf("%w: worker ID %d is not held for %s", model.ErrLeaseLost, lease.WorkerID, lease.Owner.Address)
	case isOn(found[0].ReadOnly):
		return workerRow{}, moment{}, errReadOnly
	}
	at, err := w.store.moment(tx)
	return found[0].Row, at, err
}

// Peers gives the last report of every instance that renewed its lease, however
// long ago. Reports of other programs are left out, as they come without a time of
// the server's. Errors: *model.StoreError.
func (w *Workers) Peers(ctx context.Context) ([]model.WorkerPeer, error) {
	rows, err := readWorkers(w.store.query(ctx), poolRows+" AND seen_at > 0", model.SnowflakeWorkers)
	if err != nil {
		return nil, w.store.explain("read the instances", err)
	}
	peers := make([]model.WorkerPeer, 0, len(rows))
	for _, row := range rows {
		if !row.foreign() {
			peers = append(peers, model.WorkerPeer{Address: row.IPPort, WorkerID: row.workerID(), Reported: row.MaxTimestamp, Seen: row.SeenAt})
		}
	}
	return peers, nil
}
