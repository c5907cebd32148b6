// Package redisstore keeps the lists of indices and the refill locks in Redis:
// a single server, one behind Sentinel, or a Redis Cluster. Redis 6.2 or newer.
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
// # Two clients
//
// Pops, states and unlocks go through a client that may retry and follow
// redirects: repeated, they lose indices at worst. Pushes and locks go through
// one that never sends a command twice. A push whose reply is lost, or that
// meets a moved slot, is an error, and its segment is never used.
//
// # Keys
//
//	id.gen.idList_<app>_<shard>                    list of indices, oldest left
//	id.gen.meta_{id.gen.idList_<app>_<shard>}      hash: h history, w highest index pushed,
//	                                               e since when it is kept, in µs
//	id.gen.lock_<name>                             string: token of the holder
//
// The scripts are the .lua files of this folder; prelude.lua precedes all but
// unlock.lua.
//
// go-redis writes failures of its connection pool to stderr. Whoever wants them
// elsewhere calls redis.SetLogger once, in main.
package redisstore
