package metrics

import (
	"strconv"

	"shardid/service/latency"

	"github.com/prometheus/client_golang/prometheus"
)

// Traffic is what the ID route of one mode has answered.
type Traffic struct {
	OK      latency.Reading // requests that got their IDs
	Refused latency.Reading // those that were answered 4xx
	Failed  latency.Reading // those that were answered 5xx
	Codes   map[int]int64   // requests by the code of their error
}

// traffic shows the ID routes of all modes.
type traffic struct {
	read    func() map[string]Traffic
	took    *prometheus.Desc
	refused *prometheus.Desc
}

func newTraffic(read func() map[string]Traffic) *traffic {
	return &traffic{
		read: read,
		took: prometheus.NewDesc("shardid_request_duration_seconds",
			"How long requests for IDs took, by outcome: ok, refused (4xx, the caller's to change) or failed (5xx).", []string{"mode", "outcome"}, nil),
		refused: prometheus.NewDesc("shardid_refused_total",
			"Requests for IDs that got none, by code of the error table.", []string{"mode", "code"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (t *traffic) Describe(out chan<- *prometheus.Desc) {
	out <- t.took
	out <- t.refused
}

// Collect implements prometheus.Collector.
func (t *traffic) Collect(out chan<- prometheus.Metric) {
	for mode, one := range t.read() {
		out <- histogram(t.took, one.OK, mode, "ok")
		out <- histogram(t.took, one.Refused, mode, "refused")
		out <- histogram(t.took, one.Failed, mode, "failed")
		for code, n := range one.Codes {
			out <- prometheus.MustNewConstMetric(t.refused, prometheus.CounterValue, float64(n), mode, strconv.Itoa(code))
		}
	}
}
