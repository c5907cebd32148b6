package model

import (
	"cmp"
	"fmt"
)

// AppSummary is an app with what has been issued of it.
type AppSummary struct {
	App
	Shards       int   // provisioned, at most the constant Shards
	MixedLimits  bool  // not all shards have the limit, which is the highest of theirs
	HighestIndex int64 // highest index issued in any shard; of a new app the highest that may have been
	TotalIndices int64 // indices issued, all shards together, gaps included
}

// AppChange is what to change of an app; nil stays as it is. A change that would let
// an ID repeat is refused, also to an operator.
type AppChange struct {
	Name        *string
	Description *string
	Step        *int64
	MaxLimitID  *int64
	LimitPolicy *LimitPolicy
	// MinIndex raises max_id of every shard that is below it. Nothing lowers one.
	MinIndex *int64
	// Confirm is the app's name. A switch to the wrap policy must
	// give it, because the app's IDs repeat from its limit on.
	Confirm string
}

// Apply gives the app as it is after the change. lists are its lists with the highest
// index that each has issued and the limit of each, read under the rows' locks.
// Errors: ErrInvalidArgument, ErrRefused.
func (c AppChange) Apply(app App, lists []ListConfig) (App, error) {
	next := app
	set(&next.Name, c.Name)
	set(&next.Description, c.Description)
	set(&next.Step, c.Step)
	set(&next.Limit.MaxID, c.MaxLimitID)
	set(&next.Limit.Policy, c.LimitPolicy)
	if err := cmp.Or(next.Validate(), checkText(c.Name), checkText(c.Description)); err != nil {
		return App{}, err
	}
	if c.MinIndex != nil && (*c.MinIndex < 0 || *c.MinIndex >= MaxIndex) {
		return App{}, fmt.Errorf("%w: minIndex %d is not in 0…%d", ErrInvalidArgument, *c.MinIndex, MaxIndex-1)
	}
	if next.Limit.Policy == LimitWrap && app.Limit.Policy != LimitWrap && c.Confirm != app.Name {
		return App{}, fmt.Errorf("%w: with the wrap policy IDs repeat once they pass the limit: confirm it with the "+
			"app's name, which is %q", ErrInvalidArgument, app.Name)
	}
	for _, l := range lists {
		if err := c.checkList(l); err != nil {
			return App{}, err
		}
	}
	return next, nil
}

// checkList refuses a limit below what the list has composed. With reject it would
// issue nothing more; with wrap its next IDs would be folded onto issued ones at
// once. A limit that stays where it is may be below: in an app that has wrapped, or
// that is switched to wrap past its limit, which is what the confirmation is for. From
// wrap back to reject is safe above the highest composed ID: all that was issued so
// far, folded or not, is at most that.
func (c AppChange) checkList(l ListConfig) error {
	limit, index := l.Limit, l.MaxID
	set(&limit.MaxID, c.MaxLimitID)
	set(&limit.Policy, c.LimitPolicy)
	if c.MinIndex != nil {
		index = max(index, *c.MinIndex)
	}
	samePolicy := limit.Policy == l.Limit.Policy || limit.Policy == LimitWrap
	if samePolicy && limit.MaxID == l.Limit.MaxID && index == l.MaxID {
		return nil
	}
	return limit.Check(l.Key, index)
}

// Check refuses, with ErrRefused, a limit below the ID of an index that the list has
// issued; index 0 means none.
func (l Limit) Check(key ListKey, index int64) error {
	if index < 1 || index <= key.LastIndexWithin(l.MaxID) {
		return nil
	}
	return fmt.Errorf("%w: IDs of app %d up to %d may have been issued, or are to be left out: a max limit ID must "+
		"be that or more, or 0 for none; %d would leave no ID, or repeat some",
		ErrRefused, key.App, key.Compose(min(index, MaxIndex)), l.MaxID)
}

// TagChange is what to change of a tag; nil stays as it is.
type TagChange struct {
	Step        *int64
	Description *string
	MaxID       *int64 // the first ID to hand out; it only rises
}

// Apply gives the tag as it is after the change, which is still to be checked for
// what the table can hold. tag.MaxID must be read under the row's lock. Errors:
// ErrRefused, ErrInvalidArgument.
func (c TagChange) Apply(tag Tag) (Tag, error) {
	if c.MaxID != nil && *c.MaxID < tag.MaxID {
		return Tag{}, fmt.Errorf("%w: max_id of tag %q is %d and only rises: IDs below it may have been issued",
			ErrRefused, tag.Name, tag.MaxID)
	}
	if err := checkText(c.Description); err != nil {
		return Tag{}, err
	}
	set(&tag.Step, c.Step)
	set(&tag.Description, c.Description)
	set(&tag.MaxID, c.MaxID)
	return tag, nil
}

// checkText is CheckText of what is to be changed; nil is not.
func checkText(text *string) error {
	if text == nil {
		return nil
	}
	return CheckText(*text)
}

// WorkerState says what is with a worker ID that a registry has a row for.
type WorkerState string

// The states.
const (
	WorkerLeased  WorkerState = "leased"  // its instance may issue IDs
	WorkerExpired WorkerState = "expired" // its bounds have passed
)

// WorkerEntry is a worker ID as the database's registry has it. All times are Unix
// ms, 0 for never.
type WorkerEntry struct {
	WorkerID int
	Address  string // "" for one that is free
	Foreign  bool   // another program reports for it
	State    WorkerState
	Reported int64 // last report, by the instance's clock
	Reserved int64 // IDs up to this time may have been issued
	Expires  int64 // from then on it may go to another address
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
