// Package config is what an operator can set: the keys with their defaults, read from
// a file, the environment and flags, and checked as a whole.
package config

import (
	"path/filepath"
	"time"
)

// Config is everything an operator can set. The yaml tags are the keys of
// config.yaml; the dotted path of a key is its flag (--server.addr) and, upper
// case with underscores, its environment variable (SHARDID_SERVER_ADDR).
//
// The other tags are the default (none: the zero value), what a value must be, for the
// validator with the formats of check.go, and secret, for values that have no flag and
// never appear in a message. min and max are in the unit of the field and allowed
// themselves. A text whose default is not empty may not be empty. Load makes a Config;
// nothing changes it afterwards.
type Config struct {
	Server    Server    `yaml:"server"`
	RESP      RESP      `yaml:"resp"`
	Database  Database  `yaml:"database"`
	Redis     Redis     `yaml:"redis"`
	Queue     Queue     `yaml:"queue"`
	Segment   Segment   `yaml:"segment"`
	Snowflake Snowflake `yaml:"snowflake"`
	ZooKeeper ZooKeeper `yaml:"zookeeper"`
	UID       UID       `yaml:"uid"`
	Log       Log       `yaml:"log"`
	Tracing   Tracing   `yaml:"tracing"`

	// DataDir is the folder of the embedded stores and the local worker files,
	// relative to the working directory.
	DataDir string `yaml:"data_dir" default:"data"`
	// TimeZone is the zone of times that are shown as Leaf's and Baidu's pages show
	// them: a name such as Asia/Shanghai, UTC or Local, the machine's.
	TimeZone string `yaml:"time_zone" default:"Local" validate:"zone"`
}

// Server is the HTTP server.
type Server struct {
	// Addr is the listen address, host:port; an empty host listens on every
	// interface, port 0 takes a free one.
	Addr string `yaml:"addr" default:"127.0.0.1:8080" validate:"listen"`
	// AllowedHosts are the names, without port, by which clients may ask for the server.
	// Empty: only the machine's own while Addr is on the loopback, else any. Addresses
	// are always good elsewhere than on the loopback.
	AllowedHosts []string `yaml:"allowed_hosts" validate:"dive,host"`
	// AdminToken is the bearer token of /admin/*: 16…512 visible ASCII characters
	// without spaces. Empty: /admin/* answers 403, unless TokensFile has one for it.
	AdminToken string `yaml:"admin_token" validate:"token" secret:"true"`
	// TokensFile has further tokens, by their SHA-256; it is read again when it
	// changes. Empty: none.
	TokensFile string `yaml:"tokens_file"`
	// RequireToken closes the ID routes to requests without one of those tokens.
	RequireToken bool `yaml:"require_token"`
	// ProtectMonitoring closes the pages that show the state of the service to
	// requests without any valid token.
	ProtectMonitoring bool `yaml:"protect_monitoring"`
	// TLSCertFile is a PEM file with the server's certificate; it is read again when
	// it changes, as the next two are. Empty: plain HTTP.
	TLSCertFile string `yaml:"tls_cert_file"`
	// TLSKeyFile is a PEM file with the key of TLSCertFile.
	TLSKeyFile string `yaml:"tls_key_file"`
	// TLSClientCAFile is a PEM file of authorities, one of which must have issued a
	// client's certificate. Empty: clients need none.
	TLSClientCAFile string `yaml:"tls_client_ca_file"`
	// PprofAddr is a separate listener for pprof, host:port, which asks for no token.
	// Empty: none.
	PprofAddr string `yaml:"pprof_addr" validate:"listen"`
	// MaxConnections is the most connections of clients at once; further ones get no
	// IDs. 0: three quarters of the process's limit of open files, at most 16384.
	MaxConnections int `yaml:"max_connections" validate:"min=0,max=1000000"`
	// MaxConnectionsPerAddress is the most of them from one address, of IPv6 from one
	// network of 64 bits. 0: no bound.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address" validate:"min=0,max=1000000"`
	// ReadHeaderTimeout bounds reading a request's head, and the rest of a command that
	// has begun.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" default:"5s" validate:"min=1ms,max=1h"`
	// IdleTimeout is how long an idle connection is kept.
	IdleTimeout time.Duration `yaml:"idle_timeout" default:"60s" validate:"min=1ms,max=24h"`
	// MaxHeaderBytes is the largest request head in bytes.
	MaxHeaderBytes int `yaml:"max_header_bytes" default:"16384" validate:"min=1024,max=1048576"`
	// MaxURLBytes is the longest request URL in bytes.
	MaxURLBytes int `yaml:"max_url_bytes" default:"8192" validate:"min=512,max=65536"`
	// DrainDelay is how long /readyz answers not ready before the listener closes. It
	// is below ShutdownTimeout.
	DrainDelay time.Duration `yaml:"drain_delay" default:"2s" validate:"min=0s,max=5m"`
	// ShutdownTimeout bounds the whole stop, DrainDelay included.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" default:"15s" validate:"min=1s,max=10m"`
}

