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
	Remaining time.Duration // until the 41 bits of time end
}

func newSnowflake(sample func() Snowflake) prometheus.Collector {
	n := &numbers[Snowflake]{sample: sample}
	n.counter("shardid_snowflake_issued", "IDs given to callers.", func(s Snowflake) int64 { return s.Stats.Issued })
	n.counter("shardid_snowflake_refused", "Calls that got none.", func(s Snowflake) int64 { return s.Stats.Refused })
	n.counter("shardid_snowflake_wasted", "IDs taken for calls that were refused in the middle: gaps.", func(s Snowflake) int64 { return s.Stats.Wasted })
	n.counter("shardid_snowflake_waits", "Sleeps for the next millisecond, or for a clock that went back a little.", func(s Snowflake) int64 { return s.Stats.Waits })
	n.gauge("shardid_snowflake_worker_id", "The worker ID, -1 without one.", func(s Snowflake) float64 { return float64(s.Worker.WorkerID) })
	n.gauge("shardid_snowflake_lease_trust_seconds", "How long the worker ID is trusted without a renewal.", func(s Snowflake) float64 { return s.Worker.Trust.Seconds() })
	n.gauge("shardid_snowflake_offline", "Whether the registry is away and the local file reserves time: 1 or 0.", func(s Snowflake) float64 { return gauge(s.Worker.State == worker.StateOffline) })
	n.gauge("shardid_snowflake_clock_offset_seconds", "How far this clock is ahead of the registry's.", func(s Snowflake) float64 { return s.Worker.ClockOffset.Seconds() })
	n.gauge("shardid_snowflake_lifetime_seconds", "How long the 41 bits of time last.", func(s Snowflake) float64 { return s.Remaining.Seconds() })
	return n
}
