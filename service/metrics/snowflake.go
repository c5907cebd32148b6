package metrics

import (
	"time"

	"shardid/service/snowflake"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
)

// Snowflake is a sample of the snowflake mode.
type Snowflake struct {
	Stats     snowflake.Stats
	Worker    worker.Status
	MaxOffset time.Duration // how far the clock may be from the registry's
	Remaining time.Duration // until the 41 bits of time end
}

func newSnowflake(sample func() Snowflake) prometheus.Collector {
	n := &numbers[Snowflake]{sample: sample, further: newLeaseState(sample)}
	n.counter("shardid_snowflake_issued", "IDs given to callers.", func(s Snowflake) int64 { return s.Stats.Issued })
	n.counter("shardid_snowflake_refused", "Calls that got none.", func(s Snowflake) int64 { return s.Stats.Refused })
	n.counter("shardid_snowflake_wasted", "IDs taken for calls that were refused in the middle: gaps.", func(s Snowflake) int64 { return s.Stats.Wasted })
	n.counter("shardid_snowflake_waits", "Sleeps for the next millisecond, or for a clock that went back a little.", func(s Snowflake) int64 { return s.Stats.Waits })
	n.gauge("shardid_snowflake_worker_id", "The worker ID, -1 without one.", func(s Snowflake) float64 { return float64(s.Worker.WorkerID) })
	n.gauge("shardid_snowflake_lease_trust_seconds", "How long the worker ID is trusted without a renewal.", func(s Snowflake) float64 { return s.Worker.Trust.Seconds() })
	n.gauge("shardid_snowflake_offline", "Whether the registry is away and the local file reserves time: 1 or 0.", func(s Snowflake) float64 { return gauge(s.Worker.State == worker.StateOffline) })
	n.gauge("shardid_snowflake_clock_offset_seconds", "How far this clock is ahead of the registry's.", func(s Snowflake) float64 { return s.Worker.ClockOffset.Seconds() })
	n.gauge("shardid_snowflake_clock_offset_limit_seconds", "How far the clock may be from the registry's: snowflake.max_clock_offset.", func(s Snowflake) float64 { return s.MaxOffset.Seconds() })
	n.gauge("shardid_snowflake_lifetime_seconds", "How long the 41 bits of time last.", func(s Snowflake) float64 { return s.Remaining.Seconds() })
	return n
}

// leaseState shows the state of the worker ID, one series for each there is.
type leaseState struct {
	sample func() Snowflake
	desc   *prometheus.Desc
}

func newLeaseState(sample func() Snowflake) *leaseState {
	return &leaseState{sample, prometheus.NewDesc("shardid_snowflake_lease_state",
		"1 for the state of the worker ID: waiting (nothing is issued), serving, or offline (the local file reserves time); 0 for the others.", []string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (l *leaseState) Describe(out chan<- *prometheus.Desc) { out <- l.desc }

// Collect implements prometheus.Collector.
func (l *leaseState) Collect(out chan<- prometheus.Metric) {
	now := l.sample().Worker.State
	for _, state := range []string{worker.StateWaiting, worker.StateServing, worker.StateOffline} {
		out <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, gauge(state == now), state)
	}
}
