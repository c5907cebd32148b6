package main

import (
	"path/filepath"
	"time"
)

// Config is everything an operator can set. The yaml tags are the keys of
// config.yaml; the dotted path of a key is its flag (--server.addr) and, upper
// case with underscores, its environment variable (SHARDID_SERVER_ADDR).
//
// The other tags say what a value must be and are read by configKeys' callers:
// range (both ends included unless open), oneof, format, and secret for values
// that have no flag and never appear in a message. A text whose default is not
// empty may not be empty. Config is a value: loadConfig makes it, nothing
// changes it afterwards.
type Config struct {
	Server    ServerConfig    `yaml:"server"`
	Database  DatabaseConfig  `yaml:"database"`
	Redis     RedisConfig     `yaml:"redis"`
	Queue     QueueConfig     `yaml:"queue"`
	Segment   SegmentConfig   `yaml:"segment"`
	Snowflake SnowflakeConfig `yaml:"snowflake"`
	ZooKeeper ZooKeeperConfig `yaml:"zookeeper"`
	UID       UIDConfig       `yaml:"uid"`
	Log       LogConfig       `yaml:"log"`
	Tracing   TracingConfig   `yaml:"tracing"`

	// DataDir is the folder of the embedded stores and the local worker files,
	// relative to the working directory. Default "data".
	DataDir string `yaml:"data_dir"`
	// TimeZone is the zone of times that are shown as Leaf's and Baidu's pages show
	// them: a name such as Asia/Shanghai, UTC or Local (default), the machine's.
	TimeZone string `yaml:"time_zone" format:"zone"`
}

// ServerConfig is the HTTP server.
type ServerConfig struct {
	// Addr is the listen address, host:port; an empty host listens on every
	// interface, port 0 takes a free one. Default 127.0.0.1:8080.
	Addr string `yaml:"addr" format:"listen"`
	// AdminToken is the bearer token of /admin/*: visible ASCII without
	// spaces. Default empty: /admin/* answers 403, unless TokensFile has one for it.
	AdminToken string `yaml:"admin_token" format:"token" secret:"true"`
	// TokensFile has further tokens, by their SHA-256; it is read again when it
	// changes. Default empty: none.
	TokensFile string `yaml:"tokens_file"`
	// RequireToken closes the ID routes to requests without one of those tokens.
	// Default false.
	RequireToken bool `yaml:"require_token"`
	// ProtectMonitoring closes the pages that show the state of the service to
	// requests without any valid token. Default false.
	ProtectMonitoring bool `yaml:"protect_monitoring"`
	// TLSCertFile is a PEM file with the server's certificate; it is read again when
	// it changes, as the next two are. Default empty: plain HTTP.
	TLSCertFile string `yaml:"tls_cert_file"`
	// TLSKeyFile is a PEM file with the key of TLSCertFile. Default empty.
	TLSKeyFile string `yaml:"tls_key_file"`
	// TLSClientCAFile is a PEM file of authorities, one of which must have issued a
	// client's certificate. Default empty: clients need none.
	TLSClientCAFile string `yaml:"tls_client_ca_file"`
	// PprofAddr is a separate listener for pprof, host:port. Default empty: none.
	PprofAddr string `yaml:"pprof_addr" format:"listen"`
	// MaxConnections is the most connections of clients at once; further ones are
	// closed. 0…1000000, default 0: three quarters of the process's limit of open files,
	// at most 16384.
	MaxConnections int `yaml:"max_connections" range:"0..1000000"`
	// ReadHeaderTimeout bounds reading a request's head. 1ms…1h, default 5s.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" range:"1ms..1h"`
	// IdleTimeout is how long an idle connection is kept. 1ms…24h, default 60s.
	IdleTimeout time.Duration `yaml:"idle_timeout" range:"1ms..24h"`
	// MaxHeaderBytes is the largest request head in bytes.
	// 1024…1048576, default 16384.
	MaxHeaderBytes int `yaml:"max_header_bytes" range:"1024..1048576"`
	// MaxURLBytes is the longest request URL in bytes. 512…65536, default 8192.
	MaxURLBytes int `yaml:"max_url_bytes" range:"512..65536"`
	// DrainDelay is how long /readyz answers not ready before the listener
	// closes. 0s…5m and below ShutdownTimeout, default 2s.
	DrainDelay time.Duration `yaml:"drain_delay" range:"0s..5m"`
	// ShutdownTimeout bounds the whole stop, DrainDelay included.
	// 1s…10m, default 15s.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" range:"1s..10m"`
}

