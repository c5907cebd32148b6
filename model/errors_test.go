package model

import (
	"errors"
	"fmt"
	"testing"

	"shardid/scripts/check"
)

// Whatever wraps an error, its message begins with what to do, once, and loses nothing of what happened.
func TestMessage(t *testing.T) {
	refused := errors.New("connection refused")
	away := &StoreError{Store: "redis", Op: "pop", Advice: "start Redis", Err: refused}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no error":      {nil, ""},
		"nothing to do": {refused, "connection refused"},
		"two lines":     {errors.Join(refused, refused), "connection refused; connection refused"},
		"it stands first": {fmt.Errorf("%w: %w: app 7", Do("add app %d", 7), ErrUnknownApp), "add app 7: app is not " +
			"provisioned: app 7"},
		"it stands last": {fmt.Errorf("%w: %w", refused, Do("wait")), "wait: connection refused"},
		"it is wrapped": {fmt.Errorf("queue: %w: list 1_0", fmt.Errorf("%w: %w", Do("wait"), refused)),
			"wait: queue: connection refused: list 1_0"},
		"it follows a text without a colon": {fmt.Errorf("addr: x %w", fmt.Errorf("%w: is no port",
			Do("write a port"))),
			"write a port: addr: x is no port"},
		"a store": {fmt.Errorf("%w: list 1_0: %w", ErrQueueEmpty, away),
			"start Redis: queue is empty: list 1_0: redis: pop: connection refused"},
		"a store without advice": {fmt.Errorf("list 1_0: %w", &StoreError{Store: "redis", Op: "pop",
			Err: fmt.Errorf("%w: %w", Do("wait"), refused)}), "wait: list 1_0: redis: pop: connection refused"},
		"of two the outer one is first": {fmt.Errorf("%w: %w", Do("stop"), away),
			"stop: start Redis: redis: pop: connection refused"},
		"an argument": {fmt.Errorf("%w: give a tag", ErrInvalidArgument), "give a tag"},
	} {
		t.Run(name, func(t *testing.T) { check.Equal(t, Message(c.err), c.want, "the message") })
	}
}

// A condition has its name in its failure once.
func TestConditionFailure(t *testing.T) {
	away := &StoreError{Store: "redis", Op: "check", Advice: "start Redis", Err: errors.New("no answer")}
	for name, want := range map[string]string{
		"redis":  "start Redis: redis: check: no answer",
		"refill": "start Redis: redis: check: no answer (refill)",
	} {
		check.Equal(t, Message(Condition{Name: name, Err: away}.Failure()), want, "the failure of "+name)
	}
}
