package metrics

import (
	"shardid/service/segment"

	"github.com/prometheus/client_golang/prometheus"
)

// Segment are the sources of the segment mode.
type Segment struct {
	Stats func() segment.Stats
	Views func() []segment.View
}

func newSegment(s Segment) prometheus.Collector {
	n := &numbers[segment.Stats]{sample: s.Stats, further: newTags(s.Views)}
	n.counter("shardid_segment_issued", "IDs given to callers.", func(s segment.Stats) int64 { return s.Issued })
	n.counter("shardid_segment_refused", "Calls that got none.", func(s segment.Stats) int64 { return s.Refused })
	n.counter("shardid_segment_waits", "Calls that waited for a segment.", func(s segment.Stats) int64 { return s.Waits })
	n.counter("shardid_segment_loads", "Segments asked for.", func(s segment.Stats) int64 { return s.Loads })
	n.counter("shardid_segment_failed_loads", "Segments that were not had, or whose answer was lost.", func(s segment.Stats) int64 { return s.FailedLoads })
	n.counter("shardid_segment_wasted", "IDs held by this replica and given up: gaps.", func(s segment.Stats) int64 { return s.Wasted })
	n.counter("shardid_segment_lifts", "Times max_id was below what this replica knows to be handed out: the table went back in time.", func(s segment.Stats) int64 { return s.Lifts })
	n.counter("shardid_segment_repeated", "Segments refused because IDs of them were handed out before: must stay 0.", func(s segment.Stats) int64 { return s.Repeated })
	return n
}

// tags shows each tag that this replica has used: as many as the table has rows.
type tags struct {
	views        func() []segment.View
	held, runway *prometheus.Desc
}

func newTags(views func() []segment.View) *tags {
	label := []string{"tag"}
	return &tags{
		views:  views,
		held:   prometheus.NewDesc("shardid_segment_held_ids", "IDs that this replica can issue without the database.", label, nil),
		runway: prometheus.NewDesc("shardid_segment_runway_seconds", "How long they last at the present rate; at most a year.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (t *tags) Describe(out chan<- *prometheus.Desc) {
	out <- t.held
	out <- t.runway
}

// Collect implements prometheus.Collector.
func (t *tags) Collect(out chan<- prometheus.Metric) {
	for _, v := range t.views() {
		if v.InitOK {
			out <- prometheus.MustNewConstMetric(t.held, prometheus.GaugeValue, float64(v.Held), v.Name)
			out <- prometheus.MustNewConstMetric(t.runway, prometheus.GaugeValue, v.Runway, v.Name)
		}
	}
}
