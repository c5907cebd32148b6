package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// leaseRow is a row of shardid_lease: a worker ID of a name and its last lease. Times are Unix
// ms. The next lease is granted above UntilMs, by these rules, which scripts/prove/holder.pml
// has:
//
//   - not before the last one was released, or ended model.LeaseMargin ago;
//   - above what the database may have forgotten (model.Name.LostUntil);
//   - a lease is renewed by its secret, and before it has ended only.
type leaseRow struct {
	Name      string
	WorkerID  int64
	Instance  string
	Secret    string // its digest; "" once the lease was released
	AfterMs   int64
	UntilMs   int64
	GrantedAt int64
	RenewedAt int64
}

// free is what a worker ID must be to be leased. Its argument is the server's clock less
// model.LeaseMargin.
const free = "(secret = '' OR until_ms <= ?)"

// digest is what is stored of a secret that must be known again.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (r leaseRow) lease(n model.Name, secret string, now int64) model.NameLease {
	return model.NameLease{Name: n, WorkerID: r.WorkerID, Instance: r.Instance, Secret: secret, After: r.AfterMs,
		Until: r.UntilMs, Now: now}
}

// GrantLease leases a worker ID of a name: the one that the instance had, where it is free; else
// one that never was leased; else the one that has been free for longest. After it a renewal may
// be needed before there is a time to use. Errors: model.ErrUnknownName, ErrNoWorkerID,
// *model.StoreError; after that one a worker ID may be leased that nobody uses, until it ends.
func (s *Store) GrantLease(ctx context.Context, name, instance string) (lease model.NameLease, err error) {
	err = s.takeOne(ctx, "lease a worker ID", func(tx *gorm.DB) error {
		n, at, err := s.presentName(tx, name)
		if err != nil {
			return err
		}
		old, err := freeWorker(tx, n, instance, at)
		if err != nil {
			return err
		}
		// A clock that is further behind is wrong. So a time that is no such time is seen as one.
		after := max(old.UntilMs, at.Now-n.Hold.Milliseconds())
		if at.Changes > 0 {
			after = max(after, n.LostUntil(at.kept))
		}
		secret := rand.Text()
		row := leaseRow{
			Name: name, WorkerID: old.WorkerID, Instance: instance, Secret: digest(secret), AfterMs: after,
			UntilMs: max(old.UntilMs, at.Now+n.GrantHold(at.Now).Milliseconds()), GrantedAt: at.Now,
		}
		lease = row.lease(n, secret, at.Now)
		if old.GrantedAt == 0 {
			return tx.Table(leaseTable).Create(&row).Error
		}
		return old.store(tx, "instance = ?, secret = ?, after_ms = ?, until_ms = ?, granted_at = ?, renewed_at = 0",
			row.Instance, row.Secret, row.AfterMs, row.UntilMs, row.GrantedAt)
	})
	if err != nil {
		return model.NameLease{}, err
	}
	return lease, nil
}

// freeWorker is a worker ID to lease, with its last lease; GrantedAt is 0 for one that never was.
func freeWorker(tx *gorm.DB, n model.Name, instance string, at moment) (leaseRow, error) {
	ended := at.Now - model.LeaseMargin.Milliseconds()
	const read = "SELECT * FROM " + leaseTable + " WHERE name = ? AND "
	if instance != "" {
		own, err := query[leaseRow](tx, "look for the instance", read+"instance = ? AND "+free+
			" ORDER BY until_ms DESC LIMIT 1", n.Name, instance, ended)
		if err != nil || own.GrantedAt > 0 {
			return own, err
		}
	}
	next, err := query[int64](tx, "look for a new worker ID",
		"SELECT COALESCE(MAX(worker_id) + 1, 0) FROM "+leaseTable+" WHERE name = ?", n.Name)
	from, count := at.region.Workers(n.WorkerBits)
	if next = max(next, from); err != nil || next < from+count {
		return leaseRow{WorkerID: next}, err
	}
	oldest, err := query[leaseRow](tx, "look for a free worker ID", read+free+" ORDER BY until_ms LIMIT 1", n.Name,
		ended)
	if err != nil || oldest.GrantedAt > 0 {
		return oldest, err
	}
	soonest, err := query[int64](tx, "look for the next that ends",
		"SELECT COALESCE(MIN(until_ms), 0) FROM "+leaseTable+" WHERE name = ?", n.Name)
	return leaseRow{}, cmp.Or(err, fmt.Errorf("%w: %w: all %d of the name %q are leased, the next one may be free at "+
		"%s",
		model.Do("stop holders that are not needed, or wait"), model.ErrNoWorkerID, count, n.Name,
		time.UnixMilli(soonest).Add(model.LeaseMargin).UTC().Format(time.RFC3339)))
}

// readLease reads the row of a lease without a lock: whoever writes it names what was read. A worker ID that was
// never leased has none: then it is zero.
func (s *Store) readLease(tx *gorm.DB, key model.LeaseKey) (r leaseRow, at moment, err error) {
	r, err = query[leaseRow](tx, "read the lease", "SELECT * FROM "+leaseTable+" WHERE name = ? AND worker_id = ?",
		key.Name, key.WorkerID)
	if err == nil {
		at, err = s.moment(tx, toCount)
	}
	return r, at, err
}