// DatabaseConfig is the store of record.
type DatabaseConfig struct {
	// Driver is sqlite (default) or mysql, which also serves MariaDB.
	Driver string `yaml:"driver" oneof:"sqlite mysql"`
	// DSN is a go-sql-driver data source name for mysql, a file for sqlite.
	// Default empty: see Config.DatabaseDSN, which is what to read.
	DSN string `yaml:"dsn" secret:"true"`
	// MaxOpenConns is the most connections at once. 1…10000, default 16.
	MaxOpenConns int `yaml:"max_open_conns" range:"1..10000"`
	// ConnMaxLifetime is the age at which a connection is replaced.
	// 0s…24h, 0s for never, default 5m.
	ConnMaxLifetime time.Duration `yaml:"conn_max_lifetime" range:"0s..24h"`
	// TLS encrypts the connections; mysql only. Default false.
	TLS bool `yaml:"tls"`
	// TLSCAFile is a PEM file of trusted authorities. Default empty: the system's.
	TLSCAFile string `yaml:"tls_ca_file"`
	// TLSCertFile is a PEM file with the client's certificate; it is read for each
	// connection. Default empty: none.
	TLSCertFile string `yaml:"tls_cert_file"`
	// TLSKeyFile is a PEM file with the key of TLSCertFile. Default empty: none.
	TLSKeyFile string `yaml:"tls_key_file"`
	// TLSServerName is the name the server's certificate must carry.
	// Default empty: the host of the DSN.
	TLSServerName string `yaml:"tls_server_name"`
	// TLSInsecureSkipVerify accepts any certificate; for tests. Default false.
	TLSInsecureSkipVerify bool `yaml:"tls_insecure_skip_verify"`
}

// RedisConfig is where the lists of the queue mode live.
type RedisConfig struct {
	// Mode is embedded (default: lists in this process, for one replica),
	// single, sentinel or cluster.
	Mode string `yaml:"mode" oneof:"embedded single sentinel cluster"`
	// Addrs are host:port: the server for single, the sentinels for sentinel,
	// some nodes for cluster, none for embedded. Default none.
	Addrs []string `yaml:"addrs" format:"hostport"`
	// MasterName is the sentinels' name of the master; sentinel only. Default empty.
	MasterName string `yaml:"master_name"`
	// Username is the ACL user. Default empty: Redis' default user.
	Username string `yaml:"username"`
	// Password is the password of Username. Default empty: none.
	Password string `yaml:"password" secret:"true"`
	// DB is the database number, 0 for cluster. 0…65535, default 0.
	DB int `yaml:"db" range:"0..65535"`
	// TLS encrypts the connections. Default false.
	TLS bool `yaml:"tls"`
	// TLSCAFile is a PEM file of trusted authorities. Default empty: the system's.
	TLSCAFile string `yaml:"tls_ca_file"`
	// TLSCertFile is a PEM file with the client's certificate. Default empty: none.
	TLSCertFile string `yaml:"tls_cert_file"`
	// TLSKeyFile is a PEM file with the key of TLSCertFile. Default empty: none.
	TLSKeyFile string `yaml:"tls_key_file"`
	// TLSServerName is the name the server's certificate must carry.
	// Default empty: the host of the address.
	TLSServerName string `yaml:"tls_server_name"`
	// TLSInsecureSkipVerify accepts any certificate; for tests. Default false.
	TLSInsecureSkipVerify bool `yaml:"tls_insecure_skip_verify"`
	// SentinelUsername is the ACL user at the sentinels. Default empty.
	SentinelUsername string `yaml:"sentinel_username"`
	// SentinelPassword is the password at the sentinels. Default empty: none.
	SentinelPassword string `yaml:"sentinel_password" secret:"true"`
	// PoolSize is the most connections per node. 0…100000, default 0: go-redis'
	// own, ten per CPU.
	PoolSize int `yaml:"pool_size" range:"0..100000"`
	// UnsafeNoHistory serves although a proxy hides the replication id, without
	// which a Redis that went back in time is not noticed. Default false.
	UnsafeNoHistory bool `yaml:"unsafe_no_history"`
}

