package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// firstTarget is how many IDs a buffer that was not in use fetches.
	firstTarget = 16
	// grow and shrink bound how long the IDs of a fetch should last: a buffer doubles
	// when they lasted less than one, and halves when they lasted more than the other.
	grow, shrink = time.Second, 4 * time.Second
	// sweepEvery is how often idle buffers are looked for; one is idle that was not used
	// for idleSweeps of these, a minute.
	sweepEvery = 15 * time.Second
	idleSweeps = 4
)

// block is a range of IDs that was fetched: first, first+stride, …, count of them. Who
// moves taken owns the IDs it passed, so each is taken once. Safe for concurrent use.
type block struct {
	taken atomic.Int64 // runs past count when the block is used up
	_     [7]int64     // a cache line of its own: see below
	// What follows does not change, so cores that take IDs read it without waiting for
	// each other.
	first, stride, count int64
	refillAt             int64 // who takes this one begins the next fetch; -1: none does
	_                    [4]int64
}

// take takes at most n IDs, which begin at the offset at.
func (b *block) take(n int64) (at, got int64) {
	at = b.taken.Add(n) - n
	return at, max(0, min(n, b.count-at))
}

func (b *block) refills(at, got int64) bool { return at <= b.refillAt && b.refillAt < at+got }

// buffer holds IDs of one source. Safe for concurrent use.
type buffer struct {
	client  *Client
	path    string
	tag     string                // of the segment mode
	current atomic.Pointer[block] // that IDs are taken from; never nil

	mu       sync.Mutex
	ahead    []*block      // that follow current
	fetching chan struct{} // closed with the next answer of the fetch under way, and at its end; nil: none is
	again    bool          // half of what the fetch under way brought is used already
	err      error         // of the last fetch
	target   int           // how many IDs the next fetch is for
	began    time.Time     // of the last fetch
	closed   bool
	seen     *block // current and what was taken of it when a sweep last looked
	seenAt   int64
	idle     int // sweeps since then that saw the same
}

func (b *buffer) next(ctx context.Context) (int64, error) {
	if b == nil {
		return 0, ErrZero
	}
	for {
		block := b.current.Load()
		if at, got := block.take(1); got == 1 {
			if at == block.refillAt {
				b.refill()
			}
			return block.first + at*block.stride, nil
		}
		if err := b.advance(ctx, block); err != nil {
			return 0, err
		}
	}
}

// take appends whole blocks or parts of them until there are n IDs. What it has when it
// fails is lost, as it may have been seen.
func (b *buffer) take(ctx context.Context, n int) ([]int64, error) {
	if b == nil {
		return nil, ErrZero
	}
	if n < 1 || n > MaxTake {
		return nil, fmt.Errorf("shardid: %d IDs: ask for 1 to %d", n, MaxTake)
	}
	ids := make([]int64, 0, n)
	for len(ids) < n {
		block := b.current.Load()
		at, got := block.take(int64(n - len(ids)))
		for i := at; i < at+got; i++ {
			ids = append(ids, block.first+i*block.stride)
		}
		if block.refills(at, got) {
			b.refill()
		}
		if len(ids) < n {
			if err := b.advance(ctx, block); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// refill begins a fetch in the background, unless one is under way.
func (b *buffer) refill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.again = b.fetching != nil
	b.fetch()
}

// advance puts the next block in the place of one that is used up, and fetches it when
// there is none.
func (b *buffer) advance(ctx context.Context, used *block) error {
	b.mu.Lock()
	for {
		switch {
		case b.closed:
			b.mu.Unlock()
			return ErrClosed
		case b.current.Load() != used: // another caller did it
			b.mu.Unlock()
			return nil
		case len(b.ahead) > 0:
			b.current.Store(b.ahead[0])
			b.ahead = b.ahead[1:]
			b.mu.Unlock()
			return nil
		}
		b.fetch()
		if b.closed {
			continue
		}
		done := b.fetching
		b.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("shardid: while IDs were fetched: %w", ctx.Err())
		}
		b.mu.Lock()
		if b.err != nil && b.current.Load() == used && len(b.ahead) == 0 && b.fetching == nil {
			err := b.err
			b.mu.Unlock()
			return err
		}
	}
}

// fetch begins a fetch, unless one is under way or the client is closed. Callers hold mu.
func (b *buffer) fetch() {
	if b.fetching != nil || b.closed {
		return
	}
	switch lasted := time.Since(b.began); {
	case b.began.IsZero():
	case lasted < grow:
		b.target = min(2*b.target, b.client.opts.MaxHeld)
	case lasted > shrink:
		b.target = max(b.target/2, min(firstTarget, b.client.opts.MaxHeld))
	}
	b.client.mu.Lock()
	defer b.client.mu.Unlock()
	if b.closed = b.client.closed; b.closed {
		return
	}
	b.client.buffers[b] = struct{}{} // an idle one was forgotten
	b.began, b.fetching = time.Now(), make(chan struct{})
	count := b.target
	b.client.fetches.Go(func() { b.run(count) })
}

// run fetches so many IDs, in as many requests as that takes. Each is used as soon as it
// has been answered.
func (b *buffer) run(count int) {
	ctx, cancel := context.WithTimeoutCause(b.client.base, b.client.opts.Timeout, ErrTimeout)
	defer cancel()
	var err error
	for done := 0; done < count && err == nil; done += maxBatch {
		var ranges []idRange
		if ranges, err = b.client.ask(ctx, b.path, min(count-done, maxBatch)); err == nil {
			b.add(ranges, int64((count+1)/2-done))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	if err != nil && b.client.base.Err() != nil {
		b.err = ErrClosed
	}
	again := b.again && err == nil
	close(b.fetching)
	b.fetching, b.again = nil, false
	if again {
		b.fetch()
	}
}

// add puts what was fetched behind what is held. The next fetch begins with the ID at the
// offset refillAt of it, if that is among these.
func (b *buffer) add(ranges []idRange, refillAt int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	for _, r := range ranges {
		block := &block{first: r.first, stride: r.stride, count: r.count, refillAt: -1}
		if 0 <= refillAt && refillAt < r.count {
			block.refillAt = refillAt
		}
		refillAt -= r.count
		b.ahead = append(b.ahead, block)
	}
	close(b.fetching) // wakes those whose buffer is dry; further answers follow
	b.fetching = make(chan struct{})
}

// dropIdle throws away what is held when it was not used for idleSweeps, and says whether.
func (b *buffer) dropIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.current.Load()
	if taken := current.taken.Load(); current != b.seen || taken != b.seenAt || b.fetching != nil {
		b.seen, b.seenAt, b.idle = current, taken, 0
		return false
	}
	if b.idle++; b.idle < idleSweeps {
		return false
	}
	b.drop()
	b.target, b.began, b.idle = min(firstTarget, b.client.opts.MaxHeld), time.Time{}, 0
	b.client.forget(b)
	return true
}

// drop throws away what is held. Callers hold mu.
func (b *buffer) drop() {
	b.ahead = nil
	b.current.Store(&block{refillAt: -1})
}

func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.drop()
}
