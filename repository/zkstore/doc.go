// Package zkstore gives worker IDs from ZooKeeper 3.5 or newer, in three modes of
// one shape:
//
//	zk            fixed for ever, in the tree of Leaf, whose Java instances may
//	              share it
//	zk_recycle    given back, or taken from a holder whose lease ran out
//	zk_ephemeral  the smallest free one, for as long as the session lasts
//
// # The promise
//
// Each time inside the IDs of a worker belongs to one lease, see model.Lease. The
// bounds lie in persistent nodes. Every change is one transaction that names the
// versions it has seen, so two instances never get one worker ID, however they
// race and whatever the client does behind our back: a request whose answer was
// lost, or that is sent after its caller gave up, changes nothing that somebody
// has changed since.
//
// # Time
//
// Whether a lease ran out is decided by the servers' clock alone: each Acquire
// writes a node and takes the time that ZooKeeper gives it. That write also makes
// the reads after it see everything committed before.
//
// # Nodes
//
//	/snowflake/<name>/forever/<ip:port>-<N>          zk: worker ID N, Leaf's {"ip","port","timestamp"}
//	/snowflake/<name>/forever/<ip:port>-<N>/shardid  whose it is and the bounds: a record as JSON
//	/snowflake/<name>/recycle/inuse/<id>             zk_recycle: the record of its holder
//	/snowflake/<name>/recycle/notuse/<id>            the record of its last holder, unless it never had one
//	/snowflake/<name>/recycle/address/<key>          which worker ID an identity, or an address, has or had last
//	/snowflake/<name>/<id>                           zk_ephemeral: Leaf's data, ends with the session
//	/lock/<name>/reserved/<id>                       the record, stays
//	/lock/<name>/token/<token>                       which worker ID the process has, ends with the session
//	/lock/<name>/lock-<N>                            the queue of those who look for a free one
//	/lock/<name>/clock                               written for the time
//	/lock/<name>/of-<identity>                       zk: its node below forever
//	/lock/<name>/registry                            random ID of the registry
//	/lock/<name>/since-<mode>                        written when nothing was found below the name
package zkstore