// QueueConfig is the queue mode, GET /get.
type QueueConfig struct {
	// RefillCron is the sweep that refills lists: six fields, seconds first. Replicas
	// begin theirs spread over a twentieth of the pause between two, 5 s at most.
	// Default every two minutes.
	RefillCron string `yaml:"refill_cron" format:"cron"`
	// ReloadCron is the reload of the apps and shards: six fields, seconds
	// first. Default every two minutes, half a minute after the sweep.
	ReloadCron string `yaml:"reload_cron" format:"cron"`
	// LowWatermark is the share of its step at which a list is refilled.
	// Above 0 and below 1, default 0.2.
	LowWatermark float64 `yaml:"low_watermark" range:"0..1" open:"true"`
	// PrefetchMax is the most indices a replica takes from one list at once;
	// 1 is one LPOP per ID. 1…10000, default 1000.
	PrefetchMax int `yaml:"prefetch_max" range:"1..10000"`
	// Timeout is how long a request may wait for a refill. 10ms…1m, default 2s.
	Timeout time.Duration `yaml:"timeout" range:"10ms..1m"`
	// MaxStep is the largest step the adaptive refill grows to, in indices.
	// 1…1000000, default 100000.
	MaxStep int `yaml:"max_step" range:"1..1000000"`
	// MaxListRate is how many indices a second a list hands out at most, on all
	// replicas together: so many are left out, twice, for each second that a database
	// which went back in time may lack, unless Redis knows. An app's step a second is
	// always allowed. Not on SQLite. 1…10000000, default 100000.
	MaxListRate int `yaml:"max_list_rate" range:"1..10000000"`
	// LiftAlarm is by how many indices max_id may have gone back before that is
	// an alarm rather than a warning. 0…1000000000, default 100000.
	LiftAlarm int `yaml:"lift_alarm" range:"0..1000000000"`
}

// LogConfig is the log on stderr.
type LogConfig struct {
	// Level is the least level written: debug, info (default), warn, error.
	Level string `yaml:"level" oneof:"debug info warn error"`
	// Format is text, json or auto (default): text on a terminal, else json.
	Format string `yaml:"format" oneof:"auto text json"`
	// Access is which requests have a line: off (default), errors, sampled (errors
	// and one in a hundred of the others) or all.
	Access string `yaml:"access" oneof:"off errors sampled all"`
}

// TracingConfig is where spans are sent.
type TracingConfig struct {
	// Endpoint is the URL of an OTLP/HTTP receiver. Default empty: no tracing.
	Endpoint string `yaml:"endpoint" format:"url"`
	// SampleRatio is the share of traces that begin here and are recorded; of others
	// it is the caller's decision. 0 records none at all. 0…1, default 0.01.
	SampleRatio float64 `yaml:"sample_ratio" range:"0..1"`
}

// DatabaseDSN is the data source name to open: the configured one, or for
// sqlite without one the file shardid.db in the data folder.
func (c Config) DatabaseDSN() string {
	if c.Database.DSN == "" && c.Database.Driver == "sqlite" {
		return filepath.Join(c.DataDir, "shardid.db")
	}
	return c.Database.DSN
}
