package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/repository/workerid"
)

// The registry mysql keeps a row of leaf_workerid_alloc for each worker ID that was ever given out: row
// n is worker ID n, and the last one is worker ID 0. The row is the record of package workerid, which
// decides who gets a worker ID; this file reads rows, and writes one if it is still as it was read. Only
// the database's clock counts; with SQLite that is the clock of the process.
//
// Owners that look for a worker ID wait for each other at a row of shardid_lock. Renewals lock their
// own row alone, and rows are read without a lock, so that nobody holds up a renewal.
//
// The table is that of a fork of Leaf and may be taken over once its instances have stopped. A row whose
// max_timestamp is not as shardid wrote it is one of another program, and a lease of an hour from then.
// ip_port is unique, and an address may have had several worker IDs: it has the ID after it, 10.0.0.5:80/7.

const (
	// takeRetries is how often takeOne runs again.
	takeRetries = 4
	// foreignLease is for how long, in ms, a worker ID counts as leased after the last report of
	// another program's instance. Such an instance does not stop by itself when it cannot report.
	// An hour is what that program's own pool waits.
	foreignLease = 3_600_000
)

// Workers gives snowflake worker IDs out of leaf_workerid_alloc. The table is one pool: instances of
// every snowflake.name share it. Errors of Acquire, Renew and Release are those of workerid.Registry
// and *model.StoreError. Safe for concurrent use, over processes too.
type Workers struct {
	workerid.Registry
	rows   workerRows
	margin int64 // ms, see workerid.Record.FreeAt
}

// Workers gives the registry of the worker IDs 0…workers-1, at most model.SnowflakeWorkers. A lease that has run out is
// left alone for margin before its worker ID may go to another address.
func (s *Store) Workers(margin time.Duration, workers int) *Workers {
	rows := workerRows{s, int64(workers)}
	return &Workers{workerid.NewRegistry(rows, margin), rows, margin.Milliseconds()}
}

// List gives every worker ID that has a row, in order of the rows. A lease expires when its last bound has passed.
// Errors: *model.StoreError.
func (w *Workers) List(ctx context.Context) ([]model.WorkerEntry, error) {
	return look(ctx, w.rows.store, "list the worker IDs", func(tx *gorm.DB, at moment) ([]model.WorkerEntry, error) {
		rows, err := w.rows.read(tx, "id BETWEEN 1 AND ? ORDER BY id", w.rows.count)
		entries := make([]model.WorkerEntry, len(rows))
		for i, row := range rows {
			r := row.record()
			kept := max(r.LiveUntil(), r.Bound()) + w.margin
			entries[i] = model.WorkerEntry{
				WorkerID: w.rows.workerID(row.ID), Address: r.Address, Foreign: r.OthersUntil > 0,
				State: model.WorkerLeased, ReportedAt: atMilli(r.Reported), ReservedUntil: atMilli(row.ReservedUntil),
				KeptUntil: atMilli(kept),
			}
			if kept < at.Now {
				entries[i].State = model.WorkerExpired
			}
		}
		return entries, err
	})
}

// workerRows is the table as a workerid.Store.
type workerRows struct {
	store *Store
	count int64 // of worker IDs
}

// workerRow is a row of leaf_workerid_alloc. All times are Unix ms; those of the
// row itself are by the server's clock. A NULL reads as zero.
type workerRow struct {
	ID            int64
	IP            string
	Port          string
	MaxTimestamp  int64
	Identity      string
	Token         string
	ReservedUntil int64
	ExpiresAt     int64
	ClaimedAt     int64
	OwnTimestamp  int64
	MadeAt        int64
}

