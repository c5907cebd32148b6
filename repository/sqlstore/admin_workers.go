package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// freedPrefix begins the address of a row that an operator has freed; its ID follows,
// because addresses are unique. No owner has such an address: it has no port.
const freedPrefix = "freed/"

func (r workerRow) isFree() bool { return strings.HasPrefix(r.IPPort, freedPrefix) }

// freed is the row without an owner. Its bounds stay: whoever gets it next begins
// above them, whatever the clocks say by then.
func (r workerRow) freed() workerRow {
	bound := r.bound()
	r.IPPort, r.IP, r.Port, r.Identity, r.Token = fmt.Sprint(freedPrefix, r.ID), "", "", "", ""
	r.ReservedUntil, r.ExpiresAt, r.ClaimedAt, r.SeenAt = bound, bound, 0, 0
	r.OwnTimestamp = r.MaxTimestamp
	return r
}

// endsAt is when the last bound of the row has passed and another address may have
// its worker ID, Unix ms.
func (w *Workers) endsAt(r workerRow) int64 { return max(r.keptUntil(), r.bound()) + w.margin }

func (w *Workers) entry(r workerRow, now int64) model.WorkerEntry {
	e := model.WorkerEntry{
		WorkerID: r.workerID(), Address: r.IPPort, Foreign: r.foreign(), State: model.WorkerLeased,
		Reported: r.MaxTimestamp, Reserved: r.ReservedUntil, Expires: w.endsAt(r),
	}
	switch {
	case r.isFree():
		e.Address, e.State = "", model.WorkerFree
	case w.endsAt(r) < now:
		e.State = model.WorkerExpired
	}
	return e
}

// List gives every worker ID that has a row, in order of the rows. Errors:
// *model.StoreError.
func (w *Workers) List(ctx context.Context) (entries []model.WorkerEntry, err error) {
	err = w.store.inTx(ctx, func(tx *gorm.DB) error {
		at, err := w.store.moment(tx)
		if err != nil {
			return err
		}
		rows, err := readWorkers(tx, poolRows+" ORDER BY id", model.SnowflakeWorkers)
		entries = make([]model.WorkerEntry, len(rows))
		for i, row := range rows {
			entries[i] = w.entry(row, at.Now)
		}
		return err
	})
	if err != nil {
		return nil, w.store.explain("list the worker IDs", err)
	}
	return entries, nil
}

// Free takes a worker ID from the address that is confirmed, so that the next new
// address gets it. It answers what it was. Errors: model.ErrInvalidArgument for
// another address or a worker ID without a row, model.ErrRefused while a bound of it
// has not passed, *model.StoreError.
func (w *Workers) Free(ctx context.Context, workerID int, address string) (was model.WorkerEntry, err error) {
	err = w.store.inTx(ctx, func(tx *gorm.DB) (err error) {
		was, err = w.free(tx, workerID, address)
		return err
	})
	if err != nil {
		return was, w.store.answer(ctx, fmt.Sprintf("free worker ID %d", workerID), err)
	}
	return was, nil
}

func (w *Workers) free(tx *gorm.DB, workerID int, address string) (model.WorkerEntry, error) {
	if err := w.store.lockNamed(tx, workerTable); err != nil {
		return model.WorkerEntry{}, err
	}
	at, err := w.store.moment(tx)
	if err != nil {
		return model.WorkerEntry{}, err
	}
	rows, err := readWorkers(tx, "id = ?", workerRowID(workerID))
	if err != nil {
		return model.WorkerEntry{}, err
	}
	if workerID < 0 || workerID >= model.SnowflakeWorkers || len(rows) == 0 || rows[0].isFree() {
		return model.WorkerEntry{}, fmt.Errorf("%w: no address has worker ID %d: see shardid workers", model.ErrInvalidArgument, workerID)
	}
	row := rows[0]
	was := w.entry(row, at.Now)
	switch ends := w.endsAt(row); {
	case row.IPPort != address:
		return was, fmt.Errorf("%w: confirm it with the address that has worker ID %d, which is %s", model.ErrInvalidArgument, workerID, row.IPPort)
	case ends >= at.Now:
		return was, fmt.Errorf("%w: worker ID %d may be in use by %s until %s: stop that instance and wait",
			model.ErrRefused, workerID, row.IPPort, time.UnixMilli(ends).UTC().Format(time.RFC3339))
	}
	_, err = storeWorker(tx, row, row.freed()) // fails if the instance has come back meanwhile
	return was, err
}

// claimFreed gives the owner a worker ID that an operator has freed; false without
// one.
func claimFreed(tx *gorm.DB, owner model.Owner, named, now int64) (workerRow, bool, error) {
	rows, err := readWorkers(tx, poolRows+" AND ip_port LIKE '"+freedPrefix+"%' ORDER BY id LIMIT 1", model.SnowflakeWorkers)
	if err != nil || len(rows) == 0 {
		return workerRow{}, false, err
	}
	row, err := storeWorker(tx, rows[0], rows[0].claimed(owner, named, rows[0].bound(), now))
	return row, true, err
}
