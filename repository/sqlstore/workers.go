package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

const (
	defaultReclaimMargin = 5 * time.Second
	// acquireRetries is how often an Acquire is run again whose row was renewed meanwhile, or that
	// waited too long among many others.
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
	// Workers is how many worker IDs there are: 0…Workers-1; 0 means
	// model.SnowflakeWorkers, which is the most.
	Workers int
}

// Workers gives snowflake worker IDs out of leaf_workerid_alloc. The table is one
// pool: instances of every snowflake.name share it. An identity, and an address without a
// live instance, keeps its worker ID, unless all are taken: then the ID
// whose lease ended longest ago goes to the owner that needs one. ip_port is unique:
// of several rows with one address all but one have their ID after it, 10.0.0.5:80/7.
// Only the database's clock decides whether a lease has run out; with SQLite that is the
// clock of the process. The table of NotFound9's fork of Leaf can be taken over once its
// instances have stopped: each of its rows counts as a lease of an hour after the last
// report. Safe for concurrent use, over processes too.
type Workers struct {
	store  *Store
	margin int64 // ms
	count  int   // of worker IDs
}

// Workers gives the registry of worker IDs.
func (s *Store) Workers(opts WorkersOptions) *Workers {
	return &Workers{
		store: s, margin: cmp.Or(opts.ReclaimMargin, defaultReclaimMargin).Milliseconds(),
		count: cmp.Or(opts.Workers, model.SnowflakeWorkers),
	}
}

