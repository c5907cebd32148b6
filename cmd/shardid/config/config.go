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
// The other tags are the default (none: the zero value), what a value is, and secret, for values
// that --set does not take and that never appear in a message. A value is in a range low…high, with
// both ends, or one of some texts a|b, or each of its texts has one of the formats of check.go. A text
// whose default is not empty may not be empty. Load makes a Config; nothing changes it afterwards.
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
	Addr              string        `yaml:"addr" default:"127.0.0.1:8080" is:"listen"`
	AdminToken        string        `yaml:"admin_token" is:"token" secret:"true"`
	TokensFile        string        `yaml:"tokens_file"`
	RequireToken      bool          `yaml:"require_token"`
	ProtectMonitoring bool          `yaml:"protect_monitoring"`
	TLSCertFile       string        `yaml:"tls_cert_file"`
	TLSKeyFile        string        `yaml:"tls_key_file"`
	TLSClientCAFile   string        `yaml:"tls_client_ca_file"`
	MaxConnections    int           `yaml:"max_connections" is:"0…1000000"`
	RequestTimeout    time.Duration `yaml:"request_timeout" default:"2s" is:"10ms…1m"`
	DrainDelay        time.Duration `yaml:"drain_delay" default:"2s" is:"0s…5m"`
	ShutdownTimeout   time.Duration `yaml:"shutdown_timeout" default:"15s" is:"1s…10m"`
}

// RESP is the front end for Redis clients. Tokens, TLS, and the bounds on connections and requests
// are those of Server.
type RESP struct {
	Addr string `yaml:"addr" is:"listen"`
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
	Driver   string   `yaml:"driver" default:"sqlite" is:"sqlite|mysql"`
	DSN      string   `yaml:"dsn" secret:"true"` // DatabaseDSN is what to read
	Hosts    []string `yaml:"hosts" is:"hostport"`
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
	URL      string `yaml:"url" is:"redis" secret:"true"`
	TLSFiles `yaml:",inline"`
}

// Queue is the queue mode, GET /get.
type Queue struct {
	RefillCron  string `yaml:"refill_cron" default:"0 */2 * * * *" is:"cron"`
	ReloadCron  string `yaml:"reload_cron" default:"30 */2 * * * *" is:"cron"` // half a minute after the sweep
	PrefetchMax int    `yaml:"prefetch_max" default:"1000" is:"1…10000"`
	MaxListRate int    `yaml:"max_list_rate" default:"100000" is:"1…10000000"`
}

// Segment is Leaf's segment mode.
type Segment struct {
	Enabled bool          `yaml:"enabled" default:"true"`
	MaxRate int           `yaml:"max_rate" default:"1000000" is:"1…1000000000"`
	Runway  time.Duration `yaml:"runway" default:"10m" is:"1s…24h"`
}

// Sequence is the mode of numbers that rise for each key.
type Sequence struct {
	Enabled bool `yaml:"enabled" default:"true"`
}

// Region is what IDs have that no deployment in another region issues; see model.Region.
type Region struct {
	ID   int `yaml:"id" is:"0…63"`
	Bits int `yaml:"bits" is:"0…6"`
}

// Snowflake is Leaf's snowflake mode. The defaults of the layout are Leaf's.
type Snowflake struct {
	Enabled        bool          `yaml:"enabled" default:"true"`
	EpochMS        int64         `yaml:"epoch_ms" default:"1288834974657" is:"0…4102444800000"`
	WorkerBits     int           `yaml:"worker_bits" default:"10" is:"1…10"`
	SeqBits        int           `yaml:"seq_bits" default:"12" is:"1…14"`
	Name           string        `yaml:"name" default:"shardid" is:"name"`
	Advertise      string        `yaml:"advertise" is:"ipport"`
	MaxClockOffset time.Duration `yaml:"max_clock_offset" default:"5s" is:"100ms…1h"`
	Worker         Worker        `yaml:"worker"`
}

// Worker is where a snowflake instance gets its worker ID.
type Worker struct {
	Mode     string         `yaml:"mode" default:"mysql" is:"zk|zk_recycle|zk_ephemeral|mysql|local|ordinal"`
	LocalMap map[string]int `yaml:"local_map" is:"ipport"`
	Expiry   time.Duration  `yaml:"expiry" default:"1h" is:"1m…720h"`
}

// ZooKeeper is the ensemble of the zk worker modes.
type ZooKeeper struct {
	Addrs []string `yaml:"addrs" is:"zookeeper"`
}

// UID is Baidu's UidGenerator. The three widths add up to 63. The defaults are Baidu's
// but for the epoch: since its 2016-05-20, 28 bits of seconds ran out on 2024-11-20.
type UID struct {
	Enabled          bool          `yaml:"enabled" default:"true"`
	Mode             string        `yaml:"mode" default:"cached" is:"default|cached"`
	TimeBits         int           `yaml:"time_bits" default:"28" is:"1…61"`
	WorkerBits       int           `yaml:"worker_bits" default:"22" is:"1…61"`
	SeqBits          int           `yaml:"seq_bits" default:"13" is:"1…61"`
	Epoch            time.Time     `yaml:"epoch" default:"2026-01-01"`
	BoostPower       int           `yaml:"boost_power" default:"3" is:"1…16"`
	PaddingFactor    int           `yaml:"padding_factor" default:"50" is:"1…99"`
	ScheduleInterval time.Duration `yaml:"schedule_interval" default:"off" is:"1s…24h"`
	RejectPut        string        `yaml:"reject_put" default:"discard" is:"discard|block"`
	RejectTake       string        `yaml:"reject_take" default:"refuse" is:"refuse|wait"`
}

// Log is the log on stderr.
type Log struct {
	Level  string `yaml:"level" default:"info" is:"debug|info|warn|error"`
	Format string `yaml:"format" default:"auto" is:"auto|text|json"`
	Access string `yaml:"access" default:"off" is:"off|all"`
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
