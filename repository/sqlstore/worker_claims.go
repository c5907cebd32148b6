package sqlstore

import (
	"context"
	"math"
	"strconv"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

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
		res := tx.Exec("UPDATE "+claimTable+
			" SET worker_id = ?, until_ms = ? WHERE token = ? AND registry = ? AND until_ms > ?",
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
				return &model.RegistryInUseError{Registry: others[0].Registry, Mine: c.Registry,
					WorkerID: others[0].WorkerID,
					Until:    time.UnixMilli(max(grant.After, at.Now))}
			}
		}
		if err := write(tx, "remove old claims", "DELETE FROM "+claimTable+" WHERE token = ? OR until_ms <= ?",
			c.Token, at.Now-claimKept); err != nil {
			return err
		}
		return write(tx, "store the claim", "INSERT INTO "+claimTable+
			" (token, registry, worker_id, until_ms) VALUES (?, ?, ?, ?)", c.Token, c.Registry, c.WorkerID, c.Until)
	})
	return grant, err
}

// ForgetWorkerClaims ends all claims, as an operator does who knows that the instances
// of the other registry were killed. Those that live renew theirs within seconds, and
// are waited for as before. It gives how many claims there were. Errors:
// *model.StoreError.
func (s *Store) ForgetWorkerClaims(ctx context.Context) (claims int64, err error) {
	now := s.either(serverNow, strconv.FormatInt(s.opts.Now().UnixMilli(), 10))
	return s.confirm(ctx, "end the claims on worker IDs", "UPDATE "+claimTable+" SET until_ms = "+now+
		" WHERE until_ms > "+now)
}
