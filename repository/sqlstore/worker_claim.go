package sqlstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// claimKept is for how long, in ms, a claim that has ended is remembered: no clock is
// further from the server's than that.
const claimKept = 86_400_000

// ClaimWorker stores until when a process may issue IDs, and with which registry. A
// claim that has not ended, or that is lowered to the past, is just stored. Another one
// needs that nobody claims another registry: not now, and unless the caller has watched
// for a while, not a moment ago. Errors: *model.RegistryInUseError, *model.StoreError.
func (s *Store) ClaimWorker(ctx context.Context, c model.WorkerClaim) (grant model.ClaimGrant, err error) {
	stored := false
	err = s.inTx(ctx, func(tx *gorm.DB) error {
		at, err := s.moment(tx)
		if err != nil {
			return err
		}
		res := tx.Exec("UPDATE "+claimTable+" SET worker_id = ?, until_ms = ? WHERE token = ? AND registry = ? AND until_ms > ?",
			c.WorkerID, c.Until, c.Token, c.Registry, at.Now)
		stored = res.RowsAffected == 1 || c.Until <= at.Now
		return res.Error
	})
	if err == nil && !stored {
		err = s.inTx(ctx, func(tx *gorm.DB) (err error) {
			grant, err = s.newClaim(tx, c)
			return err
		})
	}
	return grant, s.answerIf(ctx, "claim a worker ID", err)
}

// newClaim makes a claim where nobody claims another registry.
func (s *Store) newClaim(tx *gorm.DB, c model.WorkerClaim) (model.ClaimGrant, error) {
	if err := s.lockNamed(tx, claimTable); err != nil {
		return model.ClaimGrant{}, err
	}
	at, err := s.moment(tx)
	if err != nil {
		return model.ClaimGrant{}, err
	}
	var others []struct {
		Registry string
		WorkerID int
		UntilMs  int64
	}
	err = tx.Raw("SELECT registry, worker_id, until_ms FROM "+claimTable+" WHERE registry <> ? AND token <> ? AND until_ms > ? ORDER BY until_ms DESC LIMIT 1",
		c.Registry, c.Token, at.Now-claimKept).Scan(&others).Error
	if err != nil {
		return model.ClaimGrant{}, fmt.Errorf("read the claims: %w", err)
	}
	grant := model.ClaimGrant{Kept: math.MaxInt64} // a file's
	if s.server != nil {
		grant.Kept = time.Duration(at.Now-at.Since) * time.Millisecond
	}
	if len(others) > 0 {
		grant.After = others[0].UntilMs
		if grant.After > at.Now || !c.Watched {
			return grant, &model.RegistryInUseError{Registry: others[0].Registry, Mine: c.Registry, WorkerID: others[0].WorkerID,
				Until: time.UnixMilli(max(grant.After, at.Now))}
		}
	}
	if err := tx.Exec("DELETE FROM "+claimTable+" WHERE token = ? OR until_ms <= ?", c.Token, at.Now-claimKept).Error; err != nil {
		return grant, fmt.Errorf("remove old claims: %w", err)
	}
	err = tx.Exec("INSERT INTO "+claimTable+" (token, registry, worker_id, until_ms) VALUES (?, ?, ?, ?)", c.Token, c.Registry, c.WorkerID, c.Until).Error
	if err != nil {
		return grant, fmt.Errorf("store the claim: %w", err)
	}
	return grant, nil
}

// ForgetWorkerClaims ends all claims, as an operator does who knows that the instances
// of the other registry were killed. Those that live renew theirs within seconds, and
// are waited for as before. It gives how many claims there were. Errors:
// *model.StoreError.
func (s *Store) ForgetWorkerClaims(ctx context.Context) (claims int64, err error) {
	return s.confirm(ctx, "end the claims on worker IDs", func(tx *gorm.DB) (int64, error) {
		at, err := s.moment(tx)
		if err != nil {
			return 0, err
		}
		res := tx.Exec("UPDATE "+claimTable+" SET until_ms = ? WHERE until_ms > ?", at.Now, at.Now)
		return res.RowsAffected, res.Error
	})
}
