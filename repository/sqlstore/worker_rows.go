package sqlstore

import (
	"context"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

const (
	// foreignLease is for how long, in ms, a worker ID counts as leased after the last report of
	// another program's instance. Such an instance does not stop by itself when it cannot report.
	// An hour is what that program's own pool waits.
	foreignLease = 3_600_000
	// claimGrace is for how long, in ms, a lease that was got is left alone before
	// its first renewal, which follows at once.
	claimGrace = 10_000
)

// workerRow is a row of leaf_workerid_alloc. All times are Unix ms; those of the
// row itself are by the server's clock. A NULL reads as zero.
type workerRow struct {
	ID            int64
	IP            string
	Port          string
	IPPort        string `gorm:"column:ip_port"`
	MaxTimestamp  int64
	Identity      string
	Token         string
	ReservedUntil int64
	ExpiresAt     int64
	ClaimedAt     int64
	SeenAt        int64
	OwnTimestamp  int64
	MadeAt        int64
}

// workerColumns are read in this shape everywhere.
const workerColumns = "id, ip, port, ip_port, COALESCE(max_timestamp, 0) AS max_timestamp, identity, token, " +
	"reserved_until, expires_at, claimed_at, seen_at, own_timestamp, made_at"

// poolRows are the rows that stand for worker IDs.
const poolRows = "id BETWEEN 1 AND ?"

// foreign says that the row is one of a table that is taken over: another program has reported in
// it, and shardid has not written it since.
func (r workerRow) foreign() bool { return r.MaxTimestamp != r.OwnTimestamp }

// heldBy says whether the row's lease is the owner's process's.
func (r workerRow) heldBy(o model.Owner) bool {
	return o.Token != "" && r.Token == o.Token && !r.foreign()
}

// cameBack says whether the owner is the one that had the lease, perhaps in an
// earlier life.
func (r workerRow) cameBack(o model.Owner) bool {
	return r.heldBy(o) || o.Identity != "" && r.Identity == o.Identity && !r.foreign()
}

// bound is up to which time IDs may have been issued by any instance.
func (r workerRow) bound() int64 {
	bound := max(r.ReservedUntil, r.ExpiresAt)
	if r.foreign() {
		bound = max(bound, r.MaxTimestamp+foreignLease)
	}
	return bound
}

// takenUntil is until when the row's lease keeps others out, a moment ago or later
// when it was released.
func (r workerRow) takenUntil() int64 {
	switch {
	case r.foreign():
		return max(r.ExpiresAt, r.MaxTimestamp+foreignLease)
	case r.ClaimedAt > 0:
		return max(r.ExpiresAt, r.ClaimedAt+claimGrace)
	}
	return r.ExpiresAt
}

// claimed is the row as the owner's whose IDs must be later than after. named is the
// row that has the owner's address as its ip_port, 0 without one.
func (r workerRow) claimed(o model.Owner, named, after, now int64) workerRow {
	r.IPPort, r.Identity, r.Token = o.Address, o.Identity, o.Token
	if named != 0 && named != r.ID {
		r.IPPort = fmt.Sprintf("%s/%d", o.Address, r.ID)
	}
	r.IP, r.Port, _ = net.SplitHostPort(o.Address) // checked before
	r.ReservedUntil, r.ExpiresAt = after, max(r.ExpiresAt, after)
	r.ClaimedAt, r.OwnTimestamp = now, r.MaxTimestamp
	r.SeenAt = 0 // the report is the predecessor's
	return r
}

// workerID is the row's: worker IDs are the first IDs of the table, of which the last
// stands for 0.
func (w *Workers) workerID(r workerRow) int { return int(r.ID % int64(w.count)) }

// rowID is the row that keeps a worker ID.
func (w *Workers) rowID(worker int) int64 {
	if worker == 0 {
		return int64(w.count)
	}
	return int64(worker)
}

// freedPrefix begins the address of a row that an operator has freed; its ID follows,
// because addresses are unique. No owner has such an address: it has no port.
const freedPrefix = "freed/"

func (r workerRow) isFree() bool { return strings.HasPrefix(r.IPPort, freedPrefix) }

// freed is the row without an owner. Its bounds stay: its next owner begins
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
func (w *Workers) endsAt(r workerRow) int64 { return max(r.takenUntil(), r.bound()) + w.margin }

func (w *Workers) entry(r workerRow, now int64) model.WorkerEntry {
	e := model.WorkerEntry{
		WorkerID: w.workerID(r), Address: r.IPPort, Foreign: r.foreign(), State: model.WorkerLeased,
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
func (w *Workers) List(ctx context.Context) ([]model.WorkerEntry, error) {
	return within(ctx, w.store, "list the worker IDs", func(tx *gorm.DB) ([]model.WorkerEntry, error) {
		at, err := w.store.readMoment(tx, "")
		if err != nil {
			return nil, err
		}
		rows, err := w.rows(tx, poolRows+" ORDER BY id", w.count)
		entries := make([]model.WorkerEntry, len(rows))
		for i, row := range rows {
			entries[i] = w.entry(row, at.Now)
		}
		return entries, err
	})
}

// Free takes a worker ID from the address that is confirmed, so that the next new
// address gets it. It answers what it was. Errors: model.ErrInvalidArgument for
// another address or a worker ID without a row, model.ErrRefused while a bound of it
// has not passed, *model.StoreError.
func (w *Workers) Free(ctx context.Context, workerID int, address string) (was model.WorkerEntry, err error) {
	err = w.store.do(ctx, fmt.Sprintf("free worker ID %d", workerID), func(tx *gorm.DB) error {
		at, err := w.store.lockNamed(tx, workerTable)
		if err != nil {
			return err
		}
		rows, err := w.rows(tx, "id = ?", w.rowID(workerID))
		if err != nil {
			return err
		}
		if workerID < 0 || workerID >= w.count || len(rows) == 0 || rows[0].isFree() {
			return fmt.Errorf("%w: no address has worker ID %d: see shardid workers", model.ErrInvalidArgument, workerID)
		}
		row := rows[0]
		was = w.entry(row, at.Now)
		switch ends := w.endsAt(row); {
		case row.IPPort != address:
			return fmt.Errorf("%w: confirm it with the address that has worker ID %d, which is %s", model.ErrInvalidArgument, workerID, row.IPPort)
		case ends >= at.Now:
			return fmt.Errorf("%w: worker ID %d may be in use by %s until %s: stop that instance and wait",
				model.ErrRefused, workerID, row.IPPort, time.UnixMilli(ends).UTC().Format(time.RFC3339))
		}
		_, err = w.replace(tx, row, row.freed()) // fails if the instance has come back meanwhile
		return err
	})
	return was, err
}

// rows reads rows without a lock, which would hold up renewals. What is then written must
// still be as it was read.
func (w *Workers) rows(tx *gorm.DB, where string, args ...any) ([]workerRow, error) {
	return query[[]workerRow](tx, "read the rows", "SELECT "+workerColumns+" FROM "+workerTable+" WHERE "+where, args...)
}

// replace writes the row, if it is still as it was read. Nothing is sent when
// nothing changes: MySQL counts changed rows and not matching ones.
func (w *Workers) replace(tx *gorm.DB, old, row workerRow) (workerRow, error) {
	if row == old {
		return row, nil
	}
	return row, updateRows(tx, 1, fmt.Sprintf("store row %d", old.ID),
		"UPDATE "+workerTable+" SET ip = ?, port = ?, ip_port = ?, max_timestamp = ?, own_timestamp = ?, identity = ?, token = ?, "+
			"reserved_until = ?, expires_at = ?, claimed_at = ?, seen_at = ?, update_time = CURRENT_TIMESTAMP "+
			"WHERE id = ? AND token = ? AND reserved_until = ? AND expires_at = ? AND COALESCE(max_timestamp, 0) = ? AND claimed_at = ?",
		row.IP, row.Port, row.IPPort, row.MaxTimestamp, row.OwnTimestamp, row.Identity, row.Token,
		row.ReservedUntil, row.ExpiresAt, row.ClaimedAt, row.SeenAt,
		old.ID, old.Token, old.ReservedUntil, old.ExpiresAt, old.MaxTimestamp, old.ClaimedAt)
}

// claimKept is for how long, in ms, a claim that has ended is remembered: no clock is
// further from the server's than that.
const claimKept = 86_400_000

// ClaimWorker stores until when a process may issue IDs, and with which registry. A
// claim that has not ended, or that is lowered to the past, is just stored. Another one
// needs that no other registry is claimed: not now, and unless the caller has watched
// for a while, not a moment ago. Errors: *model.RegistryInUseError, *model.StoreError.
func (s *Store) ClaimWorker(ctx context.Context, c model.WorkerClaim) (grant model.ClaimGrant, err error) {
	const op = "claim a worker ID"
	stored := false
	err = s.do(ctx, op, func(tx *gorm.DB) error {
		at, err := s.moment(tx)
		if err != nil {
			return err
		}
		res := tx.Exec("UPDATE "+claimTable+" SET worker_id = ?, until_ms = ? WHERE token = ? AND registry = ? AND until_ms > ?",
			c.WorkerID, c.Until, c.Token, c.Registry, at.Now)
		stored = res.RowsAffected == 1 || c.Until <= at.Now
		return res.Error
	})
	if err != nil || stored {
		return grant, err
	}
	err = s.do(ctx, op, func(tx *gorm.DB) error {
		at, err := s.lockNamed(tx, claimTable)
		if err != nil {
			return err
		}
		others, err := query[[]struct {
			Registry string
			WorkerID int
			UntilMs  int64
		}](tx, "read the claims", "SELECT registry, worker_id, until_ms FROM "+claimTable+
			" WHERE registry <> ? AND token <> ? AND until_ms > ? ORDER BY until_ms DESC LIMIT 1", c.Registry, c.Token,
			at.Now-claimKept)
		if err != nil {
			return err
		}
		grant = model.ClaimGrant{Kept: math.MaxInt64} // a file's
		if s.server != nil {
			grant.Kept = time.Duration(at.Now-at.kept) * time.Millisecond
		}
		if len(others) > 0 {
			grant.After = others[0].UntilMs
			if grant.After > at.Now || !c.Watched {
				return &model.RegistryInUseError{Registry: others[0].Registry, Mine: c.Registry, WorkerID: others[0].WorkerID,
					Until: time.UnixMilli(max(grant.After, at.Now))}
			}
		}
		if err := write(tx, "remove old claims", "DELETE FROM "+claimTable+" WHERE token = ? OR until_ms <= ?", c.Token, at.Now-claimKept); err != nil {
			return err
		}
		return write(tx, "store the claim", "INSERT INTO "+claimTable+" (token, registry, worker_id, until_ms) VALUES (?, ?, ?, ?)", c.Token, c.Registry, c.WorkerID, c.Until)
	})
	return grant, err
}

// ForgetWorkerClaims ends all claims, as an operator does who knows that the instances
// of the other registry were killed. Those that live renew theirs within seconds, and
// are waited for as before. It gives how many claims there were. Errors:
// *model.StoreError.
func (s *Store) ForgetWorkerClaims(ctx context.Context) (claims int64, err error) {
	now := s.either(serverNow, strconv.FormatInt(s.opts.Now().UnixMilli(), 10))
	return s.confirm(ctx, "end the claims on worker IDs", "UPDATE "+claimTable+" SET until_ms = "+now+" WHERE until_ms > "+now)
}