// record is what the row says; the zero one without a row.
func (r workerRow) record() workerid.Record {
	record := workerid.Record{Address: net.JoinHostPort(r.IP, r.Port), Identity: r.Identity, Token: r.Token,
		Reserved: r.ReservedUntil, Expires: r.ExpiresAt, Acquired: r.ClaimedAt,
		Reported: r.MaxTimestamp}
	if r.IP == "" { // it has no row, or an operator has freed it, as one could with 0.3
		record.Address = ""
	}
	if r.MaxTimestamp != r.OwnTimestamp { // shardid has not written it since that program reported
		until := r.MaxTimestamp + foreignLease
		return record.OfOthers(record.Address, r.MaxTimestamp, foreignLease, max(r.ExpiresAt, until))
	}
	return record
}

// workerID is the worker ID that a row stands for.
func (w workerRows) workerID(row int64) int { return int(row % w.count) }

// read reads rows without a lock.
func (w workerRows) read(tx *gorm.DB, where string, args ...any) ([]workerRow, error) {
	return query[[]workerRow](tx, "read the rows", "SELECT * FROM "+workerTable+" WHERE "+where, args...)
}

func (w workerRows) slotOf(row workerRow, id int64) workerid.Slot {
	return workerid.Slot{Record: row.record(), ID: w.workerID(id), Read: row}
}

// Take runs take in a transaction that no other one of those runs beside.
func (w workerRows) Take(ctx context.Context, owner model.Owner, take workerid.Take) error {
	return w.store.takeOne(ctx, "get a worker ID", func(tx *gorm.DB) error {
		c, err := w.choice(tx, owner)
		if err != nil {
			return err
		}
		slot, next, err := take(c)
		if err != nil {
			return err
		}
		return w.put(tx, slot, next, c.Now)
	})
}

// takeOne runs a transaction that takes one of several rows, again when that one was taken, or renewed, meanwhile,
// or when the transaction waited too long among many others.
func (s *Store) takeOne(ctx context.Context, op string, take func(*gorm.DB) error) error {
	for try := 0; ; try++ {
		err := s.inTx(ctx, op, take)
		again := isDuplicate(err) || errors.Is(err, errRowChanged) || isRolledBack(err)
		if !again || try == takeRetries {
			return s.answer(ctx, op, err)
		}
	}
}

// choice is all worker IDs, with those that have no row.
func (w workerRows) choice(tx *gorm.DB, owner model.Owner) (c workerid.Choice, err error) {
	at, err := w.store.lockNamed(tx, workerTable)
	if err != nil {
		return c, err
	}
	rows, err := w.read(tx, "1 = 1 ORDER BY id")
	if err != nil {
		return c, err
	}
	c.Moment, c.Among = workerid.Moment{Now: at.Now, KeptSince: at.Now, Registry: "mysql " + at.Deployment}, 1
	if len(rows) > 0 {
		// A server that came back may have lost what it had, and a table without a row older than that
		// may be a new one in place of a lost one. Rows of other programs are as old as can be.
		oldest := slices.MinFunc(rows, func(a, b workerRow) int { return cmp.Compare(a.MadeAt, b.MadeAt) })
		c.KeptSince = max(at.kept, oldest.MadeAt)
	}
	for id := range w.count {
		c.Slots = append(c.Slots, w.slotOf(workerRow{}, id+1))
	}
	for _, row := range rows {
		// Higher ones are none: the original makes them once its table has seen 1024 addresses.
		if 1 <= row.ID && row.ID <= w.count {
			c.Slots[row.ID-1] = w.slotOf(row, row.ID)
		}
	}
	return c, w.addClaims(tx, c, owner)
}

// addClaims keeps a worker ID as long as another process claims it, in a table of its own: a row may be
// older than the claim, or gone, as in a restored table.
func (w workerRows) addClaims(tx *gorm.DB, c workerid.Choice, owner model.Owner) error {
	claims, err := query[[]struct{ WorkerID, UntilMs int64 }](tx, "read the claims",
		"SELECT worker_id, until_ms FROM "+claimTable+
			" WHERE registry = ? AND token <> ? AND worker_id BETWEEN 0 AND ?",
		c.Registry, owner.Token, w.count-1)
	for _, claim := range claims {
		slot := &c.Slots[cmp.Or(claim.WorkerID, w.count)-1]
		slot.Expires = max(slot.Expires, claim.UntilMs-model.ClaimAhead.Milliseconds())
	}
	return err
}

