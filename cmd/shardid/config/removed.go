package config

// removed says, for each key that an earlier version had, what to use instead.
var removed = map[string]string{
	"sequence.fence":          "remove it: leases in the database keep the order of sequences",
	"uid.follow_clock":        "set uid.mode to default, which keeps the time in IDs at the clock",
	"uid.worker":              "remove it: each start takes a worker ID from WORKER_NODE, and worker IDs are used again",
	"redis.unsafe_no_history": "connect to a Redis that shows its replication ID to scripts",
}
