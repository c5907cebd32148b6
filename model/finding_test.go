package model_test

import (
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// The name of a store is not said twice.
func TestConditionString(t *testing.T) {
	for want, c := range map[string]model.Condition{
		"redis: check: refused":       {Name: "redis", Error: "redis: check: refused"},
		"refill: redis: push: closed": {Name: "refill", Error: "redis: push: closed"},
		"queue: starting":             {Name: "queue", Error: "starting"},
	} {
		check.Equal(t, c.String(), want)
	}
}