// RESP is the front end for Redis clients. Tokens, TLS, the bound on connections and the
// idle timeout are those of Server.
type RESP struct {
	// Addr is the listen address, host:port. Empty: there is no such front end.
	Addr string `yaml:"addr" validate:"listen"`
}

// Scheme is that of the server's URLs.
func (s Server) Scheme() string {
	if s.TLSCertFile == "" {
		return "http"
	}
	return "https"
}

// Database is the store of record.
type Database struct {
	// Driver is sqlite or mysql, which also serves MariaDB.
	Driver string `yaml:"driver" default:"sqlite" validate:"oneof=sqlite mysql"`
	// DSN is a go-sql-driver data source name for mysql, a file for sqlite. It may be
	// empty: Config.DatabaseDSN is what to read.
	DSN string `yaml:"dsn" secret:"true"`
	// MaxOpenConns is the most connections at once.
	MaxOpenConns int `yaml:"max_open_conns" default:"16" validate:"min=1,max=10000"`
	// ConnMaxLifetime is the age at which a connection is replaced, 0s for never.
	ConnMaxLifetime time.Duration    `yaml:"conn_max_lifetime" default:"5m" validate:"min=0s,max=24h"`
	ClientTLS       `yaml:",inline"` // mysql only
}

// ClientTLS is TLS to a store; all keys but TLS need it.
type ClientTLS struct {
	// TLS encrypts the connections.
	TLS bool `yaml:"tls"`
	// TLSCAFile is a PEM file of trusted authorities. Empty: the system's.
	TLSCAFile string `yaml:"tls_ca_file"`
	// TLSCertFile is a PEM file with the client's certificate; it is read for each
	// connection. Empty: none.
	TLSCertFile string `yaml:"tls_cert_file"`
	// TLSKeyFile is a PEM file with the key of TLSCertFile.
	TLSKeyFile string `yaml:"tls_key_file"`
	// TLSServerName is the name the server's certificate must carry. Empty: the host of
	// the DSN or address.
	TLSServerName string `yaml:"tls_server_name"`
	// TLSInsecureSkipVerify accepts any certificate; for tests.
	TLSInsecureSkipVerify bool `yaml:"tls_insecure_skip_verify"`
}

