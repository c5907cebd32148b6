package memstore_test

import (
	"testing"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/repository/sequencetest"
	"shardid/scripts/check"
)

func TestSequencesContract(t *testing.T) {
	sequencetest.Run(t, func(*testing.T) sequencetest.Store { return memstore.NewSequences() })
}

// What one process has come to at its end is what the next one goes on with, in the same life;
// what was drained gives nothing any more, in a life of its own.
func TestSequencesDrainAndRestore(t *testing.T) {
	a, b, key := memstore.NewSequences(), memstore.NewSequences(), sequencetest.Key(0)
	check.Must(t, sequencetest.Push(t, a, key, 1, 1, 10))
	check.Must(t, sequencetest.Push(t, a, key, 1, 51, 60))
	sequencetest.Want(t, a, 1, sequencetest.Of("k", 3), 53)
	before := sequencetest.State(t, a, key)
	kept := a.Drain()
	after := sequencetest.State(t, a, key)
	if after.Life == before.Life || after.Term != 0 {
		t.Errorf("%+v after %+v was drained", after, before)
	}
	ask := model.SectionAsk{Key: key, Server: before.Server, Term: 1, Asks: sequencetest.Of("k", 1)}
	check.Equal(t, a.Next(t.Context(), []model.SectionAsk{ask})[0].Dry, true, "dry once it was drained")
	b.Restore(kept)
	check.Equal(t, sequencetest.State(t, b, key), before, "the state")
	sequencetest.Want(t, b, 1, append(sequencetest.Of("k", 1), sequencetest.Of("new", 0, 1)...), 54, 50, 51)
	c := memstore.NewSequences()
	life := sequencetest.State(t, c, key).Life
	c.Restore(model.KeptSequences{})
	check.Equal(t, sequencetest.State(t, c, key).Life, life, "the life when nothing was kept")
}
