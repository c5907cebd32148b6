package main

import (
	"log/slog"
	"testing"
	"time"
)

// TestServerOutlastsItsCallers: a deadline of the connection that ends while a
// request waits would cancel it.
func TestServerOutlastsItsCallers(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"queue":     func(c *Config) { c.Queue.Timeout = time.Minute },
		"segment":   func(c *Config) { c.Segment.Timeout = time.Minute },
		"snowflake": func(c *Config) { c.Snowflake.Timeout = time.Minute },
		"uid":       func(c *Config) { c.UID.Timeout = time.Minute },
	} {
		cfg := defaultConfig()
		set(&cfg)
		s := newServer(cfg, nil, slog.New(slog.DiscardHandler))
		if s.ReadTimeout <= time.Minute || s.WriteTimeout <= time.Minute || s.ReadHeaderTimeout != cfg.Server.ReadHeaderTimeout {
			t.Errorf("%s: read %v, write %v, head %v", name, s.ReadTimeout, s.WriteTimeout, s.ReadHeaderTimeout)
		}
	}
}
