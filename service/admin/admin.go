// Package admin creates, changes and deletes apps, tags, names of worker IDs and spaces of
// sequences, and frees worker IDs. The HTTP front end and the command line go through it, so
// both refuse the same things and leave the same line in the log.
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

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"shardid/model"
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

// Reads are what a Service passes on as it is: apps in order, all others by name. Errors:
// model.ErrUnknownApp, ErrUnknownTag, ErrUnknownName, ErrUnknownSpace, ErrInvalidArgument for a
// tag's row that cannot be used, *model.StoreError.
type Reads interface {
	Apps(ctx context.Context) ([]model.AppSummary, error)
	App(ctx context.Context, id uint8) (model.AppSummary, error)
	Tags(ctx context.Context) ([]model.Tag, error)
	Tag(ctx context.Context, name string) (model.Tag, error)
	Names(ctx context.Context) ([]model.NameUse, error)
	Name(ctx context.Context, name string) (model.NameUse, error)
	// Holders are at most limit worker IDs of a name that were leased, those whose lease ends
	// last first.
	Holders(ctx context.Context, name string, limit int) ([]model.NameHolder, error)

	Spaces(ctx context.Context) ([]model.SpaceUse, error)
	Space(ctx context.Context, name string) (model.SpaceUse, error)
}

// Store is all that the stores of apps, tags, names and spaces do, each change in one transaction.
// Errors: those of Reads, model.ErrAppExists, ErrTagExists, ErrNameExists, ErrSpaceExists,
// ErrInvalidArgument, ErrRefused; after a *model.StoreError it is not known whether a change is
// stored.
type Store interface {
	Reads
	CreateApp(ctx context.Context, app model.App) (model.AppSummary, error)
	ChangeApp(ctx context.Context, id uint8, change model.AppChange) (before, after model.AppSummary, err error)
	// DeleteApp deletes the app of that ID if it has that name, and remembers what it
	// handed out.
	DeleteApp(ctx context.Context, id uint8, name string) (model.AppSummary, error)

	CreateTag(ctx context.Context, tag model.Tag) (model.Tag, error)
	ChangeTag(ctx context.Context, name string, change model.TagChange) (before, after model.Tag, err error)
	// DeleteTag remembers what the tag handed out.
	DeleteTag(ctx context.Context, name string) (model.Tag, error)

	CreateName(ctx context.Context, name model.Name) (model.Name, error)
	ChangeName(ctx context.Context, name string, hold time.Duration) (before model.Name, after model.NameUse, err error)
	// DeleteName remembers the layout and the leases.
	DeleteName(ctx context.Context, name string) (model.Name, error)

	CreateSpace(ctx context.Context, space model.Space) (model.Space, error)
	ChangeSpace(ctx context.Context, name string, step int64) (before, after model.Space, err error)
	// DeleteSpace remembers the numbers.
	DeleteSpace(ctx context.Context, name string) (model.Space, error)
}

// Workers is the database's registry of worker IDs.
type Workers interface {
	// Free takes a worker ID from the address that has it. Errors:
	// model.ErrInvalidArgument, ErrRefused while it may be in use, *model.StoreError.
	Free(ctx context.Context, workerID int, address string) (model.WorkerEntry, error)
}

// Replica is a mode that this process serves.
type Replica interface {
	// Reload takes over what is stored. Errors: model.ErrNotReady, *model.StoreError,
	// or that of ctx.
	Reload(ctx context.Context) error
	// NextReload is when the replicas begin to read all anew after now.
	NextReload(now time.Time) time.Time
}

// Tags is a Replica that takes over one tag at a time: there may be a million.
type Tags interface {
	Reload(ctx context.Context, tag string) error
	NextReload(now time.Time) time.Time
}

// oneTag is the Replica of a tag.
type oneTag struct {
	Tags
	name string
}

func (t oneTag) Reload(ctx context.Context) error { return t.Tags.Reload(ctx, t.name) }