// Edit runs edit under the lock of the row.
func (w workerRows) Edit(ctx context.Context, lease model.Lease, edit workerid.Edit) (m workerid.Moment, err error) {
	err = w.store.do(ctx, fmt.Sprintf("store worker ID %d", lease.WorkerID), func(tx *gorm.DB) error {
		id := cmp.Or(int64(lease.WorkerID), w.count)
		rows, err := w.read(tx, "id = ?"+w.store.forUpdate(), id)
		if err != nil {
			return err
		}
		slot := w.slotOf(workerRow{}, id)
		if len(rows) > 0 {
			slot = w.slotOf(rows[0], id)
		}
		at, err := w.store.moment(tx)
		if err != nil {
			return err
		}
		m = workerid.Moment{Now: at.Now, KeptSince: at.kept}
		next, err := edit(slot)
		if err != nil {
			return err
		}
		return w.put(tx, slot, next, at.Now)
	})
	return m, err
}

// put writes the record, if its row is still as it was read. A replica of 0.3 judges clocks by seen_at, unless that is
// 0.
func (w workerRows) put(tx *gorm.DB, slot workerid.Slot, next workerid.Record, now int64) error {
	old := slot.Read.(workerRow)
	var ip, port string
	if next.Address != "" {
		ip, port, _ = net.SplitHostPort(next.Address) // checked before, or read from a row
	}
	id := cmp.Or(int64(slot.ID), w.count)
	values := []any{ip, port, fmt.Sprintf("%s/%d", next.Address, id), next.Reported, next.Reported, next.Identity,
		next.Token, next.Reserved, next.Expires, next.Acquired, id}
	switch {
	case next == slot.Record:
		return nil
	case old.ID == 0:
		return write(tx, fmt.Sprintf("insert row %d", id), "INSERT INTO "+workerTable+
			" (ip, port, ip_port, max_timestamp, own_timestamp, identity, token, "+
			"reserved_until, expires_at, claimed_at, id, made_at, create_time, update_time) "+
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
			append(values, now)...)
	}
	return updateRows(tx, 1, fmt.Sprintf("store row %d", id), "UPDATE "+workerTable+
		" SET ip = ?, port = ?, ip_port = ?, max_timestamp = ?, own_timestamp = ?, identity = ?, token = ?, "+
		"reserved_until = ?, expires_at = ?, claimed_at = ?, seen_at = 0, update_time = CURRENT_TIMESTAMP "+
		"WHERE id = ? AND token = ? AND reserved_until = ? AND expires_at = ? "+
		"AND COALESCE(max_timestamp, 0) = ? AND claimed_at = ?",
		append(values, old.Token, old.ReservedUntil, old.ExpiresAt, old.MaxTimestamp, old.ClaimedAt)...)
}

// claimKept is for how long, in ms, a claim that has ended is remembered: no clock is
// further from the server's than that.
const claimKept = 86_400_000

// ClaimWorker stores until when a process may issue IDs, and with which registry. Its first claim waits until those of
// other registries have ended, and closes them, so that their instances, if they live, begin above it. Errors:
// model.ErrRegistryInUse; for a claim that is not the first model.ErrLeaseLost when it is closed, or had ended before
// the server that answers was known to forget nothing; *model.StoreError.
func (s *Store) ClaimWorker(ctx context.Context, c model.WorkerClaim) (grant model.ClaimGrant, err error) {
	const op = "claim a worker ID"
	if c.First {
		err = s.do(ctx, op, func(tx *gorm.DB) error {
			grant, err = s.claimFirst(tx, c)
			return err
		})
		return grant, err
	}
	err = s.inMoment(ctx, op, nil, func(tx *gorm.DB, at *moment) error {
		grant.Now = at.Now
		forgot := at.kept + (2 * model.MaxClockApart).Milliseconds() // by any server's clock
		err = updateRows(tx, 1, "store the claim", "UPDATE "+claimTable+
			" SET worker_id = ?, until_ms = ? WHERE token = ? AND registry = ? AND until_ms > ?",
			c.WorkerID, c.Until, c.Token, c.Registry, forgot)
		if errors.Is(err, errRowChanged) {
			return fmt.Errorf("%w: its claim had ended, and others may have used another registry of worker IDs since",
				model.ErrLeaseLost)
		}
		return err
	})
	return grant, s.answer(ctx, op, err)
}

