//go:build unix

// What a daemon says of itself: its readiness, its alarms and its metrics.

package stories_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"shardid/scripts/rig"
)

func (d *daemon) ready() {
	d.t.Helper()
	eventually(d.t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
}

// condition is what /readyz says of one condition.
func (d *daemon) condition(name string) (ok bool, problem string) {
	d.t.Helper()
	all := fromJSON[struct {
		Checks []struct {
			Name, Error string
			OK          bool
		}
	}](d.t, d.get("/readyz"))
	for _, c := range all.Checks {
		if c.Name == name {
			return c.OK, c.Error
		}
	}
	return false, "there is no " + name
}

// alarm is one of /api/status.
type alarm struct{ Name, Severity, Message string }

// allAlarms are those that are on.
func (d *daemon) allAlarms() []alarm {
	d.t.Helper()
	return fromJSON[struct{ Alarms []alarm }](d.t, d.want("/api/status", 200, 0)).Alarms
}

// alarms are the names of those that are on.
func (d *daemon) alarms() (names []string) {
	d.t.Helper()
	for _, a := range d.allAlarms() {
		names = append(names, a.Name)
	}
	return names
}

// alarm waits until the alarm is on, or off.
func (d *daemon) alarm(name string, on bool) {
	d.t.Helper()
	eventually(d.t, 20*time.Second, fmt.Sprintf("alarm %s is on: %t", name, on), func() bool {
		return slices.Contains(d.alarms(), name) == on
	})
}

// recovers waits until nothing fails, without a caller; a refused one may be an alarm for a while yet.
func (d *daemon) recovers() {
	d.t.Helper()
	eventually(d.t, 15*time.Second, "all is well", func() bool {
		return d.get("/healthz").status == 200 && d.get("/readyz").Status == "ok" &&
			!slices.ContainsFunc(d.alarms(), func(name string) bool {
				return name == "ShardidStoreAway" || name == "ShardidConditionFailing"
			})
	})
}

// metric is the value of a metric without labels.
func (d *daemon) metric(name string) float64 {
	d.t.Helper()
	return rig.Metric(d.t, d.get("/metrics").body, name)
}

// flakeStatus is what /api/status says of the snowflake mode.
type flakeStatus struct {
	WorkerID      int64
	State         string
	Address       string
	ReservedUntil time.Time
}

func (d *daemon) flakeStatus() flakeStatus {
	d.t.Helper()
	return fromJSON[struct{ Snowflake flakeStatus }](d.t, d.get("/api/status")).Snowflake
}

// eventuallyID is the answer of a mode that may still be starting.
func eventuallyID(t *testing.T, d *daemon, target string) (body string) {
	t.Helper()
	eventually(t, startLimit, "an ID of "+target, func() bool {
		a := d.get(target)
		body = a.body
		return a.status == 200
	})
	return body
}
