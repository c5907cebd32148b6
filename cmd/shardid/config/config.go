// Package config is what an operator can set: the keys with their defaults, read from
// a file, the environment and --set, and checked as a whole.
package config

import (
	"cmp"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Config is everything an operator can set. The yaml tags are the keys of
// config.yaml, which says what each one means; the dotted path of a key is its name for
// --set (--set server.addr=:8080) and, upper case with underscores, its environment variable
// (SHARDID_SERVER_ADDR).
//
// The other tags are the default (none: the zero value), what a value must be, for the
// validator with the formats of check.go, and secret, for values that --set does not take and
// that never appear in a message. min and max are in the unit of the field and allowed
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
	Sequence  Sequence  `yaml:"sequence"`
	Region    Region    `yaml:"region"`
	Log       Log       `yaml:"log"`

	DataDir string `yaml:"data_dir" default:"data"`
}

// Server is the HTTP server.
type Server struct {
	Addr              string        `yaml:"addr" default:"127.0.0.1:8080" validate:"listen"`
	AdminToken        string        `yaml:"admin_token" validate:"token" secret:"true"`
	TokensFile        string        `yaml:"tokens_file"`
	RequireToken      bool          `yaml:"require_token"`
	ProtectMonitoring bool          `yaml:"protect_monitoring"`
	TLSCertFile       string        `yaml:"tls_cert_file"`
	TLSKeyFile        string        `yaml:"tls_key_file"`
	TLSClientCAFile   string        `yaml:"tls_client_ca_file"`
	MaxConnections    int           `yaml:"max_connections" validate:"min=0,max=1000000"`
	RequestTimeout    time.Duration `yaml:"request_timeout" default:"2s" validate:"min=10ms,max=1m"`
	DrainDelay        time.Duration `yaml:"drain_delay" default:"2s" validate:"min=0s,max=5m"`
	ShutdownTimeout   time.Duration `yaml:"shutdown_timeout" default:"15s" validate:"min=1s,max=10m"`
}

// RESP is the front end for Redis clients. Tokens, TLS, and the bounds on connections and requests
// are those of Server.
type RESP struct {
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
	Driver   string   `yaml:"driver" default:"sqlite" validate:"oneof=sqlite mysql"`
	DSN      string   `yaml:"dsn" secret:"true"` // DatabaseDSN is what to read
	Hosts    []string `yaml:"hosts" validate:"dive,hostport"`
	TLS      bool     `yaml:"tls"` // mysql only, as the files
	TLSFiles `yaml:",inline"`
}

// TLSFiles are PEM files for TLS to a store.
type TLSFiles struct {
	TLSCAFile   string `yaml:"tls_ca_file"`
	TLSCertFile string `yaml:"tls_cert_file"`
	TLSKeyFile  string `yaml:"tls_key_file"`
}

// Redis is where the lists of the queue mode live: in this process without a URL.
type Redis struct {
	URL      string `yaml:"url" validate:"redis" secret:"true"`
	TLSFiles `yaml:",inline"`
}

// Queue is the queue mode, GET /get.
type Queue struct {
	RefillCron  string `yaml:"refill_cron" default:"0 */2 * * * *" validate:"cron"`
	ReloadCron  string `yaml:"reload_cron" default:"30 */2 * * * *" validate:"cron"` // half a minute after the sweep
	PrefetchMax int    `yaml:"prefetch_max" default:"1000" validate:"min=1,max=10000"`
	MaxListRate int    `yaml:"max_list_rate" default:"100000" validate:"min=1,max=10000000"`
}

// Segment is Leaf's segment mode.
type Segment struct {
	Enabled bool          `yaml:"enabled" default:"true"`
	MaxRate int           `yaml:"max_rate" default:"1000000" validate:"min=1,max=1000000000"`
	Runway  time.Duration `yaml:"runway" default:"10m" validate:"min=1s,max=24h"`
}

// Sequence is the mode of numbers that rise for each key.
type Sequence struct {
	Enabled bool `yaml:"enabled" default:"true"`
}

// Region is what IDs have that no deployment in another region issues; see model.Region.
type Region struct {
	ID   int `yaml:"id" validate:"min=0,max=63"`
	Bits int `yaml:"bits" validate:"min=0,max=6"`
}