// claimFirst stores a first claim. A closed claim keeps its row under another token, as those who come later begin
// above it, too. The claims of others are closed before they are read, so that none is made longer in between.
func (s *Store) claimFirst(tx *gorm.DB, c model.WorkerClaim) (grant model.ClaimGrant, err error) {
	at, err := s.lockNamed(tx, claimTable)
	if err != nil {
		return grant, err
	}
	err = write(tx, "close the claims of other registries", "UPDATE "+claimTable+
		" SET token = CONCAT(until_ms, ' ', token) WHERE registry <> ? AND token <> ? AND until_ms <= ?"+
		" AND token NOT LIKE '% %'", c.Registry, c.Token, at.Now)
	if err != nil {
		return grant, err
	}
	others, err := query[[]struct {
		Registry string
		WorkerID int
		UntilMs  int64
	}](tx, "read the claims", "SELECT registry, worker_id, until_ms FROM "+claimTable+
		" WHERE registry <> ? AND token <> ? AND until_ms > ? ORDER BY until_ms DESC LIMIT 1", c.Registry, c.Token,
		at.Now-claimKept)
	if err != nil {
		return grant, err
	}
	grant = model.ClaimGrant{Now: at.Now, Kept: math.MaxInt64} // a file's
	if s.server != nil {
		grant.Kept = time.Duration(at.Now-at.kept) * time.Millisecond
	}
	if len(others) > 0 {
		grant.After = others[0].UntilMs
	}
	if grant.After > at.Now {
		return grant, fmt.Errorf("%w: %w: this instance asks %q, and another one may use worker ID %d of %q until %s",
			model.Do("stop all instances of the other registry, and, for those that were killed, wait or run `shardid "+
				"confirm --registry`, or correct snowflake.worker.mode, snowflake.name and the addresses here"),
			model.ErrRegistryInUse, c.Registry, others[0].WorkerID, others[0].Registry,
			time.UnixMilli(grant.After).UTC().Format(time.RFC3339))
	}
	if err := write(tx, "remove old claims", "DELETE FROM "+claimTable+" WHERE token = ? OR until_ms <= ?",
		c.Token, at.Now-claimKept); err != nil {
		return grant, err
	}
	return grant, write(tx, "store the claim", "INSERT INTO "+claimTable+
		" (token, registry, worker_id, until_ms) VALUES (?, ?, ?, ?)", c.Token, c.Registry, c.WorkerID, c.Until)
}

// ForgetWorkerClaims lets all claims be for no later time than now, as an operator does who knows that the instances
// of the other registry were killed. They end ClaimAhead later; those that live make theirs longer before that. It
// gives how many claims there were. Errors: *model.StoreError.
func (s *Store) ForgetWorkerClaims(ctx context.Context) (claims int64, err error) {
	const op = "end the claims on worker IDs"
	// A change of the server that is not noted yet comes first.
	return withMoment(ctx, s, op, nil, func(tx *gorm.DB, m *moment) (int64, error) {
		end := m.Now + model.ClaimAhead.Milliseconds()
		res := tx.Exec("UPDATE "+claimTable+" SET until_ms = ? WHERE until_ms > ?", end, end)
		return res.RowsAffected, res.Error
	})
}
