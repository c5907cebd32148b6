package main

import (
	"fmt"
	"time"
)

// SegmentConfig is Leaf's segment mode.
type SegmentConfig struct {
	// Enabled serves the mode; a disabled one answers 404, code -9. Default true.
	Enabled bool `yaml:"enabled"`
	// Timeout is how long a request may wait for a segment. 10ms…1m, default 2s.
	Timeout time.Duration `yaml:"timeout" range:"10ms..1m"`
	// MaxStep is the largest step that demand lets a segment grow to, in IDs.
	// 1…1000000000, default 1000000, Leaf's.
	MaxStep int `yaml:"max_step" range:"1..1000000000"`
	// MaxRate is how many IDs a second a tag hands out at most, on all replicas
	// together, where it has no max_rate of its own: so many are left out, twice,
	// for each second that a database which went back in time may lack. A tag's step
	// a second is always allowed. Not on SQLite. 1…1000000000, default 1000000.
	MaxRate int `yaml:"max_rate" range:"1..1000000000"`
	// Runway is how long what is held ahead should last at the present rate.
	// 1s…24h, default 10m.
	Runway time.Duration `yaml:"runway" range:"1s..24h"`
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
	Advertise string `yaml:"advertise" format:"ipport"`
	// SequenceStart bounds the random sequence a millisecond starts at; 0 starts
	// at 0. 0…4096, default 100, Leaf's.
	SequenceStart int `yaml:"sequence_start" range:"0..4096"`
	// ClockTolerance is how far the clock may be back and is waited for. 0s…1s,
	// default 5ms, Leaf's.
	ClockTolerance time.Duration `yaml:"clock_tolerance" range:"0s..1s"`
	// MaxClockOffset is how far the clock may be from the registry's and the other
	// instances'. 100ms…1h, default 5s.
	MaxClockOffset time.Duration `yaml:"max_clock_offset" range:"100ms..1h"`
	// Timeout is how long a request may wait for free milliseconds. 10ms…1m,
	// default 1s.
	Timeout time.Duration `yaml:"timeout" range:"10ms..1m"`
	Worker  WorkerConfig  `yaml:"worker"`
}

// WorkerConfig is where a snowflake instance gets its worker ID.
type WorkerConfig struct {
	// Mode is zk, zk_recycle, zk_ephemeral, mysql (default; also serves on
	// SQLite), redis or local.
	Mode string `yaml:"mode" oneof:"zk zk_recycle zk_ephemeral mysql redis local"`
	// LocalMap maps ip:port to a worker ID, 0…1023 and each once, for local.
	// Default empty.
	LocalMap map[string]int `yaml:"local_map" format:"ipport" range:"0..1023"`
	// Expiry is how long an instance goes on without its registry, and for how long
	// nobody else gets its worker ID; zk, zk_recycle and mysql. 1m…720h, default 1h.
	Expiry time.Duration `yaml:"expiry" range:"1m..720h"`
	// Lease is how long redis keeps a worker ID for an instance that does not renew
	// it. 5s…5m, default 10s.
	Lease time.Duration `yaml:"lease" range:"5s..5m"`
	// RedisAcks is how many replicas must confirm a lease, so that a deposed master
	// confirms none. -1…16, default -1: that a majority of the servers has it, of the
	// most that were ever seen.
	RedisAcks int `yaml:"redis_acks" range:"-1..16"`
}

// ZooKeeperConfig is the ensemble of the zk worker modes.
type ZooKeeperConfig struct {
	// Addrs are host:port. Default none.
	Addrs []string `yaml:"addrs" format:"hostport"`
	// SessionTimeout is after how long the ensemble gives a silent instance up.
	// 5s…5m, default 10s.
	SessionTimeout time.Duration `yaml:"session_timeout" range:"5s..5m"`
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
	// Epoch is what the seconds count from: a day, at midnight UTC, or an instant
	// with its zone. Default 2026-01-01.
	Epoch Date `yaml:"epoch"`
	// BoostPower makes the ring 2^(SeqBits+BoostPower) slots. 1…16, default 3.
	BoostPower int `yaml:"boost_power" range:"1..16"`
	// PaddingFactor is the fill of the ring, in percent, below which it is
	// refilled. 1…99, default 50.
	PaddingFactor int `yaml:"padding_factor" range:"1..99"`
	// ScheduleInterval refills the ring by the clock as well.
	// off (default) or 1s…24h.
	ScheduleInterval Interval `yaml:"schedule_interval" range:"1s..24h"`
	// RejectPut is what happens to IDs that find the ring full: discard (default)
	// or block.
	RejectPut string `yaml:"reject_put" oneof:"discard block"`
	// RejectTake is what happens to a request that finds the ring empty: refuse
	// (default) or wait, for Timeout.
	RejectTake string `yaml:"reject_take" oneof:"refuse wait"`
	// FollowClock keeps the time in the IDs near the clock. Default false.
	FollowClock bool `yaml:"follow_clock"`
	// Timeout is how long a request may wait. 10ms…1m, default 2s.
	Timeout time.Duration `yaml:"timeout" range:"10ms..1m"`
}

// Date is a day, written 2026-01-01, whose time is midnight UTC, or an instant,
// written 2016-05-20T00:00:00+08:00.
type Date struct{ time.Time }

// UnmarshalText reads YYYY-MM-DD or an RFC 3339 instant of whole seconds.
func (d *Date) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		t, err = time.Parse(time.RFC3339, string(text))
	}
	if err != nil || t.Nanosecond() != 0 {
		return fmt.Errorf("%s is not a date: write it as YYYY-MM-DD, or with time and zone as 2016-05-20T00:00:00+08:00", show(string(text)))
	}
	d.Time = t.UTC()
	return nil
}

// String is the day, or the instant when it is not midnight UTC.
func (d Date) String() string {
	if d.Equal(d.Truncate(24 * time.Hour)) {
		return d.Format(time.DateOnly)
	}
	return d.Format(time.RFC3339)
}

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
