// Package worker keeps a snowflake generator supplied with a worker ID. Six kinds
// of registry give them; one [Keeper] acquires, renews and releases for them all.
//
// # Why no ID repeats
//
// Before the generator uses a millisecond, that millisecond has been reserved: the
// keeper stores a bound a few seconds ahead of the clock in the registry, and in a
// file on this machine where the registry's kind has one, and only then lets the
// generator go up to it. Whoever follows with the same worker ID starts above the
// bound that is stored. So it does not matter how long a process was stopped, what
// its clock did meanwhile, or whether it noticed that its lease had gone: each
// millisecond of each worker ID belongs to one lease.
//
// With a file, the registry may be away: it was told a far bound (Expires) that
// nobody else starts below, and the file keeps the near one (Reserved) that this
// machine itself starts above. Without one, both are the near bound.
//
// Clocks matter in one place only: a registry that lost its state cannot vouch for
// what was reserved. Then the keeper waits until everything that could have been
// reserved has passed, which it can tell because no instance reserves while its
// clock is further from the registry's than max_clock_offset.
package worker
