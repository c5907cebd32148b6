package issuer

import (
	"fmt"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// A request counts once, by its mode and its outcome, and one that got no ID by its code too. A mode that is
// not served has no metrics.
func TestTraffic(t *testing.T) {
	for code := 0; code >= LastCode; code-- {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			registry := prometheus.NewRegistry()
			traffic := NewTraffic(registry, model.ModeUID, model.ModeSequence)
			traffic.Observe(model.ModeUID, code, time.Second)
			traffic.Observe(model.ModeQueue, code, time.Second)
			values, err := metric.Values(registry)
			check.Must(t, err)
			outcome, refused := "ok", 0.0
			switch code {
			case 0:
			case -1, -4, -8, -11: // 5xx
				outcome, refused = "failed", 1
			default:
				outcome, refused = "refused", 1
			}
			const requests = "shardid_request_duration_seconds_count"
			check.Equal(t, values[requests], 1, "requests")
			check.Equal(t, values[requests+`{outcome="`+outcome+`"}`], 1, outcome)
			check.Equal(t, values[requests+`{mode="uid"}`], 1, "of the mode")
			check.Equal(t, values["shardid_refused_total"], refused, "refused")
			check.Equal(t, values[fmt.Sprintf(`shardid_refused_total{code="%d"}`, code)], refused, "with the code")
			if _, has := values[requests+`{mode="sequence"}`]; !has {
				t.Error("a mode without requests has no metrics")
			}
			if _, has := values[requests+`{mode="queue"}`]; has {
				t.Error("a disabled mode has metrics")
			}
		})
	}
}

// Nothing is counted, and nothing allocated, without need.
func TestTrafficIsCheap(t *testing.T) {
	traffic := NewTraffic(nil, model.ModeUID)
	observe := func() { traffic.Observe(model.ModeUID, -4, time.Second) }
	check.Equal(t, testing.AllocsPerRun(100, observe), 0, "allocations")
	(*Traffic)(nil).Observe(model.ModeUID, 0, time.Second)
	(*Traffic)(nil).Fault()
}