// Snowflake is Leaf's snowflake mode. The defaults of the layout are Leaf's.
type Snowflake struct {
	Enabled        bool          `yaml:"enabled" default:"true"`
	EpochMS        int64         `yaml:"epoch_ms" default:"1288834974657" validate:"min=0,max=4102444800000"`
	WorkerBits     int           `yaml:"worker_bits" default:"10" validate:"min=1,max=10"`
	SeqBits        int           `yaml:"seq_bits" default:"12" validate:"min=1,max=14"`
	Name           string        `yaml:"name" default:"shardid" validate:"name"`
	Advertise      string        `yaml:"advertise" validate:"ipport"`
	MaxClockOffset time.Duration `yaml:"max_clock_offset" default:"5s" validate:"min=100ms,max=1h"`
	Worker         Worker        `yaml:"worker"`
}

// Worker is where a snowflake instance gets its worker ID.
type Worker struct {
	Mode     string         `yaml:"mode" default:"mysql" validate:"oneof=zk zk_recycle zk_ephemeral mysql local ordinal"`
	LocalMap map[string]int `yaml:"local_map" validate:"unique,dive,keys,ipport,endkeys,min=0,max=1023"`
	Expiry   time.Duration  `yaml:"expiry" default:"1h" validate:"min=1m,max=720h"`
}

// ZooKeeper is the ensemble of the zk worker modes.
type ZooKeeper struct {
	Addrs []string `yaml:"addrs" validate:"dive,zookeeper"`
}

// UID is Baidu's UidGenerator. The three widths add up to 63. The defaults are Baidu's
// but for the epoch: since its 2016-05-20, 28 bits of seconds ran out on 2024-11-20.
type UID struct {
	Enabled          bool          `yaml:"enabled" default:"true"`
	Mode             string        `yaml:"mode" default:"cached" validate:"oneof=default cached"`
	TimeBits         int           `yaml:"time_bits" default:"28" validate:"min=1,max=61"`
	WorkerBits       int           `yaml:"worker_bits" default:"22" validate:"min=1,max=61"`
	SeqBits          int           `yaml:"seq_bits" default:"13" validate:"min=1,max=61"`
	Epoch            Date          `yaml:"epoch" default:"2026-01-01"`
	BoostPower       int           `yaml:"boost_power" default:"3" validate:"min=1,max=16"`
	PaddingFactor    int           `yaml:"padding_factor" default:"50" validate:"min=1,max=99"`
	ScheduleInterval time.Duration `yaml:"schedule_interval" default:"off" validate:"omitempty,min=1s,max=24h"`
	RejectPut        string        `yaml:"reject_put" default:"discard" validate:"oneof=discard block"`
	RejectTake       string        `yaml:"reject_take" default:"refuse" validate:"oneof=refuse wait"`
}

// Log is the log on stderr.
type Log struct {
	Level  string `yaml:"level" default:"info" validate:"oneof=debug info warn error"`
	Format string `yaml:"format" default:"auto" validate:"oneof=auto text json"`
	Access string `yaml:"access" default:"off" validate:"oneof=off all"`
}

// DatabaseDSN is the data source name to open: for mysql in go-sql-driver's form, for sqlite without
// one the file shardid.db in the data folder.
func (c Config) DatabaseDSN() string {
	if c.Database.DSN == "" && c.Database.Driver == "sqlite" {
		return filepath.Join(c.DataDir, "shardid.db")
	}
	return c.Database.driverDSN()
}

// driverDSN is the data source name in go-sql-driver's form, of which mysql://user:password@host:3306/name is the
// same as a URL.
func (d Database) driverDSN() string {
	u, err := url.Parse(d.DSN)
	if err != nil || u.Scheme != "mysql" || d.Driver != "mysql" {
		return d.DSN
	}
	driver := mysql.NewConfig()
	driver.User = u.User.Username()
	driver.Passwd, _ = u.User.Password()
	driver.Net, driver.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	driver.DBName = strings.TrimPrefix(u.Path, "/")
	// The driver takes what follows the last slash as the name of the database.
	return driver.FormatDSN() + "?" + strings.ReplaceAll(u.RawQuery, "/", "%2F")
}
