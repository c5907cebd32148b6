package worker

import (
	"context"
	"time"

	"shardid/model"
)

const (
	// claimTimeout bounds each call of the database: what is reserved outlasts it.
	claimTimeout = time.Second
	// claimAhead is how far a claim reaches beyond what it is for, so that an instance
	// that cannot reach the database for a moment still has one.
	claimAhead = 30 * time.Second
	// watch is how long a start watches the claims before it takes those that have
	// ended of another registry for given up: a holder that could not reach the
	// database either has renewed its claim in that time.
	watch = 10 * time.Second
)

// claim tells the database that IDs of the lease may be issued up to until.
func (k *Keeper) claim(ctx context.Context, lease model.Lease, until int64) (model.ClaimGrant, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	_, mono := k.opts.Now()
	if k.watching == nil {
		k.watching = &mono
	}
	c := model.WorkerClaim{
		Token: k.owner.Token, Registry: lease.Registry, WorkerID: lease.WorkerID, Until: until + claimAhead.Milliseconds(),
		Watched: k.claimed.Registry == lease.Registry || k.offline && k.lease.Registry == lease.Registry || mono-*k.watching >= watch,
	}
	grant, err := k.opts.Claim(ctx, c)
	switch {
	case err == nil:
		k.claimed, k.unclaimed = c, false
	case isAway(err):
		k.watching = nil
		if !k.unclaimed {
			k.unclaimed = true
			k.opts.Log.Warn("the database is away, so that it does not know that this worker ID is in use: "+
				"do not move to another registry of worker IDs before it is back", "worker_id", lease.WorkerID, "error", err)
		}
	}
	return grant, err
}

// claimFirst makes the claim without which a lease is not taken. Only a claim of the
// life before, which the database still has, can stand in for it while that is away.
// What the database has forgotten of the others' claims counts as forgotten by the
// registry.
func (k *Keeper) claimFirst(ctx context.Context, lease *model.Lease) error {
	wall, _ := k.opts.Now()
	until := millis(wall) + Ahead.Milliseconds()
	if k.file != nil {
		until = millis(wall) + k.opts.Expiry.Milliseconds()
	}
	grant, err := k.claim(ctx, *lease, until)
	if isAway(err) {
		if old, ok := k.stored(); ok && old.Registry == lease.Registry && old.Expires > millis(wall) {
			return nil
		}
	}
	if err == nil && lease.ServerTime > 0 {
		lease.KeptSince = max(lease.KeptSince, lease.ServerTime-grant.Kept.Milliseconds())
	}
	lease.After = max(lease.After, grant.After)
	return err
}

// unclaim lowers the claim of a term that has ended to what was issued in it, or to
// what the file may go on with.
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
