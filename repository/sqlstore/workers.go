package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

const (
	defaultReclaimMargin = 5 * time.Second
	// acquireRetries is how often an Acquire is run again whose row another
	// program, which waits for no lock of ours, has taken, or that waited too long
	// among many others.
	acquireRetries = 4
	// Widths of leaf_workerid_alloc, in bytes; an address needs room for "/1024".
	maxAddress  = 122
	maxIdentity = 64
)

// WorkersOptions are the options of a registry of worker IDs.
type WorkersOptions struct {
	// ReclaimMargin is for how long a lease that has run out is left alone before
	// its worker ID may go to another address; 0 means 5 s.
	ReclaimMargin time.Duration
}

// Workers gives snowflake worker IDs out of leaf_workerid_alloc. The table is one
// pool: instances of every snowflake.name share it. An identity, and an address where
// nobody lives, keeps its worker ID for good, unless all 1024 are taken: then the ID
// whose lease ended longest ago goes to the owner that needs one. ip_port is unique:
// of several rows with one address all but one have their ID after it, 10.0.0.5:80/7,
// which the Java program leaves alone. Only the database's clock decides whether a
// lease has run out; with SQLite that is the clock of the process. Rows of other
// programs are respected; an address that such a program uses is taken. Safe for
// concurrent use, over processes too.
type Workers struct {
	store  *Store
	margin int64 // ms
}

// Workers gives the registry of worker IDs.
func (s *Store) Workers(opts WorkersOptions) *Workers {
	return &Workers{store: s, margin: cmp.Or(opts.ReclaimMargin, defaultReclaimMargin).Milliseconds()}
}

// Acquire gets a worker ID for the owner. Nothing may be issued with it before a
// Renew. The same token, and the same identity in a new process, gets the one it has
// or had; another owner that of its address once that lease has run out, else a free
// one. Errors: model.ErrNoWorkerID, *model.AddressTakenError, *model.StoreError.
func (w *Workers) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	const op = "get a worker ID"
	if err := checkOwner(owner); err != nil {
		return model.Lease{}, w.store.explain(op, err)
	}
	for try := 0; ; try++ {
		lease, err := w.tryAcquire(ctx, owner)
		switch {
		case err == nil:
			return lease, nil
		case (isDuplicate(err) || errors.Is(err, errRowChanged) || isRolledBack(err)) && try < acquireRetries:
			continue
		}
		return model.Lease{}, w.store.answer(ctx, op, err)
	}
}

func checkOwner(o model.Owner) error {
	_, _, err := net.SplitHostPort(o.Address)
	switch {
	case err != nil:
		return fmt.Errorf("%w: address %q: %w", model.ErrInvalidArgument, o.Address, err)
	case len(o.Address) > maxAddress:
		return fmt.Errorf("%w: address %q has more than %d bytes", model.ErrInvalidArgument, o.Address, maxAddress)
	case o.Token == "" || len(o.Token) > maxIdentity || len(o.Identity) > maxIdentity:
		return fmt.Errorf("%w: token and identity need 1…%d bytes", model.ErrInvalidArgument, maxIdentity)
	}
	return nil
}

func (w *Workers) tryAcquire(ctx context.Context, owner model.Owner) (lease model.Lease, err error) {
	err = w.store.inTx(ctx, func(tx *gorm.DB) (err error) {
		lease, err = w.acquire(tx, owner)
		return err
	})
	return lease, err
}

// acquire is the body of the transaction.
func (w *Workers) acquire(tx *gorm.DB, owner model.Owner) (model.Lease, error) {
	if err := w.store.lockNamed(tx, workerTable); err != nil {
		return model.Lease{}, err
	}
	at, err := w.store.moment(tx)
	if err != nil {
		return model.Lease{}, err
	}
	since, err := keptSince(tx, at)
	if err != nil {
		return model.Lease{}, err
	}
	row, err := w.claim(tx, owner, at.Now)
	if err != nil {
		return model.Lease{}, err
	}
	lease := row.lease(owner)
	lease.Registry, lease.ServerTime, lease.KeptSince = "mysql "+at.Deployment, at.Now, since
	return lease, nil
}

