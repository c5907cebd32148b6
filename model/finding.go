package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Level is how far a store's setting keeps the promise that no ID repeats.
type Level string

// The levels.
const (
	// LevelOK: the setting is as it should be.
	LevelOK Level = "ok"
	// LevelWarn: something else would have to fail as well before an ID repeats,
	// or the setting costs only gaps or work.
	LevelWarn Level = "warn"
	// LevelUnsafe: IDs can repeat, or cannot be served at all.
	LevelUnsafe Level = "unsafe"
	// LevelUnknown: the setting could not be read; Why says how to allow it.
	LevelUnknown Level = "unknown"
)

// Finding is what a store said about one of its settings. It holds no password.
type Finding struct {
	Store   string `json:"store"`   // "redis" or "database"
	Node    string `json:"node"`    // which server or file of the store; may be empty
	Setting string `json:"setting"` // by the name the store's own manual has for it
	Value   string `json:"value"`   // "" when it could not be read
	Want    string `json:"want"`    // what it should be, for people
	Level   Level  `json:"level"`
	Why     string `json:"why"` // what happens otherwise and what to do; may be empty when ok
}

// Condition is how one thing that the service depends on is doing.
type Condition struct {
	Name  string    `json:"name"`
	OK    bool      `json:"ok"`
	Since time.Time `json:"since"`           // when OK last changed
	Error string    `json:"error,omitempty"` // the Message of Err
	Err   error     `json:"-"`               // the latest failure, nil while OK
}

// Failure is Err with the name of the condition behind it, which the error of a store has already. Its Message has
// Error in one piece.
func (c Condition) Failure() error {
	if store, ok := errors.AsType[*StoreError](c.Err); ok && store.Store == c.Name {
		return c.Err
	}
	return fmt.Errorf("%w (%s)", c.Err, c.Name)
}

// Check is a question about one setting, to be put to T, and what the answer means.
type Check[T any] struct {
	Setting string                   // by the name the store's own manual has for it
	Want    string                   // for people
	Ask     func(T) string           // the value; "" when it is not told
	Level   func(value string) Level // LevelOK, or how bad the value is
	Advice  string                   // what happens with a bad value, and what to do
	Hidden  string                   // what to do where the value is not told
}

// Finding puts the question.
func (c Check[T]) Finding(to T) Finding {
	f := Finding{Setting: c.Setting, Want: c.Want, Value: c.Ask(to)}
	if f.Value == "" {
		f.Level, f.Why = LevelUnknown, c.Hidden
		return f
	}
	if f.Level = c.Level(f.Value); f.Level != LevelOK {
		f.Why = c.Advice
	}
	return f
}

// Unless is the level for values that are none of the good ones.
func Unless(level Level, good ...string) func(value string) Level {
	return func(value string) Level {
		if slices.Contains(good, value) {
			return LevelOK
		}
		return level
	}
}

// ClockRight is the ClockValue of a clock that is no further from this machine's than MaxClockApart.
const ClockRight = "right"

// ClockValue is a setting for findings: how a server's clock is, which was read between the two times of this machine.
func ClockValue(server, before, after time.Time) string {
	apart := max(before.Sub(server), server.Sub(after))
	if apart <= MaxClockApart {
		return ClockRight
	}
	return apart.Round(time.Second).String() + " apart"
}

// Observe begins to watch a call of a store, for metrics and traces. The call continues with the context
// that it returns, and ends with the function, which is told why the store could not be used. It is
// told nil for an answer, and a refusal, such as a limit that is reached, is one. op is one of a few
// names: it holds nothing that a caller chose. A nil Observe watches nothing. Safe for concurrent use.
type Observe func(ctx context.Context, store, op string) (context.Context, func(failure error))

// Begin is the call of o, also of a nil one.
func (o Observe) Begin(ctx context.Context, store, op string) (context.Context, func(failure error)) {
	if o == nil {
		return ctx, func(error) {}
	}
	return o(ctx, store, op)
}