// getNewLease is what to do about model.ErrLeaseLost.
const getNewLease = "get a new lease"

// checkHeld refuses a lease that does not live under the key. Errors: model.ErrLeaseLost.
func (r leaseRow) checkHeld(key model.LeaseKey, now int64) error {
	switch {
	case r.Secret == "" || subtle.ConstantTimeCompare([]byte(r.Secret), []byte(digest(key.Secret))) != 1:
		return fmt.Errorf("%w: %w: worker ID %d of the name %q is not leased under this secret",
			model.Remedy(getNewLease),
			model.ErrLeaseLost, key.WorkerID, key.Name)
	case r.UntilMs <= now:
		return fmt.Errorf("%w: %w: the lease of worker ID %d of the name %q ended at %s", model.Remedy(getNewLease),
			model.ErrLeaseLost, key.WorkerID, key.Name, time.UnixMilli(r.UntilMs).UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// readName reads a name without a lock. Errors: model.ErrUnknownName too.
func readName(tx *gorm.DB, name string) (model.Name, error) {
	rows, err := query[[]nameRow](tx, "read the name", "SELECT * FROM "+nameTable+
		" WHERE deleted_at = 0 AND name = ?", name)
	row, err := oneRow(rows, err, model.UnknownName(name))
	return row.name(), err
}

// RenewLease makes a lease longer. Errors: model.ErrUnknownName, ErrLeaseLost, *model.StoreError; after
// the last one the lease may be longer than its holder knows.
func (s *Store) RenewLease(ctx context.Context, key model.LeaseKey) (lease model.NameLease, err error) {
	err = s.takeOne(ctx, "renew a lease", func(tx *gorm.DB) error {
		r, at, err := s.readLease(tx, key)
		if err != nil {
			return err
		}
		n, err := readName(tx, key.Name)
		if err != nil {
			return err
		}
		if err := r.checkHeld(key, at.Now); err != nil {
			return err
		}
		until := max(r.UntilMs, at.Now+n.GrantHold(at.Now).Milliseconds())
		err = r.store(tx, "until_ms = ?, renewed_at = ?", until, at.Now)
		r.UntilMs = until
		lease = r.lease(n, key.Secret, at.Now)
		return err
	})
	if err != nil {
		return model.NameLease{}, err
	}
	return lease, nil
}

// store writes the row of a lease, if it is as it was read. The error may be errRowChanged.
func (r leaseRow) store(tx *gorm.DB, set string, values ...any) error {
	return updateRows(tx, 1, "store the lease", "UPDATE "+leaseTable+" SET "+set+
		" WHERE name = ? AND worker_id = ? AND secret = ? AND until_ms = ?",
		append(values, r.Name, r.WorkerID, r.Secret, r.UntilMs)...)
}

// ReleaseLease ends a lease whose holder issues nothing more and has used no time after
// lastUsed, Unix ms: After for a holder that issued nothing, 0 for one that does not say. The next holder may follow
// at once, above that. Errors: model.ErrLeaseLost, also when the lease was released before;
// ErrInvalidArgument for a lastUsed that the lease does not allow, *model.StoreError.
func (s *Store) ReleaseLease(ctx context.Context, key model.LeaseKey, lastUsed int64) error {
	return s.takeOne(ctx, "release the lease", func(tx *gorm.DB) error {
		r, _, err := s.readLease(tx, key)
		if err != nil {
			return err
		}
		if err := r.checkHeld(key, 0); err != nil { // also one that has ended, where nobody has followed
			return err
		}
		used := cmp.Or(lastUsed, r.UntilMs)
		if low, high := min(r.AfterMs, r.UntilMs), max(r.AfterMs, r.UntilMs); used < low || used > high {
			return fmt.Errorf("%w: lastUsed must be in %d…%d, the times of the lease in Unix milliseconds, not %d: "+
				"the lease was not released, and ends by itself", model.ErrInvalidArgument, low, high, lastUsed)
		}
		return r.store(tx, "secret = '', until_ms = ?", min(used, r.UntilMs))
	})
}

// Holders gives the worker IDs of a name with their last leases, those whose lease ends last
// first, at most limit. Errors: model.ErrUnknownName, *model.StoreError.
func (s *Store) Holders(ctx context.Context, name string, limit int) ([]model.NameHolder, error) {
	return look(ctx, s, "read the holders", func(tx *gorm.DB, at moment) ([]model.NameHolder, error) {
		if _, err := readName(tx, name); err != nil {
			return nil, err
		}
		rows, err := query[[]leaseRow](tx, "read the leases", "SELECT * FROM "+leaseTable+
			" WHERE name = ? ORDER BY until_ms DESC, worker_id LIMIT ?", name, limit)
		holders := make([]model.NameHolder, len(rows)) // none is [], not null
		for i, r := range rows {
			holders[i] = model.NameHolder{WorkerID: r.WorkerID, Instance: r.Instance,
				Leased: r.Secret != "" && r.UntilMs > at.Now, After: r.AfterMs, Until: r.UntilMs,
				Granted: atMilli(r.GrantedAt), Renewed: atMilli(r.RenewedAt)}
		}
		return holders, err
	})
}
