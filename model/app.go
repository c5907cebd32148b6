package model

import (
	"cmp"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// LimitPolicy says what happens to an ID above the app's limit.
type LimitPolicy string

const (
	// LimitReject never issues an ID above the limit: the caller gets
	// ErrLimitReached. It is the default.
	LimitReject LimitPolicy = "reject"
	// LimitWrap issues id mod limit, as the original article does. It repeats
	// IDs once the limit is passed.
	LimitWrap LimitPolicy = "wrap"
)

// ParseLimitPolicy reads "reject" or "wrap"; the error is ErrInvalidArgument.
func ParseLimitPolicy(s string) (LimitPolicy, error) {
	switch p := LimitPolicy(s); p {
	case LimitReject, LimitWrap:
		return p, nil
	default:
		return "", fmt.Errorf("%w: `limitPolicy` must be reject or wrap, not %q", ErrInvalidArgument, s)
	}
}

// Limit bounds the IDs of an app.
type Limit struct {
	MaxID  int64       `json:"maxLimitId"` // highest ID; 0 means none
	Policy LimitPolicy `json:"limitPolicy"`
}

// Apply turns a composed ID into the one to issue. The error is ErrLimitReached
// when the policy rejects it. With the wrap policy the result can be 0, which
// is no ID: the caller skips it.
func (l Limit) Apply(id int64) (int64, error) {
	if l.MaxID == 0 || id <= l.MaxID && l.Policy != LimitWrap {
		return id, nil
	}
	if l.Policy == LimitWrap {
		return id % l.MaxID, nil
	}
	return 0, ErrLimitReached
}

// WrapAdvice says how to choose LimitWrap for an app.
func WrapAdvice(app uint8, name string) string {
	return fmt.Sprintf("to issue id mod max_limit_id past the limit, as the original article does, which repeats IDs, "+
		"run `shardid apps set --app %d --limit-policy wrap --confirm %q`", app, name)
}

// LastIndex is the highest index of the list that may be allocated under the
// limit.
func (l Limit) LastIndex(key ListKey) int64 {
	if l.Policy == LimitWrap {
		return MaxIndex
	}
	return key.LastIndexWithin(l.MaxID)
}

// App is what provisioning needs to know.
type App struct {
	ID          uint8
	Name        string // 1…128 characters
	Description string // at most 255 characters
	Step        int64  // smallest segment, in indices; 1…MaxStep
	Limit       Limit
	// Scramble: IDs show neither order nor volume, see Scrambler. It never changes.
	Scramble bool
}

// MaxStep is the longest segment that is ever taken, in indices: Leaf's bound.
const MaxStep = 1_000_000

// Validate refuses, with ErrInvalidArgument, what the table could not hold.
func (a App) Validate() error {
	switch n := len([]rune(a.Name)); {
	case !utf8.ValidString(a.Name) || !utf8.ValidString(a.Description):
		return fmt.Errorf("%w: `name` and `description` must be UTF-8", ErrInvalidArgument)
	case n == 0 || n > 128:
		return fmt.Errorf("%w: `name` must have 1…128 characters, not %d", ErrInvalidArgument, n)
	case len([]rune(a.Description)) > 255:
		return fmt.Errorf("%w: `description` must have at most 255 characters", ErrInvalidArgument)
	case a.Step < 1 || a.Step > MaxStep:
		return fmt.Errorf("%w: `step` must be in 1…%d, not %d", ErrInvalidArgument, MaxStep, a.Step)
	case a.Limit.MaxID < 0:
		return fmt.Errorf("%w: `maxLimitId` must be an ID, or 0 for none, not %d", ErrInvalidArgument, a.Limit.MaxID)
	case a.Limit.MaxID == 0 && a.Limit.Policy == LimitWrap:
		return fmt.Errorf("%w: give `maxLimitId`: the wrap policy needs it", ErrInvalidArgument)
	}
	if a.Scramble {
		if err := CheckScramble(a.Limit); err != nil {
			return err
		}
	}
	_, err := ParseLimitPolicy(string(a.Limit.Policy))
	return err
}

// CheckScramble refuses, with ErrInvalidArgument, a limit of a scrambled app.
func CheckScramble(l Limit) error {
	if l.MaxID == 0 {
		return nil
	}
	return fmt.Errorf("%w: give no `maxLimitId`: the IDs of a scrambled app are spread over all positive numbers",
		ErrInvalidArgument)
}

// CheckText refuses names and descriptions with characters that are not seen and change
// what is: line ends, what controls a terminal or the direction of a text. It is for what
// is new; tables may hold others. The error is ErrInvalidArgument.
func CheckText(texts ...string) error {
	for _, text := range texts {
		for _, r := range text {
			if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
				return fmt.Errorf("%w: remove the control character %U: it is in %.64q", ErrInvalidArgument, r, text)
			}
		}
	}
	return nil
}

