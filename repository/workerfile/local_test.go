package workerfile

import (
	"errors"
	"math"
	"strings"
	"testing"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
)

// addresses is how many the map of the contract test lists; the last is that of
// its successor.
const addresses = 300

func TestLocalContract(t *testing.T) {
	ids := map[string]int{}
	for i := range addresses {
		ids[workertest.Address(i)] = model.SnowflakeWorkers - 1 - i
	}
	registry, err := Local(ids)
	check.Must(t, err)
	workertest.Run(t, func(*testing.T) workertest.Backend {
		return workertest.Backend{
			New:        func(*testing.T) workertest.Registry { return registry },
			Max:        addresses,
			Fill:       func(*testing.T) {}, // whoever is not listed finds it full
			PerAddress: true, FixedIDs: true, Stateless: true,
		}
	})
}

func TestLocalRefuses(t *testing.T) {
	for word, ids := range map[string]map[string]int{
		"10.0.0.1:80 and 10.0.0.2:80": {"10.0.0.1:80": 5, "10.0.0.2:80": 5, "10.0.0.3:80": 6},
		"worker ID 1024 of 10.0.0.1":  {"10.0.0.1:80": 1024},
		"worker ID -1 of 10.0.0.1":    {"10.0.0.1:80": -1},
		`"10.0.0.1" is not ip:port`:   {"10.0.0.1": 1},
		`":80" is not ip:port`:        {":80": 1},
		`"" is not ip:port`:           {"": 1},
	} {
		registry, err := Local(ids)
		if registry != nil || !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), word) ||
			!strings.Contains(err.Error(), "snowflake.worker.local_map") {
			t.Errorf("got %v, want one that says %s", err, word)
		}
	}
}

func TestLocal(t *testing.T) {
	ids := map[string]int{"10.0.0.1:80": 0, "[::1]:80": 1023}
	registry, err := Local(ids)
	check.Must(t, err)
	ids["10.0.0.1:80"] = 7 // the caller's own
	lease, err := registry.Acquire(t.Context(), model.Owner{Address: "10.0.0.1:80", Token: "t"})
	if err != nil || lease.WorkerID != 0 || lease.ServerTime != 0 || lease.KeptSince != 0 {
		t.Errorf("%+v, %v", lease, err)
	}
	lease.Reserved, lease.Expires = 5, math.MaxInt64
	if got, err := registry.Renew(t.Context(), lease); err != nil || got != lease {
		t.Errorf("%+v, %v, want %+v", got, err, lease)
	}
	_, err = registry.Acquire(t.Context(), model.Owner{Address: "10.0.0.9:80"})
	for _, word := range []string{"10.0.0.9:80", "snowflake.worker.local_map"} {
		if !errors.Is(err, model.ErrNoWorkerID) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %s", err, word)
		}
	}
}
