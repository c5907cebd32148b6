package metric_test

import (
	"maps"
	"testing"

	"shardid/scripts/check"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are summed up by name and by each label.
func TestSums(t *testing.T) {
	registry := prometheus.NewRegistry()
	answers := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: "answers_total"},
		[]string{"code", "mode"})
	answers.WithLabelValues("-4", "queue").Add(2)
	answers.WithLabelValues("-4", "uid").Add(3)
	answers.WithLabelValues("0", "uid").Add(7)
	metric.Gauge(registry, "held", "IDs.", func() float64 { return 0.5 })
	promauto.With(registry).NewHistogram(prometheus.HistogramOpts{Name: "took_seconds"}).Observe(60)
	got := check.Metrics(t, registry)
	if want := map[string]float64{
		"answers_total": 12, `answers_total{code="-4"}`: 5, `answers_total{code="0"}`: 7,
		`answers_total{mode="queue"}`: 2, `answers_total{mode="uid"}`: 10, "held": 0.5, "took_seconds_count": 1,
	}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
