// Package admin creates, changes and deletes apps and tags, and frees worker IDs. The
// HTTP front end and the command line go through it, so both refuse the same things
// and leave the same line in the log.
//
// It decides nothing about IDs itself: what would let one repeat is refused by the
// store, in the transaction that holds the rows (model.AppChange, model.TagChange).
// It has a replica that is told of a change take it over at once, and says by when all
// others will have.
//
// Every call that changes something, or was refused, writes one line "audit" at INFO:
// who, action, target, what was there before and what is there now, outcome. Outcome
// is done, refused (nothing was changed) or failed (whether it is stored is not known:
// look).
package admin