// Redis is where the lists of the queue mode live.
type Redis struct {
	// Mode is embedded (lists in this process, for one replica), single, sentinel or
	// cluster.
	Mode string `yaml:"mode" default:"embedded" validate:"oneof=embedded single sentinel cluster"`
	// Addrs are host:port: the server for single, the sentinels for sentinel,
	// some nodes for cluster, none for embedded.
	Addrs []string `yaml:"addrs" validate:"dive,hostport"`
	// MasterName is the sentinels' name of the master; sentinel only.
	MasterName string `yaml:"master_name"`
	// Username is the ACL user. Empty: Redis' default user.
	Username string `yaml:"username"`
	// Password is the password of Username. Empty: none.
	Password string `yaml:"password" secret:"true"`
	// DB is the database number, 0 for cluster.
	DB        int `yaml:"db" validate:"min=0,max=65535"`
	ClientTLS `yaml:",inline"`
	// SentinelUsername is the ACL user at the sentinels.
	SentinelUsername string `yaml:"sentinel_username"`
	// SentinelPassword is the password at the sentinels. Empty: none.
	SentinelPassword string `yaml:"sentinel_password" secret:"true"`
	// PoolSize is the most connections per node. 0: go-redis' own, ten per CPU.
	PoolSize int `yaml:"pool_size" validate:"min=0,max=100000"`
	// UnsafeNoHistory serves although a proxy hides the replication ID, without
	// which a Redis that went back in time is not noticed.
	UnsafeNoHistory bool `yaml:"unsafe_no_history"`
}

// Queue is the queue mode, GET /get.
type Queue struct {
	// RefillCron is the sweep that refills lists: six fields, seconds first. One replica
	// at a time sweeps.
	RefillCron string `yaml:"refill_cron" default:"0 */2 * * * *" validate:"cron"`
	// ReloadCron is the reload of the apps and shards: six fields, seconds first. Its
	// default is half a minute after the sweep.
	ReloadCron string `yaml:"reload_cron" default:"30 */2 * * * *" validate:"cron"`
	// LowWatermark is the share of its step at which a list is refilled.
	LowWatermark float64 `yaml:"low_watermark" default:"0.2" validate:"gt=0,lt=1"`
	// PrefetchMax is the most indices a replica takes from one list at once;
	// 1 is one LPOP per ID.
	PrefetchMax int `yaml:"prefetch_max" default:"1000" validate:"min=1,max=10000"`
	// Timeout is how long a request may wait for a refill.
	Timeout time.Duration `yaml:"timeout" default:"2s" validate:"min=10ms,max=1m"`
	// MaxStep is the largest step the adaptive refill grows to, in indices.
	MaxStep int `yaml:"max_step" default:"100000" validate:"min=1,max=1000000"`
	// MaxListRate is how many indices a second a list hands out at most, on all
	// replicas together: so many are left out, twice, for each second that a database
	// which went back in time may lack, unless Redis knows. An app's step a second is
	// always allowed. Not on SQLite.
	MaxListRate int `yaml:"max_list_rate" default:"100000" validate:"min=1,max=10000000"`
	// LiftAlarm is by how many indices max_id may have gone back before that is
	// an alarm rather than a warning.
	LiftAlarm int `yaml:"lift_alarm" default:"100000" validate:"min=0,max=1000000000"`
}

// Segment is Leaf's segment mode.
type Segment struct {
	// Enabled serves the mode; a disabled one answers 404, code -9.
	Enabled bool `yaml:"enabled" default:"true"`
	// Timeout is how long a request may wait for a segment.
	Timeout time.Duration `yaml:"timeout" default:"2s" validate:"min=10ms,max=1m"`
	// MaxStep is the largest step that demand lets a segment grow to, in IDs. The
	// default is Leaf's.
	MaxStep int `yaml:"max_step" default:"1000000" validate:"min=1,max=1000000000"`
	// MaxRate is how many IDs a second a tag hands out at most, on all replicas
	// together, where it has no max_rate of its own: so many are left out, twice,
	// for each second that a database which went back in time may lack. A tag's step
	// a second is always allowed. Not on SQLite.
	MaxRate int `yaml:"max_rate" default:"1000000" validate:"min=1,max=1000000000"`
	// Preload is the share of a segment whose use loads the next one; the default is
	// Leaf's.
	Preload float64 `yaml:"preload" default:"0.1" validate:"gt=0,lt=1"`
	// Runway is how long what is held ahead should last at the present rate.
	Runway time.Duration `yaml:"runway" default:"10m" validate:"min=1s,max=24h"`
}

