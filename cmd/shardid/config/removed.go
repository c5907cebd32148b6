package config

import "fmt"

const (
	inURL      = "redis.url says it: redis://USER:PASSWORD@HOST:6379/0, rediss:// for TLS" //nolint:gosec // an example
	inSentinel = "redis.url says it: " +
		"redis://HOST:26379,HOST:26379?master_name=NAME&sentinel_username=USER&sentinel_password=PASSWORD"
	timeouts = "set server.request_timeout, which is that of all modes"
)

// removed says, for each key that an earlier version had, what to do instead.
var removed = map[string]string{
	"database.conn_max_lifetime": "remove it, a connection is replaced after 5 minutes",
	"database.max_open_conns":    "remove it, there are 16 at most",
	"database.tls_insecure_skip_verify": "add tls=skip-verify to database.dsn in place of database.tls, for tests " +
		"only",
	"database.tls_server_name": "ask for the server by the name in its certificate",
	"queue.lift_alarm":         "remove it, the alarm is critical above 100000 indices",
	"queue.low_watermark":      "remove it, a list at or below a fifth of its step is refilled",
	"queue.max_step":           "lower queue.max_list_rate, a segment has no more than a second of it",
	"queue.timeout":            timeouts,
	"redis.addrs":              "redis.url says it: redis://HOST:6379, and several with commas",
	"redis.db":                 inURL,
	"redis.master_name":        inSentinel,
	"redis.mode": "redis.url says it: one address, several of a cluster, sentinels with " +
		"master_name; none is embedded",
	"redis.password":                     inURL,
	"redis.pool_size":                    "add pool_size to redis.url, as in redis://HOST:6379?pool_size=50",
	"redis.sentinel_password":            inSentinel,
	"redis.sentinel_username":            inSentinel,
	"redis.tls":                          inURL,
	"redis.tls_insecure_skip_verify":     "add skip_verify=true to redis.url, for tests only",
	"redis.tls_server_name":              "ask for the server by the name in its certificate",
	"redis.unsafe_no_history":            "configure a Redis that shows its replication ID (INFO replication)",
	"redis.username":                     inURL,
	"segment.max_step":                   "lower segment.max_rate, a segment has no more than a second of it",
	"segment.preload":                    "remove it, the next segment is loaded when a tenth is used",
	"segment.timeout":                    timeouts,
	"sequence.fence":                     "remove it, leases in the database keep the order of sequences",
	"sequence.timeout":                   timeouts,
	"server.allowed_hosts":               "remove it, pages of other sites are refused by what browsers say of them",
	"server.idle_timeout":                "remove it, an idle connection is closed after 60 s",
	"server.max_connections_per_address": "bound the connections of one address at the load balancer or firewall",
	"server.max_header_bytes":            "remove it, the head of a request has 16384 bytes at most",
	"server.max_url_bytes":               "remove it, a URL has 8192 bytes at most: send more in the body of a POST",
	"server.pprof_addr":                  "remove it, /admin/pprof/ has profiles for a token that may admin",
	"server.read_header_timeout":         "remove it, the head of a connection's first request must come within 5 s",
	"snowflake.clock_tolerance":          "remove it, a clock that goes back by 5 ms is waited for",
	"snowflake.sequence_start":           "remove it, a millisecond begins below 100 and below an eighth of its IDs",
	"snowflake.timeout":                  timeouts,
	"snowflake.worker.lease":             "remove it, Redis keeps a worker ID for 10 s",
	"snowflake.worker.redis_acks": "remove it, a majority confirms; docs/leaf.md says what to do when " +
		"replicas are gone for good",
	"time_zone":                 "set TZ in the environment, as in TZ=Asia/Shanghai",
	"tracing.endpoint":          "set OTEL_EXPORTER_OTLP_ENDPOINT in the environment",
	"tracing.sample_ratio":      "set OTEL_TRACES_SAMPLER=parentbased_traceidratio and OTEL_TRACES_SAMPLER_ARG in the environment",
	"uid.follow_clock":          "set uid.mode to default, which keeps the time in IDs at the clock",
	"uid.timeout":               timeouts,
	"uid.worker":                "remove it, each start takes a worker ID from WORKER_NODE",
	"zookeeper.session_timeout": "remove it, the ensemble keeps a silent session for 10 s",
}

// errRemoved says that a key is gone and what to do instead. The source is where it was found.
func errRemoved(source, path string) error {
	return fmt.Errorf("%s: %s is gone since 0.4: %s", source, path, removed[path])
}
