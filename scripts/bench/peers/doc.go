// Package peers measures ID generators of other libraries, for scripts/bench. It
// is a module of its own so that their dependencies stay out of shardid's.
//
//	go test -bench . -cpu 1,2
package peers
