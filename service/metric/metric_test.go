package metric

import (
	"testing"

	"shardid/scripts/check"

	"github.com/prometheus/client_golang/prometheus"
)

// A counter is exported by its registry, and read where it is counted, without one too.
func TestCounter(t *testing.T) {
	registry := prometheus.NewRegistry()
	for name, r := range map[string]prometheus.Registerer{"exported": registry, "not exported": nil} {
		t.Run(name, func(t *testing.T) {
			c := Counter(r, "issued_total", "IDs.")
			c.Inc()
			c.Add(1 << 52)
			check.Equal(t, Value(c), 1<<52+1, "value")
		})
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "issued_total" {
		t.Errorf("%v, %v", families, err)
	}
}
