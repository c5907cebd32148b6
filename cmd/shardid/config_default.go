package main

import "time"

// defaultConfig is what holds where no source says otherwise; it is valid.
func defaultConfig() Config {
	return Config{
		Server: ServerConfig{
			Addr:              "127.0.0.1:8080",
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       60 * time.Second,
			MaxHeaderBytes:    16384,
			MaxURLBytes:       8192,
			DrainDelay:        2 * time.Second,
			ShutdownTimeout:   15 * time.Second,
		},
		Database: DatabaseConfig{Driver: "sqlite", MaxOpenConns: 16, ConnMaxLifetime: 5 * time.Minute},
		Redis:    RedisConfig{Mode: "embedded"},
		Queue: QueueConfig{
			RefillCron:   "0 */2 * * * *",
			ReloadCron:   "30 */2 * * * *",
			LowWatermark: 0.2,
			PrefetchMax:  1000,
			Timeout:      2 * time.Second,
			MaxStep:      100000,
			MaxListRate:  100000,
			LiftAlarm:    100000,
		},
		Segment:   SegmentConfig{Enabled: true, Timeout: 2 * time.Second, MaxStep: 1_000_000, MaxRate: 1_000_000, Runway: 10 * time.Minute},
		Snowflake: defaultSnowflake(),
		ZooKeeper: ZooKeeperConfig{SessionTimeout: 10 * time.Second},
		UID:       defaultUID(),
		Log:       LogConfig{Level: "info", Format: "auto", Access: "off"},
		Tracing:   TracingConfig{SampleRatio: 0.01},
		DataDir:   "data",
		TimeZone:  "Local",
	}
}

func defaultSnowflake() SnowflakeConfig {
	return SnowflakeConfig{
		Enabled:        true,
		EpochMS:        1288834974657,
		Name:           "shardid",
		SequenceStart:  100,
		ClockTolerance: 5 * time.Millisecond,
		MaxClockOffset: 5 * time.Second,
		Timeout:        time.Second,
		Worker:         WorkerConfig{Mode: "mysql", Expiry: time.Hour, Lease: 10 * time.Second, RedisAcks: -1},
	}
}

// defaultUID is Baidu's layout from an epoch of our own: with Baidu's own
// 2016-05-20 its 28 bits of seconds ran out on 2024-11-20.
func defaultUID() UIDConfig {
	return UIDConfig{
		Enabled:       true,
		Mode:          "cached",
		TimeBits:      28,
		WorkerBits:    22,
		SeqBits:       13,
		Epoch:         Date{time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)},
		BoostPower:    3,
		PaddingFactor: 50,
		RejectPut:     "discard",
		RejectTake:    "refuse",
		Timeout:       2 * time.Second,
	}
}
