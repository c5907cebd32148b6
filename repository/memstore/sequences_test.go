package memstore_test

import (
	"testing"

	"shardid/repository/memstore"
	"shardid/repository/sequencetest"
)

func TestSequencesContract(t *testing.T) {
	sequencetest.Run(t, func(*testing.T) sequencetest.Store { return memstore.NewSequences() })
}
