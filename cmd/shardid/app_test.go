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
	cfg := config.Defaults().Config
	cfg.Server.RequestTimeout = time.Minute
	if l := limits(cfg); l.Active <= time.Minute || l.Most < 1 {
		t.Errorf("%+v", l)
	}
	cfg.Server.TLSCertFile = "cert.pem"
	s := newServer(cfg, nil, nil, slog.New(slog.DiscardHandler))
	if s.ReadTimeout <= time.Minute || s.WriteTimeout <= time.Minute || s.IdleTimeout <= 0 {
		t.Errorf("streams: read %v, write %v, idle %v", s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
	}
	if s.HTTP2.MaxConcurrentStreams > 100 || s.HTTP2.WriteByteTimeout <= 0 {
		t.Errorf("streams: %+v", s.HTTP2)
	}
}
