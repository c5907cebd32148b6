// Package redisstore keeps the lists of indices, the refill locks and the worker
// IDs in Redis: a single server, one behind Sentinel, or a Redis Cluster. Redis
// 6.2 or newer.
//
// # The promise
//
// A pop never returns an index twice, even when the server restarts from an old
// RDB or AOF file or an out-of-date replica is promoted. Each of these events
// gives the server a new master_replid, its history. Beside each list a hash
// holds the history for which the list is valid, and every script compares the
// two before it serves: what another timeline left behind is dropped, which
// costs a gap. A server whose history cannot be read is refused.
//
// Worker IDs are bound to the history in the same way, see Workers.
//
// # Two clients
//
// Pops, states, unlocks and all about worker IDs go through a client that may
// retry and follow redirects: repeated, pops lose indices at worst, and the
// others do no harm. Pushes and locks go through one that never sends a command
// twice. A push whose reply is lost, or that meets a moved slot, is an error, and
// its segment is never used.
//
// # Keys
//
//	id.gen.idList_<app>_<shard>                    list of indices, oldest left
//	id.gen.meta_{id.gen.idList_<app>_<shard>}      hash: h history, w highest index pushed,
//	                                               e since when it is kept, in µs,
//	                                               d ID of the deployment
//	id.gen.marks_{<deployment>}                    hash: h and e as above; how far each counter of
//	                                               the database has come, see Marks
//	id.gen.lock_<name>                             string: token of the holder
//	id.gen.worker_{<name>}_<id>                    string: token of the holder, expires
//	id.gen.workers_{<name>}                        hash: h, e and d as above; for each worker ID
//	                                               its bounds, last report and last owner
//
// The scripts are the .lua files of this folder; prelude.lua precedes all but
// unlock.lua, and workers.lua the others of worker IDs.
//
// go-redis writes failures of its connection pool to stderr. Whoever wants them
// elsewhere calls redis.SetLogger once, in main.
package redisstore