// Snowflake is Leaf's snowflake mode.
type Snowflake struct {
	// Enabled serves the mode.
	Enabled bool `yaml:"enabled" default:"true"`
	// EpochMS is the start of the IDs' time in milliseconds since 1970-01-01 UTC, up to
	// the year 2100. The default is Leaf's.
	EpochMS int64 `yaml:"epoch_ms" default:"1288834974657" validate:"min=0,max=4102444800000"`
	// WorkerBits is the width of the worker ID, SeqBits that of the sequence: together at
	// most 22, as 41 bits are time. The defaults are Leaf's.
	WorkerBits int `yaml:"worker_bits" default:"10" validate:"min=1,max=10"`
	SeqBits    int `yaml:"seq_bits" default:"12" validate:"min=1,max=14"`
	// Name is the namespace of worker IDs, Leaf's leaf.name: 1…128 of letters,
	// digits, '.', '_', '-', starting with a letter or digit.
	Name string `yaml:"name" default:"shardid" validate:"name"`
	// Advertise is the identity of this instance, ip:port. Empty: the first usable one.
	Advertise string `yaml:"advertise" validate:"ipport"`
	// SequenceStart bounds the random sequence a millisecond starts at; 0 starts
	// at 0; at most 2^SeqBits. The default is Leaf's.
	SequenceStart int `yaml:"sequence_start" default:"100" validate:"min=0,max=4096"`
	// ClockTolerance is how far the clock may be back and is waited for. The default is
	// Leaf's.
	ClockTolerance time.Duration `yaml:"clock_tolerance" default:"5ms" validate:"min=0s,max=1s"`
	// MaxClockOffset is how far the clock may be from the registry's and the other
	// instances'.
	MaxClockOffset time.Duration `yaml:"max_clock_offset" default:"5s" validate:"min=100ms,max=1h"`
	// Timeout is how long a request may wait for free milliseconds.
	Timeout time.Duration `yaml:"timeout" default:"1s" validate:"min=10ms,max=1m"`
	Worker  Worker        `yaml:"worker"`
}

// Worker is where a snowflake instance gets its worker ID, and one of the UID mode with
// uid.worker: registry.
type Worker struct {
	// Mode is zk, zk_recycle, zk_ephemeral, mysql (also serves on SQLite), redis, local or
	// ordinal. zk_normal, a name of zk in a fork of Leaf, is read as zk.
	Mode string `yaml:"mode" default:"mysql" validate:"oneof=zk zk_normal zk_recycle zk_ephemeral mysql redis local ordinal"`
	// LocalMap maps ip:port to a worker ID, each once, for local.
	LocalMap map[string]int `yaml:"local_map" validate:"unique,dive,keys,ipport,endkeys,min=0,max=1023"`
	// Expiry is how long an instance goes on without its registry, and for how long
	// no other instance gets its worker ID; zk, zk_recycle and mysql.
	Expiry time.Duration `yaml:"expiry" default:"1h" validate:"min=1m,max=720h"`
	// Lease is how long redis keeps a worker ID for an instance that does not renew it.
	Lease time.Duration `yaml:"lease" default:"10s" validate:"min=5s,max=5m"`
	// RedisAcks is how many replicas must confirm a lease, so that a deposed master
	// confirms none. -1: that a majority of the servers has it, of the most that were
	// ever seen.
	RedisAcks int `yaml:"redis_acks" default:"-1" validate:"min=-1,max=16"`
}

// ZooKeeper is the ensemble of the zk worker modes.
type ZooKeeper struct {
	// Addrs are host:port; a chroot may follow the last one, /path.
	Addrs []string `yaml:"addrs" validate:"dive,zookeeper"`
	// SessionTimeout is after how long the ensemble gives a silent instance up.
	SessionTimeout time.Duration `yaml:"session_timeout" default:"10s" validate:"min=5s,max=5m"`
}

