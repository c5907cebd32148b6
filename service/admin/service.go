package admin

import (
	"context"
	"log/slog"
	"time"
)

const (
	// changeTimeout bounds a change in the store. It is longer than the store waits
	// for a row, and shorter than the HTTP server waits for an answer.
	changeTimeout = 7 * time.Second
	// reloadTimeout is how long an answer waits for this replica to take a change over.
	reloadTimeout = 2 * time.Second
	// readingTime is more than another replica's reload takes once it has begun.
	readingTime = 5 * time.Second
)

const (
	// DefaultStep is the smallest segment of an app that names none, in indices: the
	// default of the table's column.
	DefaultStep = 1000
	// DefaultTagStep is the smallest segment of a tag that names none, in IDs: that of
	// Leaf's own example row.
	DefaultTagStep = 2000
)

// Store is all that the stores of apps and tags do.
type Store interface {
	AppReader
	AppWriter
	TagReader
	TagWriter
}

// Options are what a Service is made of. Store and Log are required.
type Options struct {
	Store   Store
	Workers Workers // nil: FreeWorker may not be called
	Log     *slog.Logger
	// Queue and Segment are the modes that this process serves; nil for one that it
	// does not, as on the command line.
	Queue, Segment Replica
	Now            func() time.Time // nil means time.Now
}

// Service administrates apps and tags. Safe for concurrent use, over processes too.
type Service struct{ opts Options }

// New makes a Service, which owns nothing and need not be stopped.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Service{opts: opts}
}

// Actor is who wants a change.
type Actor struct {
	Name      string // of the token, or cli: and the user
	Remote    string // address that the request came from; "" for none
	RequestID string // "" for none
}

// Effect says from when on a change counts that is stored.
type Effect struct {
	Here bool // it does on this replica
	// New: it is of something new, which every replica looks for when it is asked for
	// it.
	New bool
	// Everywhere is when every replica has taken it over; zero when this process
	// cannot tell, as it does not serve the mode.
	Everywhere time.Time
}

// String is the effect for people.
func (e Effect) String() string {
	switch {
	case e.New:
		return "now, on every replica"
	case e.Everywhere.IsZero():
		return "on every replica with its next reload"
	case e.Here:
		return "here now, on every replica by " + e.Everywhere.UTC().Format(time.RFC3339)
	}
	return "on every replica, this one included, by " + e.Everywhere.UTC().Format(time.RFC3339)
}

// takeOver has this replica take a change over. One that cannot now will with its next
// reload, and has reported why.
func (s *Service) takeOver(ctx context.Context, r Replica) Effect {
	if r == nil {
		return Effect{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reloadTimeout)
	defer cancel()
	by := r.NextReload(s.opts.Now()).Add(readingTime)
	return Effect{Here: r.Reload(ctx) == nil, Everywhere: by}
}

// change bounds a change. A client that goes away does not end it: it would not be
// known then whether it is stored.
func change(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
}
