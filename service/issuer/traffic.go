package issuer

import (
	"strconv"
	"time"

	"shardid/model"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Traffic counts what each mode has answered over all front ends since the start, but for what
// a panic ended, and faults of shardid whatever was asked. nil counts nothing. Safe for concurrent use.
type Traffic struct {
	modes  [model.ModeLease + 1]*meter // by the mode; nil for one that is disabled
	faults prometheus.Counter          // answers with code -11, and panics
}

// meter counts for one mode.
type meter struct {
	ok      prometheus.Observer              // requests that got their IDs
	refused prometheus.Observer              // those that the caller must change
	failed  prometheus.Observer              // those that this replica could not serve for now
	codes   [1 - LastCode]prometheus.Counter // of both, by the code's magnitude
}

// NewTraffic counts for some modes. The registry exports it; nil for none.
func NewTraffic(registry prometheus.Registerer, modes ...model.Mode) *Traffic {
	took := promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "shardid_request_duration_seconds", Buckets: metric.Buckets(),
		Help: "How long requests for IDs took, by outcome: ok, refused (4xx, the caller's to change) or failed (5xx).",
	}, []string{"mode", "outcome"})
	codes := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "shardid_refused_total", Help: "Requests for IDs that got none, by code of the error table.",
	}, []string{"mode", "code"})
	t := &Traffic{faults: metric.Counter(registry, "shardid_faults_total",
		"Requests and commands that met a fault of shardid, code -11: the log tells of them.")}
	for _, mode := range modes {
		name := mode.String()
		m := &meter{
			ok:      took.WithLabelValues(name, "ok"),
			refused: took.WithLabelValues(name, "refused"),
			failed:  took.WithLabelValues(name, "failed"),
		}
		for code := CodeNotReady; code >= LastCode; code-- { // all at once, so that a first error is a rise
			m.codes[-code] = codes.WithLabelValues(name, strconv.Itoa(code))
		}
		t.modes[mode] = m
	}
	return t
}

// Observe counts a request for IDs of a mode that was answered with a code of the public table, 0 for IDs. It
// took from when the front end began with it until its answer was composed, and with HTTP until it was written.
func (t *Traffic) Observe(mode model.Mode, code int, took time.Duration) {
	if t == nil || t.modes[mode] == nil {
		return
	}
	m := t.modes[mode]
	seconds := float64(took) / float64(time.Second)
	switch {
	case code == 0:
		m.ok.Observe(seconds)
		return
	case Failed(code):
		m.failed.Observe(seconds)
	default:
		m.refused.Observe(seconds)
	}
	m.codes[-code].Inc()
}

// Fault counts a fault of shardid.
func (t *Traffic) Fault() {
	if t != nil {
		t.faults.Inc()
	}
}
