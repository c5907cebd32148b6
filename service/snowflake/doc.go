// Package snowflake makes 64-bit IDs of 41 bits of milliseconds since an epoch, a
// 10-bit worker ID and a 12-bit sequence, as Twitter's Snowflake and Meituan's
// Leaf do.
//
// A [Generator] turns a clock and a granted worker ID into IDs. It never waits,
// logs or remembers anything beyond its last ID, and it issues only inside the
// bounds it was granted: IDs carry a time later than everything an earlier holder
// of the worker ID may have used, and no later than the time that has durably
// been reserved for this one. Who grants the bounds is package worker.
//
// A [Service] waits where waiting helps: for the next millisecond when the
// sequence is used up, and for a clock that went back a little.
package snowflake