// Options are what a Service is made of. Store and Log are required.
type Options struct {
	Store   Store
	Workers Workers // nil: FreeWorker may not be called
	Log     *slog.Logger
	// Queue and Segment are the modes that this process serves; nil for one that it
	// does not, as on the command line.
	Queue   Replica
	Segment Tags
	// ListRate and TagRate are the configured rates, which that of an app or a tag may
	// only lower; 0 is no bound.
	ListRate, TagRate int64
	// Forget drops what is kept beside the store of a space that was deleted; nil: nothing is.
	Forget func(context.Context, model.Space) error
	// OwnName is the space of worker IDs that the replicas use, which no other may be called.
	OwnName string
	Now     func() time.Time // nil means time.Now
}

// Service administrates apps, tags, names and spaces. Safe for concurrent use, over processes too.
type Service struct {
	Reads
	opts Options
}

// New makes a Service, which owns nothing and need not be stopped.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Service{opts.Store, opts}
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

// tagReplica is the Replica of a tag, nil without the mode.
func (s *Service) tagReplica(name string) Replica {
	if s.opts.Segment == nil {
		return nil
	}
	return oneTag{s.opts.Segment, name}
}

// run runs a change within its time, writes its line, and has r take it over. A client that
// goes away does not end it: it would not be known then whether it is stored. store completes
// the line.
func run[T any](ctx context.Context, s *Service, by Actor, r Replica, e event, store func(context.Context, *event) (T, error)) (T, Effect, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	var thing T
	thing, e.err = store(within, &e)
	s.audit(ctx, by, e)
	if e.err != nil {
		var none T
		return none, Effect{}, e.err
	}
	return thing, s.takeOver(ctx, r), nil
}

// CreateApp provisions the shards of an app, all or none. Errors:
// model.ErrInvalidArgument, ErrAppExists, ErrRefused for a limit below what an app of
// this ID had handed out before it was deleted, *model.StoreError.
func (s *Service) CreateApp(ctx context.Context, by Actor, app model.App) (model.AppSummary, Effect, error) {
	e := event{action: "app.create", target: fmt.Sprint("app ", app.ID), asked: appValue(model.AppSummary{App: app, Shards: model.Shards})}
	made, effect, err := run(ctx, s, by, s.opts.Queue, e, func(ctx context.Context, e *event) (model.AppSummary, error) {
		made, err := s.opts.Store.CreateApp(ctx, app)
		e.after = appValue(made)
		return made, err
	})
	effect.New = err == nil
	return made, effect, err
}

// ChangeApp changes an app. Errors: model.ErrUnknownApp, ErrInvalidArgument,
// ErrRefused for what would let an ID repeat, *model.StoreError.
func (s *Service) ChangeApp(ctx context.Context, by Actor, id uint8, c model.AppChange) (model.AppSummary, Effect, error) {
	if c.Empty() {
		return model.AppSummary{}, Effect{}, fmt.Errorf("%w: nothing is to be changed: name, description, step, maxLimitId, limitPolicy, minIndex or maxRate must be given", model.ErrInvalidArgument)
	}
	e := event{action: "app.change", target: fmt.Sprint("app ", id), asked: changeValue(c)}
	return run(ctx, s, by, s.opts.Queue, e, func(ctx context.Context, e *event) (model.AppSummary, error) {
		if err := lowers(c.MaxRate, "queue.max_list_rate", s.opts.ListRate); err != nil {
			return model.AppSummary{}, err
		}
		before, after, err := s.opts.Store.ChangeApp(ctx, id, c)
		e.before, e.after = appValue(before), appValue(after)
		return after, err
	})
}

// lowers refuses, with model.ErrInvalidArgument, a rate above the configured one: what a
// copy of the database may lack is computed with that.
func lowers(rate *int64, key string, configured int64) error {
	if rate == nil || configured == 0 || *rate <= configured {
		return nil
	}
	return fmt.Errorf("%w: maxRate %d is above %s, which is %d: it can only lower that; raise %[3]s on all replicas, and it counts a minute after the last one has it",
		model.ErrInvalidArgument, *rate, key, configured)
}

// DeleteApp deletes the app that has that name, and answers what it was. What it
// handed out is remembered: should it come back, it goes on above that. Errors:
// model.ErrUnknownApp, ErrInvalidArgument for another name, *model.StoreError.
func (s *Service) DeleteApp(ctx context.Context, by Actor, id uint8, name string) (model.AppSummary, Effect, error) {
	e := event{action: "app.delete", target: fmt.Sprint("app ", id)}
	return run(ctx, s, by, s.opts.Queue, e, func(ctx context.Context, e *event) (model.AppSummary, error) {
		was, err := s.opts.Store.DeleteApp(ctx, id, name)
		e.before = appValue(was)
		return was, err
	})
}

