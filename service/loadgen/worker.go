package load

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// The pause after a connection failed, doubled for each failure in a row.
	firstPause, lastPause = 10 * time.Millisecond, time.Second
	// stale is how long a connection must have been idle for its end to be nobody's
	// fault: servers close idle ones.
	stale = int64(time.Second)
)

// worker is one connection and its account. Its methods belong to one goroutine,
// live may be read by others.
type worker struct {
	conn    connection
	clock   clock
	from    int64 // requests due earlier are warm-up, by the clock
	turn    int   // of the requests
	pause   time.Duration
	scratch []int64

	requests, ids int64 // measured, without an error
	last          int64 // when the last measured answer came
	unsent        int64 // measured, due and never sent
	latency       *hdrhistogram.Histogram
	errors        failures
	breaches      failures
	ledger        ledger
	live          counters
}

// counters are for the progress of a run; warm-up included.
type counters struct{ requests, ids, failed atomic.Int64 }

// closedLoop sends requests one after the other until ctx ends.
func (w *worker) closedLoop(ctx context.Context) {
	for w.ready(ctx) {
		w.ask(ctx, w.clock.now())
	}
	w.conn.shut()
}

// paced sends a request for each time in due. What is due when ctx has ended is not
// sent any more.
func (w *worker) paced(ctx context.Context, due <-chan int64) {
	w.ready(ctx) // before the first is due, as connecting takes time
	for at := range due {
		if w.ready(ctx) {
			w.ask(ctx, at)
		} else {
			w.omit(at)
		}
	}
	w.conn.shut()
}

// ready sees to it that there is a connection, however long that takes; false means
// that ctx ended.
func (w *worker) ready(ctx context.Context) bool {
	for ctx.Err() == nil {
		if w.conn.nc != nil {
			return true
		}
		w.rest(ctx)
		if err := w.conn.open(ctx); err != nil && ctx.Err() == nil {
			w.slowDown()
			w.fail(err, w.clock.now())
		}
	}
	return false
}

// slowDown lengthens the pause before the next connection.
func (w *worker) slowDown() { w.pause = min(max(2*w.pause, firstPause), lastPause) }

func (w *worker) rest(ctx context.Context) {
	if w.pause == 0 {
		return
	}
	t := time.NewTimer(w.pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// ask makes a request that was due at a time and accounts for what came of it.
func (w *worker) ask(ctx context.Context, due int64) {
	n, err := w.request(ctx)
	now := w.clock.now()
	w.conn.used = now
	if err != nil {
		w.fail(err, due)
		return
	}
	w.succeed(n, due, now)
}

// request makes one request, keeps its IDs and gives their number. Errors: those of
// connection.exchange, after which the connection is shut, and target.judge.
func (w *worker) request(ctx context.Context) (int, error) {
	answer, err := w.exchange(ctx)
	if err != nil {
		w.conn.shut()
		w.slowDown()
		return 0, err
	}
	w.pause = 0
	w.scratch, err = w.conn.target.judge(answer, w.scratch[:0])
	w.ledger.add(w.scratch)
	if answer.close {
		w.conn.shut()
	}
	return len(w.scratch), err
}

// exchange sends the request whose turn it is; once more on a new connection if the
// server had closed this one while it was idle.
func (w *worker) exchange(ctx context.Context) (response, error) {
	requests := w.conn.target.requests
	request := requests[w.turn%len(requests)]
	w.turn++
	answer, err := w.conn.exchange(request)
	if err == nil || !isClosed(err) || w.conn.idle < stale {
		return answer, err
	}
	w.conn.shut()
	if err := w.conn.open(context.WithoutCancel(ctx)); err != nil { // what was sent is seen through
		return response{}, err
	}
	return w.conn.exchange(request)
}

func (w *worker) succeed(ids int, due, now int64) {
	w.live.requests.Add(1)
	w.live.ids.Add(int64(ids))
	if due < w.from {
		return
	}
	w.requests++
	w.ids += int64(ids)
	w.last = now
	w.record(now - due)
}

// fail counts an error of what was due at a time, if that is measured, and always
// one that must never be.
func (w *worker) fail(err error, due int64) {
	w.live.failed.Add(1)
	if b, ok := errors.AsType[breach](err); ok {
		w.breaches.add(kind{what: string(b)}, err, due)
	} else if due >= w.from {
		w.errors.add(kindOf(err), err, due)
	}
}

// omit accounts for a request that was due and could not be sent before the end: it
// waited at least until now.
func (w *worker) omit(due int64) {
	if due >= w.from {
		w.unsent++
		w.record(w.clock.now() - due)
	}
}

func (w *worker) record(latency int64) {
	_ = w.latency.RecordValue(min(max(latency, 0), maxLatency)) // it fits
}