// keptSince is from when on the table has forgotten nothing: a server that came
// back may have lost what it had, and a table without a row older than that may
// be a new one in place of a lost one. Rows of other programs have no age of ours,
// they are as old as can be.
func keptSince(tx *gorm.DB, at moment) (int64, error) {
	var oldest []int64
	err := tx.Raw("SELECT made_at FROM " + workerTable + " ORDER BY made_at LIMIT 1").Scan(&oldest).Error
	switch {
	case err != nil:
		return 0, fmt.Errorf("look for the oldest row: %w", err)
	case len(oldest) == 0:
		return at.Now, nil
	}
	return max(at.kept, oldest[0]), nil
}

// claim makes a row the owner's: the one it has, wherever it was then; else the one of
// its address if nobody lives there; else a free one.
func (w *Workers) claim(tx *gorm.DB, owner model.Owner, now int64) (workerRow, error) {
	ip, port, _ := net.SplitHostPort(owner.Address) // checked before
	rows, err := readWorkers(tx, "token = ? OR identity = ? AND identity <> '' OR ip_port = ? OR ip = ? AND port = ? ORDER BY id",
		owner.Token, owner.Identity, owner.Address, ip, port)
	if err != nil {
		return workerRow{}, err
	}
	var own, here, foreign *workerRow
	var named int64 // the row that has the address as its ip_port
	for i := range rows {
		row := &rows[i]
		if row.ID < 1 || row.ID > model.SnowflakeWorkers {
			// Beyond the worker IDs: the original makes such rows when its table has seen
			// more than 1023 addresses.
			if err := tx.Exec("DELETE FROM "+workerTable+" WHERE id = ?", row.ID).Error; err != nil {
				return workerRow{}, fmt.Errorf("remove row %d: %w", row.ID, err)
			}
			continue
		}
		if row.IPPort == owner.Address {
			named = row.ID
		}
		switch {
		case row.heldBy(owner):
			return *row, nil
		case row.cameBack(owner):
			own = row
		case now >= row.takenUntil():
			here = row
		case row.foreign():
			foreign = row
		}
	}
	switch {
	case own != nil:
		return storeWorker(tx, *own, own.claimed(owner, named, own.ReservedUntil, now))
	case foreign != nil:
		return workerRow{}, foreign.taken()
	case here != nil:
		return storeWorker(tx, *here, here.claimed(owner, named, here.bound(), now))
	}
	return w.assign(tx, owner, named, now)
}

// readWorkers reads rows without a lock. A lock on a row that is not there would
// hold up other programs that insert theirs, and one on rows that are there
// renewals; what is then written must still be as it was read.
func readWorkers(tx *gorm.DB, where string, args ...any) (rows []workerRow, err error) {
	err = tx.Raw("SELECT "+workerColumns+" FROM "+workerTable+" WHERE "+where, args...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read the rows: %w", err)
	}
	return rows, nil
}

// assign gives a new owner an ID that was freed, the smallest that nobody has, or
// recycles one.
func (w *Workers) assign(tx *gorm.DB, owner model.Owner, named, now int64) (workerRow, error) {
	if row, found, err := claimFreed(tx, owner, named, now); found || err != nil {
		return row, err
	}
	var free int64
	err := tx.Raw("SELECT COALESCE(MIN(c.id), 0) FROM (SELECT 1 AS id UNION ALL SELECT id + 1 FROM "+workerTable+
		" WHERE id BETWEEN 1 AND ?) AS c WHERE NOT EXISTS (SELECT 1 FROM "+workerTable+" AS t WHERE t.id = c.id)",
		model.SnowflakeWorkers-1).Scan(&free).Error
	if err != nil {
		return workerRow{}, fmt.Errorf("look for a free ID: %w", err)
	}
	if free == 0 {
		return w.recycle(tx, owner, named, now)
	}
	row := workerRow{ID: free, MadeAt: now}.claimed(owner, named, 0, now)
	return row, insertWorker(tx, row)
}

