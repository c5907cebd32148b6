package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"shardid/model"
)

// claimTimeout bounds each call of the database: what is reserved outlasts it.
const claimTimeout = time.Second

// databaseClaim is what the database knows of this instance's worker ID, and of other registries'.
type databaseClaim struct {
	claimed model.WorkerClaim // as stored by this process; zero without one
	bound   int64             // IDs carry an earlier time, Unix ms, as a claim that is stored says
	others  int64             // up to when other registries' instances may have issued, Unix ms
}

// claim stores in the database that IDs of the lease may be issued until Expiry from now, before they may: k.bound.
// It fails when another registry is in use, or was while this claim had ended.
func (k *Keeper) claim(ctx context.Context, lease model.Lease) (model.ClaimGrant, error) {
	if k.opts.Claim == nil {
		k.bound = math.MaxInt64
		return model.ClaimGrant{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	until := k.claimed.Until + 1 // a clock that has left the registry's says nothing
	if wall, mono := k.opts.Now(); k.jumped(wall, mono) == nil {
		until = max(until, millis(wall)+(k.opts.Expiry+model.ClaimAhead).Milliseconds())
	}
	c := model.WorkerClaim{
		Token: k.owner.Token, Registry: lease.Registry, WorkerID: lease.WorkerID, Until: until,
		First: k.claimed.Registry != lease.Registry,
	}
	grant, err := k.opts.Claim(ctx, c)
	if err != nil {
		return grant, err
	}
	k.claimed = c
	if k.held && grant.After > k.lease.After {
		return grant, fmt.Errorf("%w: another one was, since this instance began", model.ErrRegistryInUse)
	}
	k.bound = until - model.ClaimAhead.Milliseconds()
	return grant, nil
}

// claimFirst makes the claim without which a lease is not taken. While the database is unreachable, the claim of the
// life before stands in for it, as far as the file knows it. What the database has forgotten of the others' claims
// counts as forgotten by the registry. A registry without a clock goes by the database's, and remembers what the file
// does.
func (k *Keeper) claimFirst(ctx context.Context, lease *model.Lease) error {
	wall, _ := k.opts.Now()
	old, stored := k.stored()
	grant, err := k.claim(ctx, *lease)
	k.others = max(k.others, grant.After) // only a first claim is told of others
	if isAway(err) && stored && old.Registry == lease.Registry && old.Expires > millis(wall) {
		k.others = max(k.others, old.Reserved)
		if !k.held {
			k.bound = old.Expires
		}
		return nil
	}
	if err != nil || grant.Now == 0 {
		return err
	}
	if lease.ServerTime == 0 {
		lease.ServerTime = grant.Now
		if stored && old.WorkerID == lease.WorkerID && old.Registry == lease.Registry {
			lease.After = old.Reserved
		} else {
			lease.KeptSince = grant.Now
		}
		if err := k.markTime(grant.Now, wall); err != nil {
			return err
		}
	}
	if k.claimed.First {
		lease.KeptSince = max(lease.KeptSince, lease.ServerTime-grant.Kept.Milliseconds())
	}
	return nil
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
	c.First = false
	c.Until = min(c.Until, max(k.opts.Generator.LastIssued(), k.lease.After, old.Expires)+1)
	_, err := k.opts.Claim(ctx, c)
	if isAway(err) {
		return err
	}
	k.claimed = model.WorkerClaim{}
	if errors.Is(err, model.ErrLeaseLost) {
		return k.disown()
	}
	return nil
}
