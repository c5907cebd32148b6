package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"shardid/model"
)

const (
	// restartGrace is how long after an orderly stop an instance with a file may
	// come back without its registry, and no other instance gets its worker ID.
	restartGrace = time.Minute
	// margin is kept between the end of a lease in the registry and the end of the
	// trust in it: clocks of two machines do not run at quite the same speed.
	margin = time.Second
)

// step does what is due and says when the next is.
func (k *Keeper) step(ctx context.Context) time.Duration {
	needed := k.needed.Load()
	err := k.advance(ctx)
	if !k.held {
		err = errors.Join(err, k.unclaim(ctx))
	}
	if ctx.Err() != nil {
		return every // stopping: an error means nothing now
	}
	k.note(err)
	if needed || k.allowed {
		k.answer.Do(func() { close(k.answered) })
	}
	if err != nil {
		return k.retryPause()
	}
	return every
}

// retryPause is the pause after a failure, from half of retry on. It differs between processes, so that many that start
// at once do not ask in step.
func (k *Keeper) retryPause() time.Duration {
	part := crc32.ChecksumIEEE([]byte(k.owner.Token)) % 1000
	return retry/2 + retry/2*time.Duration(part)/1000
}

// advance brings the lease forward: file, layout, acquire, renew. With an error the
// generator keeps the bounds it has, which end by themselves, or has lost its term.
func (k *Keeper) advance(ctx context.Context) error {
	if k.opts.OpenFile != nil && k.file == nil {
		f, err := k.opts.OpenFile(k.owner.Address)
		if err != nil {
			return err
		}
		k.file, k.owner.Identity = f, f.Identity()
	}
	if !k.held || k.offline {
		if err := k.acquire(ctx); err != nil {
			return k.endRefused(k.withoutRegistry(ctx, err))
		}
	}
	if err := k.admit(ctx); err != nil {
		return err
	}
	return k.endRefused(k.renew(ctx))
}

// endRefused ends the term when a store has answered that the worker ID is not ours.
func (k *Keeper) endRefused(err error) error {
	for _, refusal := range []error{model.ErrLeaseLost, model.ErrRegistryInUse, model.ErrAddressTaken,
		model.ErrNoWorkerID} {
		if errors.Is(err, refusal) {
			k.end(err)
			return errors.Join(err, k.disown())
		}
	}
	return err
}

// checkLayout makes sure that IDs of no other layout were issued, and notes since
// when ours may have been; once an ID is asked for, it is recorded. With the database away
// the file of an earlier life that issued IDs, which knows the epoch, is proof enough, and
// of any age.
func (k *Keeper) checkLayout(ctx context.Context) error {
	if k.layoutSince != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, mono := k.opts.Now()
	age, recorded, err := k.opts.Layout(ctx, k.needed.Load())
	if err == nil && recorded {
		since := mono - age
		k.layoutSince, k.allowed = &since, true
	}
	if _, ok := k.stored(); ok && isAway(err) {
		k.allowed = true
		return nil
	}
	return err
}

// layoutAge is for how long IDs may have been issued, at a moment of the monotonic clock.
func (k *Keeper) layoutAge(mono time.Duration) time.Duration {
	switch {
	case !k.allowed:
		return 0
	case k.layoutSince == nil:
		return math.MaxInt64
	}
	return mono - *k.layoutSince
}

// admit lets a lease be used that was acquired when no ID had been asked for, anywhere, for
// all that was known. Other instances may have issued some since.
func (k *Keeper) admit(ctx context.Context) error {
	if k.allowed || !k.needed.Load() {
		return nil
	}
	err := k.checkLayout(ctx)
	if k.allowed {
		lease := k.lease
		lease.After = max(lease.After, k.doubt(lease, k.layoutAge(k.clock.mono)))
		k.begin(lease)
	}
	return err
}

