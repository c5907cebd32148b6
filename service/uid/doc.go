// Package uid makes the IDs of Baidu's UidGenerator: seconds since an epoch, a
// worker ID that each start gets anew, and a sequence number. In default mode an ID
// carries the second it was asked for. In cached mode IDs come from a ring that is
// filled ahead, and their seconds are a counter that may run ahead of the clock.
//
// It knows nothing of HTTP and nothing of the database behind its interface
// (ports.go). The pieces:
//
//	service.go  Next: validate, take, explain why there is nothing
//	keep.go     get a node, keep its mark, get another when it is lost
//	grant.go    what a node may issue: worker ID, seconds, mark
//	cached.go   fill the ring
//	clock.go    default mode
//	place.go    container or machine: what a node's row says
//	status.go   what is shown, what is counted, the warnings
//
// Why no ID repeats: a worker ID and a second belong to one node for ever. Before a
// node issues the IDs of a second, its row holds a mark at or above it, durably. A
// worker ID is used again only with seconds above the mark of whoever had it
// before. Within a node no second is put into the ring twice, and in default mode
// second and sequence number are one counter that only rises.
package uid
