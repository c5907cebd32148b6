package main

import (
	"fmt"
	"time"
)

// The keys of the modes beside the queue. They are parsed and checked in every
// version and take effect in the one that serves their mode.

// SegmentConfig is Leaf's segment mode.
type SegmentConfig struct {
	// Enabled serves the mode; a disabled one answers 404, code -9. Default true.
	Enabled bool `yaml:"enabled"`
}

// SnowflakeConfig is Leaf's snowflake mode.
type SnowflakeConfig struct {
	// Enabled serves the mode. Default true.
	Enabled bool `yaml:"enabled"`
	// EpochMS is the start of the IDs' time in milliseconds since 1970-01-01
	// UTC. 0…4102444800000 (the year 2100), default 1288834974657, Leaf's.
	EpochMS int64 `yaml:"epoch_ms" range:"0..4102444800000"`
	// Name is the namespace of worker IDs, Leaf's leaf.name: 1…128 of letters,
	// digits, '.', '_', '-', starting with a letter or digit. Default shardid.
	Name string `yaml:"name" format:"name"`
	// Advertise is the identity of this instance, ip:port.
	// Default empty: the first usable one.
	Advertise string       `yaml:"advertise" format:"ipport"`
	Worker    WorkerConfig `yaml:"worker"`
}

// WorkerConfig is where a snowflake instance gets its worker ID.
type WorkerConfig struct {
	// Mode is zk, zk_recycle, zk_ephemeral, mysql (default; also serves on
	// SQLite), redis or local.
	Mode string `yaml:"mode" oneof:"zk zk_recycle zk_ephemeral mysql redis local"`
	// LocalMap maps ip:port to a worker ID, 0…1023 and each once, for local.
	// Default empty.
	LocalMap map[string]int `yaml:"local_map" format:"ipport" range:"0..1023"`
}

// ZooKeeperConfig is the ensemble of the zk worker modes.
type ZooKeeperConfig struct {
	// Addrs are host:port. Default none.
	Addrs []string `yaml:"addrs" format:"hostport"`
}

// UIDConfig is Baidu's UidGenerator. The three widths add up to 63.
type UIDConfig struct {
	// Enabled serves the mode. Default true.
	Enabled bool `yaml:"enabled"`
	// Mode is cached (default: a ring filled ahead) or default.
	Mode string `yaml:"mode" oneof:"default cached"`
	// TimeBits is the width of the seconds. 1…61, default 28.
	TimeBits int `yaml:"time_bits" range:"1..61"`
	// WorkerBits is the width of the worker ID. 1…61, default 22.
	WorkerBits int `yaml:"worker_bits" range:"1..61"`
	// SeqBits is the width of the sequence. 1…61, default 13.
	SeqBits int `yaml:"seq_bits" range:"1..61"`
	// Epoch is the day the seconds count from, UTC. Default 2026-01-01.
	Epoch Date `yaml:"epoch"`
	// BoostPower makes the ring 2^(SeqBits+BoostPower) slots. 1…16, default 3.
	BoostPower int `yaml:"boost_power" range:"1..16"`
	// PaddingFactor is the fill of the ring, in percent, below which it is
	// refilled. 1…99, default 50.
	PaddingFactor int `yaml:"padding_factor" range:"1..99"`
	// ScheduleInterval refills the ring by the clock as well.
	// off (default) or 1s…24h.
	ScheduleInterval Interval `yaml:"schedule_interval" range:"1s..24h"`
}

// Date is a day, written 2026-01-01; its time is midnight UTC.
type Date struct{ time.Time }

// UnmarshalText reads YYYY-MM-DD.
func (d *Date) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		return fmt.Errorf("%s is not a date: write it as YYYY-MM-DD", show(string(text)))
	}
	d.Time = t
	return nil
}

// String is the day as YYYY-MM-DD.
func (d Date) String() string { return d.Format(time.DateOnly) }

// Interval is a duration that may be off, which is 0.
type Interval time.Duration

// UnmarshalText reads off or a duration; 0s is refused in favour of off.
func (i *Interval) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*i = 0
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d == 0 {
		return fmt.Errorf("%s is not an interval: write off, or a number with its unit such as 5m", show(string(text)))
	}
	*i = Interval(d)
	return nil
}

// String is off or the duration.
func (i Interval) String() string {
	if i == 0 {
		return "off"
	}
	return time.Duration(i).String()
}
