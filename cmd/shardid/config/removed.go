package config

import "fmt"

const (
	inURL      = "redis.url says it: redis://USER:PASSWORD@HOST:6379/0, rediss:// for TLS"
	inSentinel = "redis.url says it: redis://HOST:26379,HOST:26379?master_name=NAME&sentinel_username=USER&sentinel_password=PASSWORD"
)

// removed says, for each key that an earlier version had, what to do instead.
var removed = map[string]string{
	"database.tls_insecure_skip_verify":  "add tls=skip-verify to database.dsn in place of database.tls, for tests only",
	"database.tls_server_name":           "ask for the server by the name in its certificate",
	"redis.addrs":                        "redis.url says it: redis://HOST:6379, and several with commas",
	"redis.db":                           inURL,
	"redis.master_name":                  inSentinel,
	"redis.mode":                         "redis.url says it: one address, several of a cluster, or sentinels with master_name; none is embedded",
	"redis.password":                     inURL,
	"redis.pool_size":                    "add pool_size to redis.url, as in redis://HOST:6379?pool_size=50",
	"redis.sentinel_password":            inSentinel,
	"redis.sentinel_username":            inSentinel,
	"redis.tls":                          inURL,
	"redis.tls_insecure_skip_verify":     "add skip_verify=true to redis.url, for tests only",
	"redis.tls_server_name":              "ask for the server by the name in its certificate",
	"redis.unsafe_no_history":            "configure a Redis that shows its replication ID (INFO replication)",
	"redis.username":                     inURL,
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
