//go:build unix

package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// status is what these stories read of /api/status.
type status struct {
	Alarms []struct {
		Name, Severity, Message string
		Since                   time.Time
	}
	Queue struct {
		Issued, Held, Pops, Refills int64
		Wasted                      map[string]int64
		Apps                        []struct {
			AppID           int
			Issued, Refills int64
			IssuedPerSecond float64
			LeftShare       float64
			Exhausted       int
			HighestIndex    int64
			Depths          []int64
		}
	}
}

func (d *daemon) status() status {
	d.t.Helper()
	return fromJSON[status](d.t, d.want("/api/status", 200, 0))
}

// alarms are the names of those that are on.
func (d *daemon) alarms() (names []string) {
	d.t.Helper()
	for _, a := range d.status().Alarms {
		names = append(names, a.Name)
	}
	return names
}

// alarm waits until the alarm is on, or off, and gives since when.
func (d *daemon) alarm(name string, on bool) (since time.Time) {
	d.t.Helper()
	eventually(d.t, 20*time.Second, fmt.Sprintf("alarm %s is on: %t", name, on), func() bool {
		since = time.Time{}
		for _, a := range d.status().Alarms {
			if a.Name == name {
				since = a.Since
			}
		}
		return since.IsZero() != on
	})
	return since
}

// TestAlarmsOfRealStores: what goes wrong with the stores, and with the limits of apps,
// is an alarm until it is over, and Prometheus can see the same.
func TestAlarmsOfRealStores(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn, rdb := migrated(t), testserver.Redis(t)
	on := onMariaDB(dsn).With(onRedis(rdb.Addr)).With(settings{"QUEUE_RELOAD_CRON": "*/1 * * * * *", "QUEUE_TIMEOUT": "200ms"})
	must(t, on, "provision", "--app", "1", "--name", "orders")
	small := model.ListKey{App: 2}.Compose(3)
	must(t, on, "provision", "--app", "2", "--name", "small", "--step", "2", "--max-limit-id", fmt.Sprint(small))
	must(t, on, "provision", "--app", "3", "--name", "round", "--max-limit-id", fmt.Sprint(int64(1)<<40), "--limit-policy", "wrap")
	d := serve(t, on)
	eventually(t, startLimit, "it serves", func() bool { return d.get("/get?appId=1&gatePass=alice").status == 200 })

	d.alarm("ShardidWrapApp", true)
	for range 3 {
		eventually(t, startLimit, "a slow machine serves", func() bool { return d.get("/get?appId=2&gatePass=alice").status == 200 })
	}
	d.want("/get?appId=2&gatePass=alice", 409, -5)
	since := d.alarm("ShardidLimitReached", true)
	time.Sleep(1100 * time.Millisecond)
	if again := d.alarm("ShardidLimitReached", true); again != since {
		t.Errorf("since %v, then %v", since, again)
	}
	if m := d.get("/metrics").body; !strings.Contains(m, "\nshardid_queue_app_exhausted_lists{app=\"2\"} 1\n") || !strings.Contains(m, "\nshardid_alarm{name=\"ShardidWrapApp\",severity=\"info\"} 1\n") {
		t.Error("the metrics do not say so")
	}
	query(t, dsn, "UPDATE id_alloc SET max_limit_id = 0, step = 1000 WHERE app_id = 2")
	d.alarm("ShardidLimitReached", false)

	rdb.Kill()
	eventually(t, 20*time.Second, "starved", func() bool { return d.get("/get?appId=1&gatePass=nobody&count=9000").Code == -4 })
	d.alarm("ShardidStoreAway", true)
	d.alarm("ShardidStarved", true)
	if names := d.alarms(); slices.Contains(names, "ShardidConditionFailing") || slices.Contains(names, "ShardidRefillFailing") {
		t.Errorf("what follows from a store that is away is an alarm too: %v", names)
	}
	m := d.get("/metrics").body
	if !regexp.MustCompile(`\nshardid_store_errors_total\{operation="pop",store="redis"\} [1-9]`).MatchString(m) ||
		!strings.Contains(m, "\nshardid_condition_ok{name=\"redis\"} 0\n") || !regexp.MustCompile(`\nshardid_queue_starved_total [1-9]`).MatchString(m) {
		t.Error("the metrics do not say that Redis is away")
	}
	rdb.Restart()
	d.alarm("ShardidStoreAway", false)
}
