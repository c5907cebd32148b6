package main

import (
	"log/slog"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
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
		cfg := config.Defaults().Config
		set(&cfg)
		s := newServer(cfg, nil, slog.New(slog.DiscardHandler))
		if s.ReadTimeout <= time.Minute || s.WriteTimeout != 0 || s.ReadHeaderTimeout != cfg.Server.ReadHeaderTimeout {
			t.Errorf("%s: read %v, write %v, head %v", name, s.ReadTimeout, s.WriteTimeout, s.ReadHeaderTimeout)
		}
		if l := limits(cfg); l.Read != cfg.Server.IdleTimeout || l.Write < time.Second {
			t.Errorf("%s: limits %+v", name, l)
		}
		cfg.Server.TLSCertFile, cfg.Server.IdleTimeout = "cert.pem", time.Second
		s = newServer(cfg, nil, slog.New(slog.DiscardHandler))
		if l := limits(cfg); l.Read != 0 || l.Write < time.Second || s.ReadTimeout <= time.Minute || s.WriteTimeout <= time.Minute || s.IdleTimeout != time.Second {
			t.Errorf("%s: limits with TLS %+v, read %v, write %v, idle %v", name, l, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
		}
	}
}
