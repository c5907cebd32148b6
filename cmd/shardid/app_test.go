package main

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/scripts/check"
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

// The less lives the more the heap may grow, up to its goal; much that lives is collected as often as with GOGC=200.
func TestHeapGoal(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() uint64 { // as it is set
		gogc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(gogc)
		return gogc[0].Value.Uint64()
	}
	runtime.GC() // of what other tests left
	keepHeapGoal()
	if set := percent(); set <= 200 {
		t.Errorf("with little that lives it is %d", set)
	}
	much := make([]byte, 200<<20)
	check.Eventually(t, "a collection sets it", func() error {
		runtime.GC()
		if set := percent(); set != 200 {
			return fmt.Errorf("with 200 MiB that live it is %d", set)
		}
		return nil
	})
	runtime.KeepAlive(much)
}
