package metrics

import (
	"shardid/service/uid"

	"github.com/prometheus/client_golang/prometheus"
)

// UID is a sample of the UID mode.
type UID struct {
	Stats  uid.Stats
	Status uid.Status
}

func newUID(sample func() UID) prometheus.Collector {
	n := &numbers[UID]{sample: sample}
	n.counter("shardid_uid_issued", "IDs given to callers.", func(s UID) int64 { return s.Stats.Issued })
	n.counter("shardid_uid_refused", "Takes that found too little in the ring.", func(s UID) int64 { return s.Stats.Refused })
	n.counter("shardid_uid_dropped", "IDs given up, of batches that could not be completed and of rings: gaps.", func(s UID) int64 { return s.Stats.Dropped })
	n.counter("shardid_uid_discarded", "Puts that found the ring full.", func(s UID) int64 { return s.Stats.Discarded })
	n.counter("shardid_uid_nodes", "Worker IDs got.", func(s UID) int64 { return s.Stats.Nodes })
	n.gauge("shardid_uid_worker_id", "The worker ID, -1 without one.", func(s UID) float64 { return float64(s.Status.WorkerID) })
	n.gauge("shardid_uid_ring_size", "IDs that the ring has room for.", func(s UID) float64 { return float64(s.Status.RingSize) })
	n.gauge("shardid_uid_ring_fill", "IDs in the ring.", func(s UID) float64 { return float64(s.Status.RingFill) })
	n.gauge("shardid_uid_ahead_seconds", "How far the time of the newest ID is ahead of the clock.", func(s UID) float64 { return float64(s.Status.AheadSeconds) })
	n.gauge("shardid_uid_runway_seconds", "How long IDs can be issued at the present rate without the database.", func(s UID) float64 { return float64(s.Status.RunwaySeconds) })
	n.gauge("shardid_uid_lifetime_seconds", "Seconds left in the time bits.", func(s UID) float64 { return float64(s.Status.RemainingSeconds) })
	return n
}