// Acquire gets a worker ID for the owner. Nothing may be issued with it before a
// Renew. The same token, and the same identity in a new process, gets the one it has
// or had; another owner that of its address once that lease has run out, else a free
// one. Errors: model.ErrNoWorkerID, *model.StoreError.
func (w *Workers) Acquire(ctx context.Context, owner model.Owner) (lease model.Lease, err error) {
	const op = "get a worker ID"
	if err := checkOwner(owner); err != nil {
		return model.Lease{}, w.store.explain(op, err)
	}
	for try := 0; ; try++ {
		err = w.store.inTx(ctx, op, func(tx *gorm.DB) (err error) {
			lease, err = w.acquire(tx, owner)
			return err
		})
		if again := isDuplicate(err) || errors.Is(err, errRowChanged) || isRolledBack(err); !again || try == acquireRetries {
			break
		}
	}
	if err != nil {
		return model.Lease{}, w.store.answer(ctx, op, err)
	}
	return lease, nil
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

// acquire is the body of the transaction.
func (w *Workers) acquire(tx *gorm.DB, owner model.Owner) (model.Lease, error) {
	at, err := w.store.lockNamed(tx, workerTable)
	if err != nil {
		return model.Lease{}, err
	}
	since, err := w.keptSince(tx, at)
	if err != nil {
		return model.Lease{}, err
	}
	row, err := w.claimRow(tx, owner, at)
	if err != nil {
		return model.Lease{}, err
	}
	// After a claim nothing may be issued before a renewal, as everything up to Reserved
	// lies before After.
	return model.Lease{
		WorkerID: w.workerID(row), Owner: owner, Node: fmt.Sprintf("%s/%d", workerTable, row.ID),
		After: row.ReservedUntil, Reserved: row.ReservedUntil, Expires: row.ExpiresAt,
		Registry: registryOf(at), ServerTime: at.Now, KeptSince: since,
	}, nil
}

// keptSince is from when on the table has forgotten nothing: a server that came
// back may have lost what it had, and a table without a row older than that may
// be a new one in place of a lost one. Rows of other programs have no age of ours,
// they are as old as can be.
func (w *Workers) keptSince(tx *gorm.DB, at moment) (int64, error) {
	oldest, err := query[[]int64](tx, "look for the oldest row",
		"SELECT made_at FROM "+workerTable+" ORDER BY made_at LIMIT 1")
	if err != nil || len(oldest) == 0 {
		return at.Now, err
	}
	return max(at.kept, oldest[0]), nil
}

// claimRow makes a row the owner's: the one it has, wherever it was then; else the one of
// its address if no live instance is there; else a free one.
func (w *Workers) claimRow(tx *gorm.DB, owner model.Owner, at moment) (workerRow, error) {
	ip, port, _ := net.SplitHostPort(owner.Address) // checked before
	rows, err := w.rows(tx, "token = ? OR identity = ? AND identity <> '' OR ip_port = ? OR ip = ? AND port = ? ORDER BY id",
		owner.Token, owner.Identity, owner.Address, ip, port)
	if err != nil {
		return workerRow{}, err
	}
	var own, here *workerRow
	var named int64 // the row that has the address as its ip_port
	for i := range rows {
		row := &rows[i]
		if row.ID < 1 || row.ID > int64(w.count) {
			// Beyond the worker IDs: the original makes such rows when its table has seen
			// more than 1023 addresses.
			if err := write(tx, fmt.Sprintf("remove row %d", row.ID), "DELETE FROM "+workerTable+" WHERE id = ?",
				row.ID); err != nil {
				return workerRow{}, err
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
		case at.Now >= row.takenUntil():
			here = row
		}
	}
	switch {
	case own != nil:
		return w.replace(tx, *own, own.claimed(owner, named, own.ReservedUntil, at.Now))
	case here == nil:
		if here, err = w.free(tx, owner, at); err != nil {
			return workerRow{}, err
		}
	}
	others, err := w.othersUntil(tx, *here, owner, at)
	if err != nil {
		return workerRow{}, err
	}
	row := here.claimed(owner, named, max(here.bound(), others), at.Now)
	if here.IPPort != "" {
		return w.replace(tx, *here, row)
	}
	row.MadeAt = at.Now
	return row, write(tx, fmt.Sprintf("insert row %d", row.ID), "INSERT INTO "+workerTable+" (id, ip, port, ip_port, max_timestamp, create_time, update_time, identity, token, "+
		"reserved_until, expires_at, claimed_at, made_at) VALUES (?, ?, ?, ?, 0, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, ?, ?, ?, ?, ?, ?)",
		row.ID, row.IP, row.Port, row.IPPort, row.Identity, row.Token, row.ReservedUntil, row.ExpiresAt, row.ClaimedAt, row.MadeAt)
}

// claimsOfOthers are the claims on worker IDs of this registry that others have made, in a
// table of its own: a row may be older than they are, or gone, as in a restored table.
const claimsOfOthers = " FROM " + claimTable + " WHERE registry = ? AND token <> ?"

// othersUntil is up to when others may issue with the row's worker ID.
func (w *Workers) othersUntil(tx *gorm.DB, row workerRow, owner model.Owner, at moment) (until int64, err error) {
	until, err = query[int64](tx, "read the claims",
		"SELECT COALESCE(MAX(until_ms), 0)"+claimsOfOthers+" AND worker_id = ?",
		registryOf(at), owner.Token, w.workerID(row))
	return until - model.ClaimAhead.Milliseconds(), err
}

// registryOf names the database as a registry of worker IDs.
func registryOf(at moment) string { return "mysql " + at.Deployment }

// free is the row of an ID that an operator has freed, else a new one of the smallest ID
// that is not taken or claimed, else one that is used again.
func (w *Workers) free(tx *gorm.DB, owner model.Owner, at moment) (*workerRow, error) {
	freed, err := w.rows(tx, poolRows+" AND ip_port LIKE '"+freedPrefix+"%' ORDER BY id LIMIT 1", w.count)
	if err != nil {
		return nil, err
	}
	if len(freed) > 0 {
		return &freed[0], nil
	}
	// Those that may be free are 1 and the next one of each that is not.
	const live = claimsOfOthers + " AND until_ms > ?"
	registry, until := registryOf(at), at.Now+model.ClaimAhead.Milliseconds()
	free, err := query[int64](tx, "look for a free ID",
		"SELECT COALESCE(MIN(c.id), 0) FROM (SELECT 1 AS id UNION ALL SELECT id + 1 FROM "+workerTable+" WHERE id BETWEEN 1 AND ?"+
			" UNION ALL SELECT worker_id + 1"+live+" AND worker_id BETWEEN 1 AND ?) AS c"+
			" WHERE NOT EXISTS (SELECT 1 FROM "+workerTable+" AS t WHERE t.id = c.id) AND NOT EXISTS (SELECT 1"+live+" AND worker_id = c.id % ?)",
		w.count-1, registry, owner.Token, until, w.count-1, registry, owner.Token, until, w.count)
	if err == nil && free == 0 {
		return w.oldest(tx, at.Now)
	}
	return &workerRow{ID: free}, err
}

// oldest is the worker ID whose lease ended longest ago. The rows are read
// without a lock, so that renewals go on; the one that is taken must still be as
// it was read.
func (w *Workers) oldest(tx *gorm.DB, now int64) (*workerRow, error) {
	rows, err := w.rows(tx, poolRows, w.count)
	if err != nil {
		return nil, err
	}
	var oldest *workerRow
	next := int64(math.MaxInt64) // when another one may be taken
	for i, row := range rows {
		ends := row.takenUntil() + w.margin
		next = min(next, ends)
		if ends < now && (oldest == nil || row.bound() < oldest.bound()) {
			oldest = &rows[i]
		}
	}
	switch {
	case len(rows) == 0:
		return nil, fmt.Errorf("look for leases that have run out: %w", errRowChanged)
	case oldest == nil:
		return nil, fmt.Errorf("%w: all %d of %s are leased, the next one may run out at %s: "+
			"stop instances that are not needed, or wait until those that are gone have been silent long enough",
			model.ErrNoWorkerID, w.count, workerTable, time.UnixMilli(next).UTC().Format(time.RFC3339))
	}
	return oldest, nil
}

// Renew stores Reserved, Expires and Reported; the first two never go down. It
// answers what is stored. Errors: model.ErrLeaseLost when the row is not the
// owner's any more, *model.StoreError when that is not known.
func (w *Workers) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	const op = "renew worker ID"
	err := w.change(ctx, op, &lease, func(row workerRow, now int64) workerRow {
		row.ReservedUntil = max(row.ReservedUntil, lease.Reserved)
		row.ExpiresAt = max(row.ExpiresAt, lease.Expires)
		row.MaxTimestamp, row.OwnTimestamp = lease.Reported, lease.Reported
		row.ClaimedAt, row.SeenAt = 0, now
		return row
	})
	if err != nil {
		return model.Lease{}, w.store.answer(ctx, op, err)
	}
	return lease, nil
}

// Release gives the lease up: the same identity may follow at once, above its
// Reserved, the last time issued; others follow at and above its Expires. A lost
// lease is no error. Errors: *model.StoreError.
func (w *Workers) Release(ctx context.Context, lease model.Lease) error {
	const op = "release worker ID"
	err := w.change(ctx, op, &lease, func(row workerRow, _ int64) workerRow {
		bound := max(lease.Reserved, lease.After) // what came before this lease stays issued
		row.Token, row.ReservedUntil, row.ExpiresAt, row.ClaimedAt = "", bound, max(bound, lease.Expires), 0
		return row
	})
	if errors.Is(err, model.ErrLeaseLost) {
		return nil
	}
	return w.store.fail(ctx, op, err)
}

// change edits the latest committed row of the owner's lease under its lock and puts
// what is then stored into the lease.
func (w *Workers) change(ctx context.Context, op string, lease *model.Lease, edit func(row workerRow, now int64) workerRow) error {
	return w.store.inTx(ctx, op, func(tx *gorm.DB) error {
		rows, err := w.rows(tx, "id = ?"+w.store.forUpdate(), w.rowID(lease.WorkerID))
		if err != nil {
			return err
		}
		if len(rows) == 0 || !rows[0].heldBy(lease.Owner) {
			return fmt.Errorf("%w: worker ID %d is not held for %s", model.ErrLeaseLost, lease.WorkerID, lease.Owner.Address)
		}
		at, err := w.store.moment(tx)
		if err != nil {
			return err
		}
		row, err := w.replace(tx, rows[0], edit(rows[0], at.Now))
		if err != nil {
			return err
		}
		lease.Reserved, lease.Expires = row.ReservedUntil, row.ExpiresAt
		lease.ServerTime, lease.KeptSince = at.Now, max(lease.KeptSince, at.kept)
		return nil
	})
}

// Peers gives the last report of every instance that renewed its lease, however
// long ago. Errors: *model.StoreError.
func (w *Workers) Peers(ctx context.Context) ([]model.WorkerPeer, error) {
	rows, err := w.rows(w.store.gorm.WithContext(ctx), poolRows+" AND seen_at > 0", w.count)
	if err != nil {
		return nil, w.store.explain("read the instances", err)
	}
	peers := make([]model.WorkerPeer, len(rows))
	for i, row := range rows {
		peers[i] = model.WorkerPeer{Address: row.IPPort, WorkerID: w.workerID(row), Reported: row.MaxTimestamp, Seen: row.SeenAt}
	}
	return peers, nil
}
