package worker

import (
	"context"
	"fmt"
	"time"

	"shardid/model"
)

const (
	// claimTimeout bounds each call of the database: what is reserved outlasts it.
	claimTimeout = time.Second
	// watch is how long a start watches the claims before it takes those of another
	// registry that have ended for given up. A holder that continues without the database
	// tries it more often, so that it renews its claim before that.
	watch = 10 * time.Second
)

// claimRegistry tells the database that IDs of the lease may be issued up to until. While the
// database is unreachable a term continues whose claim had not ended when that began: no
// other instance can have made one since. Else one may have, and the error is
// model.ErrRegistryInUse.
func (k *Keeper) claimRegistry(ctx context.Context, lease model.Lease, until int64) (model.ClaimGrant, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	wall, mono := k.opts.Now()
	// The clock that went further counts: one stands while a machine sleeps, and the other may be set.
	gap := max(mono-k.askedMono, time.Duration(wall-k.askedWall))
	k.askedMono, k.askedWall = mono, wall
	if k.watching == nil || gap > watch/2 {
		k.watching = &mono
	}
	unbroken := k.held && k.lease.Registry == lease.Registry &&
		(millis(wall) < max(k.claimed.Until, k.lease.Expires) || k.unclaimed && gap < watch)
	c := model.WorkerClaim{
		Token: k.owner.Token, Registry: lease.Registry, WorkerID: lease.WorkerID,
		Until:   until + model.ClaimAhead.Milliseconds(),
		Watched: unbroken || mono-*k.watching >= watch,
	}
	grant, err := k.opts.Claim(ctx, c)
	if !isAway(err) {
		k.unclaimed = false
		if err == nil {
			k.claimed = c
		}
		return grant, err
	}
	k.watching = nil
	if k.held && !unbroken {
		// It is no error of the store, which would be a matter of waiting.
		const ended = "%w, for all that is known: the claim had ended before the database was unreachable: %v"
		return grant, fmt.Errorf(ended, model.ErrRegistryInUse, err)
	}
	if !k.unclaimed {
		k.unclaimed = true
		k.opts.Log.Warn("the database is unreachable, so that it does not know that this worker ID is in use: "+
			"do not move to another registry of worker IDs before it is back", "worker_id", lease.WorkerID, "error",
			err)
	}
	return grant, err
}

// claimFirst makes the claim without which a lease is not taken. Only a claim of the
// life before, which the database still has, can stand in for it while that is unreachable.
// What the database has forgotten of the others' claims counts as forgotten by the
// registry.
func (k *Keeper) claimFirst(ctx context.Context, lease *model.Lease) error {
	wall, _ := k.opts.Now()
	until := millis(wall) + Ahead.Milliseconds()
	if k.file != nil {
		until = millis(wall) + k.opts.Expiry.Milliseconds()
	}
	grant, err := k.claimRegistry(ctx, *lease, until)
	if isAway(err) {
		if old, ok := k.stored(); ok && old.Registry == lease.Registry && old.Expires > millis(wall) {
			return nil
		}
	}
	if err == nil && lease.ServerTime > 0 {
		lease.KeptSince = max(lease.KeptSince, lease.ServerTime-grant.Kept.Milliseconds())
	}
	k.others = grant.After
	return err
}

// unclaim lowers the claim of a term that has ended to what was issued in it, or to
// what the file may continue with.
func (k *Keeper) unclaim(ctx context.Context) error {
	if k.held || k.claimed.Until == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	c := k.claimed
	old, _ := k.stored()
	c.Until = min(c.Until, max(k.opts.Generator.LastIssued(), k.lease.After, old.Expires)+1)
	if _, err := k.opts.Claim(ctx, c); isAway(err) {
		return err
	}
	k.claimed = model.WorkerClaim{}
	return nil
}