// recycle takes the worker ID whose lease ended longest ago. The rows are read
// without a lock, so that renewals go on; the one that is taken must still be as
// it was read.
func (w *Workers) recycle(tx *gorm.DB, owner model.Owner, named, now int64) (workerRow, error) {
	rows, err := readWorkers(tx, poolRows, model.SnowflakeWorkers)
	switch {
	case err != nil:
		return workerRow{}, err
	case len(rows) == 0:
		return workerRow{}, fmt.Errorf("look for leases that have run out: %w", errRowChanged)
	}
	row, ok := w.oldest(rows, now)
	if !ok {
		return workerRow{}, w.allLeased(rows)
	}
	return storeWorker(tx, row, row.claimed(owner, named, row.bound(), now))
}

// oldest is, of the rows whose lease has run out, the one where that was longest
// ago.
func (w *Workers) oldest(rows []workerRow, now int64) (found workerRow, ok bool) {
	for _, row := range rows {
		if row.keptUntil()+w.margin < now && (!ok || row.bound() < found.bound()) {
			found, ok = row, true
		}
	}
	return found, ok
}

func (w *Workers) allLeased(rows []workerRow) error {
	next := rows[0].keptUntil()
	for _, row := range rows {
		next = min(next, row.keptUntil())
	}
	return fmt.Errorf("%w: all %d of %s are leased, the next one may run out at %s: "+
		"stop instances that are not needed, or wait until those that are gone have been silent long enough",
		model.ErrNoWorkerID, model.SnowflakeWorkers, workerTable, time.UnixMilli(next+w.margin).UTC().Format(time.RFC3339))
}

func insertWorker(tx *gorm.DB, r workerRow) error {
	err := tx.Exec("INSERT INTO "+workerTable+" (id, ip, port, ip_port, max_timestamp, create_time, update_time, identity, token, "+
		"reserved_until, expires_at, claimed_at, made_at) VALUES (?, ?, ?, ?, 0, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, ?, ?, ?, ?, ?, ?)",
		r.ID, r.IP, r.Port, r.IPPort, r.Identity, r.Token, r.ReservedUntil, r.ExpiresAt, r.ClaimedAt, r.MadeAt).Error
	if err != nil {
		return fmt.Errorf("insert row %d: %w", r.ID, err)
	}
	return nil
}

// storeWorker writes the row, if it is still as it was read. Nothing is sent when
// nothing changes: MySQL counts changed rows and not matching ones.
func storeWorker(tx *gorm.DB, old, row workerRow) (workerRow, error) {
	if row == old {
		return row, nil
	}
	res := tx.Exec("UPDATE "+workerTable+" SET ip = ?, port = ?, ip_port = ?, max_timestamp = ?, own_timestamp = ?, identity = ?, token = ?, "+
		"reserved_until = ?, expires_at = ?, claimed_at = ?, seen_at = ?, update_time = CURRENT_TIMESTAMP "+
		"WHERE id = ? AND token = ? AND reserved_until = ? AND expires_at = ? AND COALESCE(max_timestamp, 0) = ? AND claimed_at = ?",
		row.IP, row.Port, row.IPPort, row.MaxTimestamp, row.OwnTimestamp, row.Identity, row.Token,
		row.ReservedUntil, row.ExpiresAt, row.ClaimedAt, row.SeenAt,
		old.ID, old.Token, old.ReservedUntil, old.ExpiresAt, old.MaxTimestamp, old.ClaimedAt)
	if res.Error != nil || res.RowsAffected != 1 {
		return workerRow{}, fmt.Errorf("store row %d: %w", old.ID, cmp.Or(res.Error, errRowChanged))
	}
	return row, nil
}

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
