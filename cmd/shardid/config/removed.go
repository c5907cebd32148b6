package config

import "fmt"

// removed says, for each key that an earlier version had, what to do instead.
var removed = map[string]string{
	"redis.unsafe_no_history":            "configure a Redis that shows its replication ID (INFO replication)",
	"sequence.fence":                     "remove it, leases in the database keep the order of sequences",
	"server.allowed_hosts":               "remove it, pages of other sites are refused by what browsers say of them",
	"server.max_connections_per_address": "bound the connections of one address at the load balancer or firewall",
	"server.pprof_addr":                  "remove it, /admin/pprof/ has profiles for a token that may admin",
	"tracing.endpoint":                   "set OTEL_EXPORTER_OTLP_ENDPOINT in the environment",
	"tracing.sample_ratio":               "set OTEL_TRACES_SAMPLER=parentbased_traceidratio and OTEL_TRACES_SAMPLER_ARG in the environment",
	"uid.follow_clock":                   "set uid.mode to default, which keeps the time in IDs at the clock",
	"uid.worker":                         "remove it, each start takes a worker ID from WORKER_NODE",
}

// errRemoved says that a key is gone and what to do instead. The source is where it was found.
func errRemoved(source, path string) error {
	return fmt.Errorf("%s: %s is gone since 0.4: %s", source, path, removed[path])
}
