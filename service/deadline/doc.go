// Package deadline gives connections deadlines that are cheap to move.
//
// net/http moves a connection's deadlines four times a request, and each time the
// runtime sets a timer anew: together a tenth of what a small answer costs. Here
// a deadline that moves is only noted. A sweep enforces those that have passed, at
// most Period late.
//
// A Read of a single byte is how net/http watches, while a handler runs, whether
// the client goes away. Most handlers end before it could matter, so it costs no
// system call until a sweep finds it still waiting. ConnState says when one runs; any
// other Read is one that a client may keep waiting.
package deadline
