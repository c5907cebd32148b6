package metrics

import (
	"strings"

	"shardid/service/latency"
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
	n.counter("shardid_segment_starved", "Calls that got -4, as no segment could be had in time.", func(s segment.Stats) int64 { return s.Starved })
	n.counter("shardid_segment_waits", "Calls that waited for a segment.", func(s segment.Stats) int64 { return s.Waits })
	n.counter("shardid_segment_loads", "Segments asked for.", func(s segment.Stats) int64 { return s.Loads })
	n.counter("shardid_segment_failed_loads", "Segments that were not had, or whose answer was lost.", func(s segment.Stats) int64 { return s.FailedLoads })
	n.counter("shardid_segment_wasted", "IDs held by this replica and given up: gaps.", func(s segment.Stats) int64 { return s.Wasted })
	n.counter("shardid_segment_lifts", "Times max_id was below what this replica knows to be handed out: the table went back in time.", func(s segment.Stats) int64 { return s.Lifts })
	n.counter("shardid_segment_repeated", "Segments refused because IDs of them were handed out before: must stay 0.", func(s segment.Stats) int64 { return s.Repeated })
	n.histogram("shardid_segment_load_seconds", "How long taking a segment took, failed ones too.", func(s segment.Stats) latency.Reading { return s.LoadTimes })
	return n
}

// maxTags is how many tags have series of their own; a table may have any number.
const maxTags = 100

// otherTags is the label of the rest, and of a tag of that name.
const otherTags = "other"

// tags shows each tag that this replica has used, the first of them by name.
type tags struct {
	views        func() []segment.View
	held, runway *prometheus.Desc
}

func newTags(views func() []segment.View) *tags {
	label := []string{"tag"}
	return &tags{
		views:  views,
		held:   prometheus.NewDesc("shardid_segment_held_ids", "IDs that this replica can issue without the database; beyond 100 tags the rest is other.", label, nil),
		runway: prometheus.NewDesc("shardid_segment_runway_seconds", "How long the held IDs last at the present rate, at most a year; of other the tag that lasts shortest.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (t *tags) Describe(out chan<- *prometheus.Desc) {
	out <- t.held
	out <- t.runway
}

// Collect implements prometheus.Collector.
func (t *tags) Collect(out chan<- prometheus.Metric) {
	for label, s := range byLabel(t.views()) {
		out <- prometheus.MustNewConstMetric(t.held, prometheus.GaugeValue, float64(s.held), label)
		out <- prometheus.MustNewConstMetric(t.runway, prometheus.GaugeValue, s.runway, label)
	}
}

// supply is what is held of one tag, or of some.
type supply struct {
	held   int64
	runway float64 // seconds, of the one that lasts shortest
}

// byLabel sums the tags that share a label. The views come by name, so that the same
// tags keep a label of their own.
func byLabel(views []segment.View) map[string]supply {
	all := map[string]supply{}
	for _, v := range views {
		if !v.InitOK {
			continue
		}
		label := strings.ToValidUTF8(v.Name, "?")
		s, known := all[label]
		if !known && len(all) >= maxTags {
			label = otherTags
			s, known = all[label]
		}
		if !known {
			s.runway = v.Runway
		}
		all[label] = supply{s.held + v.Held, min(s.runway, v.Runway)}
	}
	return all
}
