// Package load puts an ID service under load over HTTP/1.1 and checks what comes
// back: how fast, how late, with which errors, and whether any ID came twice.
//
// It knows nothing of the service's inside; any server that answers like it can be
// measured, and with Options.Raw any path of any server. The pieces:
//
//	options.go     what a run is, and what is refused
//	target.go      the requests, made once
//	connection.go  one connection: write a request, read its answer
//	response.go    what HTTP/1.1 answers look like; body.go
//	ids.go         the IDs in an answer
//	judge.go       what an answer was: IDs, a refusal, or something that must not be
//	worker.go      one goroutine per connection: ask, account
//	pace.go        a constant rate; alarm_*.go wakes it exactly
//	ledger.go      every ID that came; duplicates.go compares them
//	failures.go    errors by kind
//	load.go        a run from start to end
//	advice.go      what to do when the first request fails
//	report.go      the result
//
// In a closed loop each connection sends its next request when the answer to the
// last one came, so a server that stalls is asked less and looks better than it is.
// At a constant rate it does not: requests are due by a schedule that nothing
// delays, and latencies count from when a request was due, whether or not a
// connection was free to send it then.
package load
