//go:build unix

package e2e_test

import (
	"testing"
	"time"

	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
)

// TestDirectedHostDies: a replica's host dies inside a transaction, after the rows
// are locked and before the COMMIT. The server does not hear of it. No other replica
// goes without IDs for more than 10 s, beside noise, and a new one serves within 20 s.
func TestDirectedHostDies(t *testing.T) {
	story(t)
	for name, c := range map[string]struct {
		at     string // the first request that the server does not get
		starts bool   // the host dies while shardid starts
	}{
		"taking a segment of a list":    {at: "UPDATE id_alloc"},
		"taking a segment of a tag":     {at: "UPDATE leaf_alloc"},
		"renewing its lease":            {at: "UPDATE leaf_workerid_alloc"},
		"sending its heartbeat":         {at: "UPDATE shardid_deployment"},
		"taking a snowflake worker ID":  {at: "INSERT INTO leaf_workerid_alloc", starts: true},
		"taking a worker ID for UIDs":   {at: "INSERT INTO WORKER_NODE", starts: true},
		"committing whatever it begins": {at: "COMMIT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testserver.SharedMariaDB(t).NewDatabase(t)
			cfg, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			proxy := proxyTo(t, cfg.Addr)
			cfg.Addr = proxy.Addr
			victims := onMariaDB(cfg.FormatDSN())

			p := deploy(t, onMariaDB(dsn).With(onRedis(testserver.Redis(t).Addr)).With(smallSteps()), allModes())
			healthy := p.add()
			p.serves(startLimit, healthy)
			if !c.starts {
				p.serves(startLimit, p.add(victims))
			}
			silent := proxy.SilenceAt(c.at)
			if c.starts {
				p.add(victims)
			}
			select {
			case <-silent:
			case <-time.After(2 * time.Minute): // either replica may be the one that sends a heartbeat
				t.Fatalf("the replica sends no %s", c.at)
			}
			begun := time.Now()
			p.serves(20*time.Second, p.add())
			time.Sleep(time.Until(begun.Add(15 * time.Second)))
			for mode := range p.asked {
				gap, _ := p.gaps.Load([2]any{healthy, mode})
				if t.Logf("%s: at most %v without IDs", mode, gap); gap.(time.Duration) > 10*time.Second+noise {
					t.Errorf("%s: the healthy replica had no IDs for %v", mode, gap)
				}
			}
			p.settle()
		})
	}
}

// noise is what a busy machine may add to the 9 s that a lock of a dead host lasts.
const noise = 5 * time.Second

// smallSteps lets lists and tags be refilled all the time.
func smallSteps() settings {
	return settings{"SEGMENT_MAX_STEP": "1000", "QUEUE_MAX_STEP": "1000", "QUEUE_PREFETCH_MAX": "1"}
}
