package workerfile

import (
	"errors"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// TestLocal: each address of the map has its worker ID, whose bounds nobody else keeps, and no other has one.
func TestLocal(t *testing.T) {
	const other = "10.0.0.6:8080"
	registry := Local(map[string]int{address: 1023, other: 0})
	for at, id := range map[string]int{address: 1023, other: 0} {
		o := model.Owner{Address: at, Token: "t"}
		lease, err := registry.Acquire(t.Context(), o)
		check.Must(t, err)
		check.Equal(t, lease, model.Lease{WorkerID: id, Owner: o, Registry: ModeLocal})
		lease.Reserved, lease.Expires = 5, 7
		renewed, err := registry.Renew(t.Context(), lease)
		check.Must(t, err)
		check.Equal(t, renewed, lease)
	}
	unlisted := model.Owner{Address: "10.0.0.7:8080", Token: "t"}
	check.Is(t, check.Err(registry.Acquire(t.Context(), unlisted)), model.ErrNoWorkerID)
}

func TestOrdinalOfAHost(t *testing.T) {
	for host, want := range map[string]int{
		"shardid-0": 0, "shardid-31": 31, "a-b-7": 7, "shardid-12.shardid-pods.ids.svc.cluster.local": 12,
	} {
		lease, err := Ordinal(host, 32).Acquire(t.Context(), model.Owner{Address: address, Token: "t"})
		check.OK(t, err, host)
		set, _, _ := strings.Cut(host, ".")
		set = set[:strings.LastIndexByte(set, '-')]
		if lease.WorkerID != want || lease.Registry != "ordinal "+set {
			t.Errorf("%s: %+v", host, lease)
		}
	}
	for host, says := range map[string]string{
		"shardid-32": "not a worker ID, 0…31", "shardid-99999999999999999999": "not a worker ID, 0…31",
		"shardid": "does not end in a hyphen and a number", "": "does not end", "-3": "does not end",
		"3":          "does not end",
		"shardid-03": "does not end", "shardid-x2": "does not end", "shardid-3-": "does not end",
		"shardid-7d9f8b6c5-x2x4z": "does not end",
		"shardid.example-3":       "does not end", "shardid3": "does not end", "shardid-+3": "does not end",
	} {
		lease, err := Ordinal(host, 32).Acquire(t.Context(), model.Owner{Address: address, Token: "t"})
		if !errors.Is(err, model.ErrNoWorkerID) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v, want %s", host, lease, err, says)
		}
	}
}

// TestOrdinalFile: a file that is new, or of another mode, says nothing of what an earlier
// life reserved, so that is left out; one of another pod is refused.
func TestOrdinalFile(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Registry = ModeOrdinal
	f, err := Ordinal("shardid-3", 32).Open(o)
	check.Must(t, err)
	store(t, f, lease(3, 5000))
	closeFile(t, f)
	_, err = Ordinal("shardid-4", 32).Open(o)
	check.Is(t, err, model.ErrInvalidArgument, "the file of another pod")
	check.Has(t, err.Error(), "give each pod the volume of its own, or delete the worker file")
	f, err = Ordinal("shardid-3", 32).Open(o) // it is not locked by the one that was refused
	check.Must(t, err)
	closeFile(t, f)
	f, err = Ordinal("shardid", 32).Open(o) // its Acquire says what is wrong
	check.Must(t, err)
	closeFile(t, f)
}