// acquire gets a worker ID from the registry and begins its term, unless it is the
// one that the file has begun already.
func (k *Keeper) acquire(ctx context.Context) error {
	if err := k.checkLayout(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	wall, _ := k.opts.Now()
	lease, err := k.opts.Registry.Acquire(ctx, k.owner)
	if err != nil {
		return err
	}
	if err = k.markTime(lease.ServerTime, wall); err == nil {
		err = k.claimFirst(ctx, &lease)
	}
	if err != nil {
		return errors.Join(err, k.refuse(ctx, lease))
	}
	k.beginTerm(lease)
	return nil
}

// refuse gives a worker ID back that this life has not used. What an earlier one
// reserved in the file, and may yet continue with, stays promised.
func (k *Keeper) refuse(ctx context.Context, lease model.Lease) error {
	if k.held {
		return nil // it is in use, from the file
	}
	lease.Reserved, lease.Expires = lease.After, lease.After
	if old, ok := k.stored(); ok && old.WorkerID == lease.WorkerID {
		lease.Reserved = max(lease.After, old.Reserved)
		lease.Expires = max(lease.Reserved, old.Expires)
	}
	return k.giveUp(ctx, lease)
}

// beginTerm begins the term of a lease that the registry gave.
func (k *Keeper) beginTerm(lease model.Lease) {
	same := k.lease.Owner == k.owner && k.lease.WorkerID == lease.WorkerID && k.lease.Registry == lease.Registry
	_, mono := k.opts.Now()
	doubt := k.doubt(lease, k.layoutAge(mono))
	switch old, ok := k.stored(); {
	case same && k.held && lease.After <= k.lease.Reserved && k.others <= k.lease.After:
		// The term that the file began continues: no instance reserved beyond it.
		k.offline = false
		return
	case same && lease.After == k.confirmed:
		// No instance reserved more of it since we did: what we issued is all there is.
		lease.After = max(k.opts.Generator.LastIssued(), k.lease.After, doubt)
	case ok && old.WorkerID == lease.WorkerID && old.Registry == lease.Registry && old.Expires > lease.ServerTime &&
		lease.After >= old.Reserved:
		// It remembers all that we reserved, and has kept others away since.
	case ok && old.WorkerID == lease.WorkerID:
		lease.After = max(lease.After, old.Reserved, doubt)
	default:
		lease.After = max(lease.After, doubt)
	}
	lease.After = max(lease.After, k.others)
	lease.Expires = 0 // of what the registry stored; ours comes with the first renewal
	k.begin(lease)
}

// begin starts a term; nothing is issued before the first reservation. Until then
// After counts as reserved: whatever is stored for the term, a life that follows
// starts no lower than this one.
func (k *Keeper) begin(lease model.Lease) {
	if !k.held || k.lease.WorkerID != lease.WorkerID { // not one that is admitted, or confirmed by the registry
		k.opts.Log.Info(k.opts.Condition+" acquired",
			"worker_id", lease.WorkerID, "registry", k.opts.Mode, "address", k.owner.Address)
	}
	lease.Owner, lease.Reserved = k.owner, lease.After
	k.lease, k.held, k.offline, k.confirmed = lease, true, false, 0
	k.denied = false
	k.opts.Generator.Begin(lease.WorkerID, lease.After)
}

func (k *Keeper) end(reason error) {
	k.held = false
	k.opts.Generator.End(fmt.Errorf("%w: %w", model.ErrNoLease, reason))
}

// renew reserves more time, in the registry and in the file, and then lets the
// generator use it. A clock that left the registry's reserves nothing: the call
// then only asks for the registry's time, which may be what moved.
func (k *Keeper) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	wall, mono := k.opts.Now()
	grant, unclaimed := k.claim(ctx, k.lease)
	if unclaimed != nil && !isAway(unclaimed) {
		return unclaimed
	}
	want := k.next(millis(wall))
	moved := k.jumped(wall, mono) != nil
	if moved {
		want.Reserved, want.Expires = k.lease.Reserved, max(k.lease.Reserved, k.lease.Expires)
	}
	got, err := k.opts.Registry.Renew(ctx, want)
	if isAway(err) && k.file != nil {
		return k.reserveInFile(err)
	}
	if err != nil {
		return err
	}
	want.ServerTime = cmp.Or(got.ServerTime, grant.Now)
	if err := k.markTime(want.ServerTime, wall); err != nil {
		return err
	}
	if k.lapsed(got) {
		return fmt.Errorf("%w: it had run out, and the registry may have forgotten who got it since",
			model.ErrLeaseLost)
	}
	k.confirmed = got.Reserved
	// The registry may hold more, from a call that failed. The generator gets what was asked for.
	trust := mono + k.opts.TTL - margin
	if k.file != nil {
		trust = mono + k.opts.Expiry - margin
	}
	if k.allowed && k.file != nil {
		if err := k.file.Store(want); err != nil {
			return err
		}
	}
	k.lease, k.trust = want, trust
	if moved && want.ServerTime != 0 {
		k.Wake() // it was the registry's, too, so time can be reserved
	}
	if k.allowed {
		k.opts.Generator.Extend(want.Reserved, trust)
	}
	if k.bound > millis(wall)+Ahead.Milliseconds() {
		return nil // the claim lasts until the database is back
	}
	return unclaimed
}