// UID is Baidu's UidGenerator. The three widths add up to 63. The defaults are Baidu's
// but for the epoch: since its 2016-05-20, 28 bits of seconds ran out on 2024-11-20.
type UID struct {
	// Enabled serves the mode.
	Enabled bool `yaml:"enabled" default:"true"`
	// Mode is cached (a ring filled ahead) or default.
	Mode string `yaml:"mode" default:"cached" validate:"oneof=default cached"`
	// Worker is where a worker ID comes from: node (a row of WORKER_NODE for each start)
	// or registry (one that an instance keeps, from the kind of registry that
	// Snowflake.Worker says, under a name of its own).
	Worker string `yaml:"worker" default:"node" validate:"oneof=node registry"`
	// TimeBits is the width of the seconds.
	TimeBits int `yaml:"time_bits" default:"28" validate:"min=1,max=61"`
	// WorkerBits is the width of the worker ID.
	WorkerBits int `yaml:"worker_bits" default:"22" validate:"min=1,max=61"`
	// SeqBits is the width of the sequence.
	SeqBits int `yaml:"seq_bits" default:"13" validate:"min=1,max=61"`
	// Epoch is what the seconds count from: a day, at midnight UTC, or an instant
	// with its zone.
	Epoch Date `yaml:"epoch" default:"2026-01-01"`
	// BoostPower makes the ring 2^(SeqBits+BoostPower) slots.
	BoostPower int `yaml:"boost_power" default:"3" validate:"min=1,max=16"`
	// PaddingFactor is the fill of the ring, in percent, below which it is refilled.
	PaddingFactor int `yaml:"padding_factor" default:"50" validate:"min=1,max=99"`
	// ScheduleInterval refills the ring by the clock as well.
	ScheduleInterval Interval `yaml:"schedule_interval" validate:"omitempty,min=1s,max=24h"`
	// RejectPut is what happens to IDs that find the ring full: discard or block.
	RejectPut string `yaml:"reject_put" default:"discard" validate:"oneof=discard block"`
	// RejectTake is what happens to a request that finds the ring empty: refuse, or
	// wait, for Timeout.
	RejectTake string `yaml:"reject_take" default:"refuse" validate:"oneof=refuse wait"`
	// FollowClock keeps the time in the IDs near the clock.
	FollowClock bool `yaml:"follow_clock"`
	// Timeout is how long a request may wait.
	Timeout time.Duration `yaml:"timeout" default:"2s" validate:"min=10ms,max=1m"`
}

// Log is the log on stderr.
type Log struct {
	// Level is the least level written: debug, info, warn or error.
	Level string `yaml:"level" default:"info" validate:"oneof=debug info warn error"`
	// Format is text, json or auto: text on a terminal, else json.
	Format string `yaml:"format" default:"auto" validate:"oneof=auto text json"`
	// Access is which requests have a line: off, errors, sampled (errors and one in a
	// hundred of the others) or all.
	Access string `yaml:"access" default:"off" validate:"oneof=off errors sampled all"`
}

// Tracing is where spans are sent.
type Tracing struct {
	// Endpoint is the URL of an OTLP/HTTP receiver. Empty: no tracing.
	Endpoint string `yaml:"endpoint" validate:"endpoint"`
	// SampleRatio is the share of traces that begin here and are recorded; of others
	// it is the caller's decision. 0 records none at all.
	SampleRatio float64 `yaml:"sample_ratio" default:"0.01" validate:"min=0,max=1"`
}

// DatabaseDSN is the data source name to open: the configured one, or for
// sqlite without one the file shardid.db in the data folder.
func (c Config) DatabaseDSN() string {
	if c.Database.DSN == "" && c.Database.Driver == "sqlite" {
		return filepath.Join(c.DataDir, "shardid.db")
	}
	return c.Database.DSN
}
