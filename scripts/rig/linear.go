package rig

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is a key as it should be: the highest number that it issued, and the highest that
// it told somebody to have come to.
type register struct{ issued, told int64 }

// step says whether the register could answer so, and what it is afterwards. A call without an
// answer always could, and changes nothing: what it may have issued only makes fewer answers
// right.
func (r register) step(c Call) (right bool, after register) {
	below := max(r.issued, r.told)
	switch {
	case c.Answered == 0:
		return true, r
	case c.Current:
		return c.Last >= below, register{r.issued, c.Last}
	default:
		return c.First > below && c.Last >= c.First, register{c.Last, r.told}
	}
}

// Linear says whether porcupine finds an order of the calls of each key, within which a
// register that rises would have answered as they were answered. It is for short histories:
// an Order finds the same.
func Linear(history []Call) bool {
	model := porcupine.Model{
		Partition: byKey,
		Init:      func() any { return register{} },
		Step: func(state, call, _ any) (bool, any) {
			return state.(register).step(call.(Call))
		},
	}
	operations := make([]porcupine.Operation, len(history))
	for i, c := range history {
		operations[i] = porcupine.Operation{Input: c, Call: int64(c.Asked), Return: int64(c.Answered)}
		if c.Answered == 0 {
			operations[i].Return = math.MaxInt64
		}
	}
	return porcupine.CheckOperationsTimeout(model, operations, time.Minute) == porcupine.Ok
}

func byKey(operations []porcupine.Operation) [][]porcupine.Operation {
	keys := map[string][]porcupine.Operation{}
	for _, op := range operations {
		key := op.Input.(Call).Key
		keys[key] = append(keys[key], op)
	}
	return slices.Collect(maps.Values(keys))
}
