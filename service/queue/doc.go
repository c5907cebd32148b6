// Package queue is shardid's main job: it hashes a gatePass to one of 64
// shards, takes an index from the list of that app and shard, and composes the
// ID. Lists are refilled from allocated segments, at once when a pop sees the
// low watermark and by a sweep every other minute.
//
// It knows nothing of HTTP and nothing of the stores behind its interfaces
// (ports.go). The pieces, in the order a request meets them:
//
//	service.go    Next: validate, find the list, take, wait
//	catalogue.go  which lists exist; reload
//	list.go       what this replica holds of one list, and who waits for it
//	fetch.go      pops on behalf of the waiters, and a little ahead of demand
//	deliver.go    from indices to IDs: limit, tripwire
//	demand.go     how far ahead
//	claim.go      which list is refilled when: soon, now, never twice at once
//	refill.go     lock, state, allocate, push
//	alarms.go     what is counted and logged when a store went back in time
//	schedule.go   start, the cron jobs, stop
package queue
