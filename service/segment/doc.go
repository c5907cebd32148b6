// Package segment is Leaf's segment mode: a tag's IDs are dense numbers, taken
// from ranges that one transaction each commits in the table leaf_alloc, and
// handed out from memory.
//
// A range is used as it was committed and by nobody else; after any error it is
// a gap. So an ID is issued once, whatever the database does, and this process
// never goes below an ID that it has seen handed out, not even when the table
// went back in time.
//
// Ranges are fetched ahead of demand: the next one when 10 % of the current is
// used, as in Leaf, and as many more as the tag needs to go on for
// Options.Runway without its database. The pieces, in the order a request meets
// them:
//
//	service.go    Next: find the tag by name
//	catalogue.go  which tags exist; reload
//	tag.go        take IDs from what is held
//	block.go      one range: a counter and where it ends
//	wait.go       callers that found too little
//	load.go       fetch ranges until enough is held
//	step.go       how long a range should be, as Leaf tunes it
//	demand.go     how much should be held
//	schedule.go   start, the regular work, stop
//	events.go     what is logged of single tags
//	stats.go      counters; view.go: what is shown of each tag
package segment
