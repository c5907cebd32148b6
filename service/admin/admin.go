// Package admin administrates apps, tags, names of worker IDs and spaces of sequences. These are
// four resources (Resource) with the same five calls, and a table of what can be said of their
// things (Kind). The HTTP front end has one handler for each of the calls, and the command line
// sends requests to those handlers, so both refuse the same things and leave the same line in the log.
//
// It decides nothing about IDs itself: what would let one repeat is refused by the
// store, in the transaction that holds the rows (model.AppChange, model.TagChange).
// A replica that is told of a change takes it over at once, and an answer says by when all
// others will have.
//
// Every call that changes something, or was refused, writes one line "audit" at INFO:
// who, action, target, what was asked, what was there before and what is there now, outcome.
// Outcome is done, refused (nothing was changed) or failed (whether it is stored is not known:
// look).
package admin

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"shardid/model"
	"shardid/service/issuer"
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

// Store is all that the stores of apps, tags, names and spaces do, each change in one transaction.
// Apps are in order, all others by name. Errors: model.ErrUnknownApp, ErrUnknownTag, ErrUnknownName,
// ErrUnknownSpace, ErrExists, ErrInvalidArgument (also for a tag's row that cannot be used), ErrRefused; after a
// *model.StoreError it is not known whether a change is stored.
type Store interface {
	Apps(ctx context.Context) ([]model.AppSummary, error)
	App(ctx context.Context, id uint8) (model.AppSummary, error)
	CreateApp(ctx context.Context, app model.App) (model.AppSummary, error)
	ChangeApp(ctx context.Context, id uint8, change model.AppChange) (before, after model.AppSummary, err error)
	// DeleteApp deletes the app of that ID if it has that name, and remembers what it
	// issued.
	DeleteApp(ctx context.Context, id uint8, name string) (model.AppSummary, error)

	// FindTags gives tags whose name contains a text: the first ones, limit at most. total is how many there are.
	FindTags(ctx context.Context, search string, limit int) (tags []model.Tag, total int, err error)
	Tag(ctx context.Context, name string) (model.Tag, error)
	CreateTag(ctx context.Context, tag model.Tag) (model.Tag, error)
	ChangeTag(ctx context.Context, name string, change model.TagChange) (before, after model.Tag, err error)
	// DeleteTag remembers what the tag issued.
	DeleteTag(ctx context.Context, name string) (model.Tag, error)

	Names(ctx context.Context) ([]model.NameUse, error)
	Name(ctx context.Context, name string) (model.NameUse, error)
	// Holders are at most limit worker IDs of a name that were leased, those whose lease ends
	// last first.
	Holders(ctx context.Context, name string, limit int) ([]model.NameHolder, error)
	CreateName(ctx context.Context, name model.Name) (model.Name, error)
	ChangeName(ctx context.Context, name string, hold time.Duration) (before model.Name, after model.NameUse, err error)
	// DeleteName remembers the layout and the leases.
	DeleteName(ctx context.Context, name string) (model.Name, error)

	Spaces(ctx context.Context) ([]model.SpaceUse, error)
	Space(ctx context.Context, name string) (model.SpaceUse, error)
	CreateSpace(ctx context.Context, space model.Space) (model.Space, error)
	ChangeSpace(ctx context.Context, name string, step int64) (before, after model.Space, err error)
	// DeleteSpace remembers the numbers.
	DeleteSpace(ctx context.Context, name string) (model.Space, error)
}

// Replica is a mode that this process serves, or, as its zero value, does not.
type Replica struct {
	// Reload takes over what is stored of a thing. Errors: model.ErrNotReady, *model.StoreError,
	// or that of ctx.
	Reload func(ctx context.Context, key string) error
	// NextReload is when the replicas begin to read all anew after now.
	NextReload func(now time.Time) time.Time
}

// Options are what a Service is made of. Store and Log are required.
type Options struct {
	Store Store
	Log   *slog.Logger
	// Queue and Segment are the modes that take apps and tags over; the command line serves none.
	Queue, Segment Replica
	// Forget drops what is kept beside the store of a space that was deleted; nil: nothing is.
	Forget func(context.Context, model.Space) error
	// OwnName is the space of worker IDs that the replicas use, which no other may be called.
	OwnName string
	Region  model.Region     // which has a share of the worker IDs of a name
	Now     func() time.Time // nil means time.Now
}

// Service administrates apps, tags, names and spaces. Safe for concurrent use, over processes too.
type Service struct{ opts Options }

// New makes a Service, which owns nothing and need not be stopped.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Service{opts}
}

// Resources are those of apps, tags, names and spaces.
func (s *Service) Resources() []Resource {
	return []Resource{s.apps(), s.tags(), s.Names(), s.Spaces()}
}

// Actor is who wants a change.
type Actor struct {
	Name      string // of the token, or cli: and the user
	Remote    string // address that the request came from; "" for none
	RequestID string // "" for none
}

// Done is what a call did: a thing as it was and as it is, each nil for none.
type Done struct {
	Before, After any
	counts        string // from when on, if the resource does not say it
}

// Do runs a change within its time, and writes its line. A client that goes away does not end it: it would
// not be known then whether it is stored. asked is nil for a change that is about no thing of a resource, as when an
// operator confirms something. Errors: those of change.
func (s *Service) Do(ctx context.Context, by Actor, action, target string, asked Given,
	change func(context.Context) (Done, error)) (Done, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	d, err := change(within)
	line := []any{"who", by.Name, "action", action, "target", target}
	add := func(isKnown bool, key string, value any) {
		if isKnown {
			line = append(line, key, value)
		}
	}
	add(by.Remote != "", "remote", by.Remote)
	add(by.RequestID != "", "request_id", by.RequestID)
	add(asked != nil, "asked", asked)
	add(err == nil && d.Before != nil, "before", d.Before)
	add(err == nil && d.After != nil, "after", d.After)
	outcome := "done"
	if err != nil {
		outcome = map[bool]string{true: "failed", false: "refused"}[issuer.Failed(issuer.Code(err))]
	}
	add(true, "outcome", outcome)
	add(err != nil, "error", fmt.Sprint(err))
	s.opts.Log.InfoContext(within, "audit", line...)
	return d, err
}

// takeOver has a replica take a change over, and says for people from when on it counts. A replica that
// cannot now will with its next reload. What is new counts everywhere at once, as
// every replica looks for it when it is asked for it.
func (s *Service) takeOver(ctx context.Context, r Replica, key string, isNew bool) string {
	here, by := false, time.Time{}
	if r.Reload != nil {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), reloadTimeout)
		defer cancel()
		by = r.NextReload(s.opts.Now()).Add(readingTime)
		here = r.Reload(within, key) == nil
	}
	switch {
	case isNew:
		return atOnce
	case r.Reload == nil:
		return "on every replica with its next reload"
	case here:
		return "here now, on every replica by " + by.UTC().Format(time.RFC3339)
	}
	return "on every replica, this one included, by " + by.UTC().Format(time.RFC3339)
}

const (
	// atOnce is from when on counts what every replica asks the database for each time.
	atOnce = "now, on every replica"
	// withBeat is from when on a change of a space counts: replicas read the spaces with each heartbeat.
	withBeat = "on every replica within 3 s"
)