// ParseRange reads a plain decimal in low…high: digits only, no sign, space or exponent. says is what the error begins
// with, such as "count must be". With an error, which is ErrInvalidArgument, it gives -1.
func ParseRange[T string | []byte](says string, text T, low, high int) (int, error) {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil || int(n) < low || int(n) > high {
		return -1, fmt.Errorf("%w: %s a whole number in %d…%d, not %.64q", ErrInvalidArgument, says, low, high, text)
	}
	return int(n), nil
}

// ListConfig is the configuration of one list, a row of id_alloc.
type ListConfig struct {
	Key     ListKey
	AppName string
	MaxID   int64 // highest index issued
	Step    int64 // smallest segment, in indices
	// CurrentStep is the segment length that demand led to, in indices; it is
	// never below Step.
	CurrentStep int64
	Limit       Limit
	// Scramble is the secret that IDs are scrambled with; "" leaves them as they are.
	Scramble string
	// Unconfirmed: the next segment will be refused with ErrUnconfirmed.
	Unconfirmed bool
	// Err says why the row cannot be used; then only Key and AppName are set beside it.
	Err error
}

// AppSummary is an app with what has been issued of it.
type AppSummary struct {
	App
	Shards       int   // provisioned, at most the constant Shards
	MixedLimits  bool  // not all shards have the limit, which is the highest of theirs
	HighestIndex int64 // highest index issued in any shard; of a new app the highest that may have been
	TotalIndices int64 // indices issued, all shards together, gaps included
}

// CheckNewLimit refuses, with ErrInvalidArgument, a limit that leaves a shard no ID; with wrap each has some.
func (a App) CheckNewLimit() error {
	least := ListKey{App: a.ID, Shard: Shards - 1}.Compose(1)
	if a.Limit.MaxID == 0 || a.Limit.MaxID >= least || a.Limit.Policy == LimitWrap {
		return nil
	}
	return fmt.Errorf("%w: give a `maxLimitId` of %d or more, or 0 for none: with %d a shard has no ID",
		ErrInvalidArgument, least, a.Limit.MaxID)
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
		return App{}, fmt.Errorf("%w: `minIndex` must be in 0…%d, not %d", ErrInvalidArgument, MaxIndex-1, *c.MinIndex)
	}
	if next.Limit.Policy == LimitWrap && app.Limit.Policy != LimitWrap && c.Confirm != app.Name {
		return App{}, fmt.Errorf("%w: confirm it with the app's name, which is %q: with the wrap policy IDs repeat "+
			"once they pass the limit", ErrInvalidArgument, app.Name)
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
	highest := key.Compose(min(index, MaxIndex))
	return fmt.Errorf("%w: %w: IDs of app %[4]d up to %[3]d may have been issued, or are to be skipped, so %[5]d "+
		"would leave no ID, or repeat some", Do("give a max limit ID of %d or more, or 0 for none",
		highest), ErrRefused, highest, key.App, l.MaxID)
}

// checkText is CheckText of what is to be changed; nil is not.
func checkText(text *string) error {
	if text == nil {
		return nil
	}
	return CheckText(*text)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