// lapsed reports whether another instance may have held the worker ID since the last
// renewal although the registry knows nothing of it: the lease had run out, and the
// registry may have gone back in time since it last answered.
func (k *Keeper) lapsed(got model.Lease) bool {
	const jitter = 5000 // ms: a server's boot time is computed from its uptime
	return got.KeptSince > 0 && got.ServerTime >= k.lease.Expires && k.lease.Expires > 0 &&
		got.KeptSince > k.lease.ServerTime-jitter
}

// next is the lease to ask for: more time where that is due, and with a file the
// right to continue without the registry for Expiry, both as far as the claim that is stored.
func (k *Keeper) next(now int64) model.Lease {
	next := k.lease
	next.Reported = now
	next.Reserved = max(min(k.opts.Reserve(now, next.Reserved), k.bound-1), next.Reserved)
	next.Expires = next.Reserved + 1
	if k.file != nil {
		next.Expires = max(min(now+k.opts.Expiry.Milliseconds(), k.bound), next.Expires)
	}
	return next
}

// withoutRegistry is what is left when no worker ID can be acquired: the term of
// the file while the registry is unreachable, nothing when it answered and refused.
func (k *Keeper) withoutRegistry(ctx context.Context, cause error) error {
	switch {
	case !isAway(cause), errors.Is(cause, ErrClockOff), !k.allowed:
		k.end(cause)
		return cause
	case !k.held && !k.resume():
		return cause
	}
	if _, err := k.claim(ctx, k.lease); err != nil && !isAway(err) {
		return err
	}
	return k.reserveInFile(cause)
}

// resume begins the term of the last life's lease from the file, if no other
// instance can have got it.
func (k *Keeper) resume() bool {
	old, ok := k.stored()
	wall, mono := k.opts.Now()
	left := old.Expires - millis(wall)
	if !ok || k.denied || left <= margin.Milliseconds() {
		return false
	}
	k.begin(old)
	k.offline, k.bound = true, old.Expires
	k.trust = mono + time.Duration(left)*time.Millisecond - margin
	return true
}

// reserveInFile reserves time while the registry is unreachable, up to the bound that no other instance starts below.
// It returns the cause: the registry is still away.
func (k *Keeper) reserveInFile(cause error) error {
	if k.lease.Expires == 0 || !k.allowed {
		return cause // the registry has promised this term nothing yet, or nobody wants IDs
	}
	wall, mono := k.opts.Now()
	if err := k.jumped(wall, mono); err != nil {
		return errors.Join(cause, err)
	}
	next := k.lease
	next.Reserved = max(min(millis(wall)+Ahead.Milliseconds(), next.Expires-1), next.Reserved)
	if err := k.file.Store(next); err != nil {
		return errors.Join(cause, err)
	}
	k.lease = next
	k.opts.Generator.Extend(next.Reserved, k.trust)
	return cause
}

// disown takes the right to continue without the registry out of the file: the
// registry has answered that the worker ID is not ours.
func (k *Keeper) disown() error {
	k.denied = true
	old, ok := k.stored()
	if !ok || old.Expires <= old.Reserved {
		return nil
	}
	old.Expires = old.Reserved
	return k.file.Store(old)
}

func (k *Keeper) stored() (model.Lease, bool) {
	if k.file == nil {
		return model.Lease{}, false
	}
	return k.file.Load()
}

// isAway says whether a store could not be asked, rather than answered.
func isAway(err error) bool {
	var store *model.StoreError
	return errors.As(err, &store)
}
