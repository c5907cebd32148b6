package main

import (
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/service/httpapi"
	"shardid/service/monitor"
	"shardid/service/segment"
)

// What is on is a failure of `shardid status`, what is over is none; and no number is made up.
func TestStatusCommand(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 18, 0, 0, time.FixedZone("", 8*3600))
	s := httpapi.Status{Version: "1.2.3", StartedAt: at, Ready: true, Witness: &httpapi.WitnessStatus{State: httpapi.WitnessNone},
		Modes:   map[string]httpapi.ModeStatus{"queue": {Enabled: true, Ready: true, Since: at}},
		Segment: &segment.Status{Tags: []segment.View{{Name: "none", Runway: 0}, {Name: "idle", Held: 5, Runway: 365 * 86400}, {Name: "busy", Held: 5, Rate: 0.5, Runway: 10}}},
		Alarms:  []monitor.Alarm{{Name: "ShardidStarved", Severity: monitor.Info, Since: at, Over: at}},
	}
	check.OK(t, trouble(s), "an alarm that is over")
	s.Alarms = append(s.Alarms, monitor.Alarm{Name: "ShardidStoreAway", Severity: monitor.Critical})
	if err := trouble(s); err == nil || !strings.HasPrefix(err.Error(), "critical: ShardidStoreAway:") {
		t.Errorf("one that is on: %v", err)
	}
	s.Alarms, s.Ready, s.Message = nil, false, "shutting down"
	if err := trouble(s); err == nil || !strings.Contains(err.Error(), "not ready: shutting down") {
		t.Errorf("not ready: %v", err)
	}
	var out strings.Builder
	statusTable(&out, s)
	for _, want := range []string{
		"is not ready, started at 2026-11-20T00:18:00Z\t", "queue\tready\t2026-11-20T00:18:00Z\t", "witness\tnone\t-\tnobody vouches",
		"none\t0\t0\t-\n", "idle\t5\t0\t> 1 year\n", "busy\t5\t0\t10s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nhas no %q", &out, want)
		}
	}
}