// CreateTag adds a tag, above what one of the name had handed out before it was
// deleted. Errors: model.ErrInvalidArgument, ErrTagExists, *model.StoreError.
func (s *Service) CreateTag(ctx context.Context, by Actor, tag model.Tag) (model.Tag, Effect, error) {
	e := event{action: "tag.create", target: "tag " + tag.Name, asked: tagValue(tag)}
	made, effect, err := run(ctx, s, by, s.tagReplica(tag.Name), e, func(ctx context.Context, e *event) (model.Tag, error) {
		made, err := s.opts.Store.CreateTag(ctx, tag)
		e.after = tagValue(made)
		return made, err
	})
	effect.New = err == nil
	return made, effect, err
}

// ChangeTag changes a tag. Errors: model.ErrUnknownTag, ErrInvalidArgument, ErrRefused
// for a max_id that would go down, *model.StoreError.
func (s *Service) ChangeTag(ctx context.Context, by Actor, name string, c model.TagChange) (model.Tag, Effect, error) {
	if c.Empty() {
		return model.Tag{}, Effect{}, fmt.Errorf("%w: nothing is to be changed: step, maxId, description or maxRate must be given", model.ErrInvalidArgument)
	}
	e := event{action: "tag.change", target: "tag " + name, asked: tagChangeValue(c)}
	return run(ctx, s, by, s.tagReplica(name), e, func(ctx context.Context, e *event) (model.Tag, error) {
		if err := lowers(c.MaxRate, "segment.max_rate", s.opts.TagRate); err != nil {
			return model.Tag{}, err
		}
		before, after, err := s.opts.Store.ChangeTag(ctx, name, c)
		e.before, e.after = tagValue(before), tagValue(after)
		return after, err
	})
}

// DeleteTag deletes a tag whose name is given twice, and answers what it was. What it
// handed out is remembered: should it come back, it goes on above that. Errors:
// model.ErrUnknownTag, ErrInvalidArgument for two names, *model.StoreError.
func (s *Service) DeleteTag(ctx context.Context, by Actor, name, confirm string) (model.Tag, Effect, error) {
	e := event{action: "tag.delete", target: "tag " + name}
	return run(ctx, s, by, s.tagReplica(name), e, func(ctx context.Context, e *event) (model.Tag, error) {
		if err := confirmed("the tag's name", name, confirm); err != nil {
			return model.Tag{}, err
		}
		was, err := s.opts.Store.DeleteTag(ctx, name)
		e.before = tagValue(was)
		return was, err
	})
}

// confirmed refuses, with model.ErrInvalidArgument, a deletion that names another thing.
func confirmed(what, name, confirm string) error {
	if name == confirm {
		return nil
	}
	return fmt.Errorf("%w: confirm the deletion with %s, which is %q", model.ErrInvalidArgument, what, name)
}

// FreeWorker takes a worker ID from the address that has it, once all its bounds have
// passed. Errors: model.ErrInvalidArgument, ErrRefused, *model.StoreError.
func (s *Service) FreeWorker(ctx context.Context, by Actor, workerID int, address string) (model.WorkerEntry, error) {
	was, _, err := run(ctx, s, by, nil, event{action: "worker.free", target: fmt.Sprintf("worker ID %d", workerID)},
		func(ctx context.Context, e *event) (model.WorkerEntry, error) {
			was, err := s.opts.Workers.Free(ctx, workerID, address)
			e.before = workerValue(was)
			return was, err
		})
	return was, err
}

// Confirm runs what an operator confirms about a target, and says how much had waited
// for that. Errors: those of confirm.
func (s *Service) Confirm(ctx context.Context, by Actor, target string, confirm func(context.Context) (int64, error)) (int64, error) {
	waited, _, err := run(ctx, s, by, nil, event{action: "confirm", target: target}, func(ctx context.Context, e *event) (int64, error) {
		waited, err := confirm(ctx)
		e.after = slog.GroupValue(slog.Int64("confirmed", waited))
		return waited, err
	})
	return waited, err
}
