package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/latency"
	"shardid/service/metrics"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/snowflake"
	"shardid/service/uid"
	"shardid/service/worker"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reading has one duration of 1 ms and two beyond the last bound.
func reading() latency.Reading {
	var h latency.Histogram
	h.Observe(time.Millisecond)
	h.Observe(time.Minute)
	h.Observe(time.Minute)
	return h.Read()
}

// full has every source, each counter a value of its own.
func full() metrics.Sources {
	stores := metrics.NewStores()
	op := stores.Operation("redis", "pop")
	op.Done(time.Now(), nil)
	op.Done(time.Now(), fmt.Errorf("pop: %w", &model.StoreError{Store: "redis"}))
	op.Done(time.Now(), model.ErrLimitReached)
	return metrics.Sources{
		Version: "1.2.3", UnsafeNoHistory: true, Stores: stores,
		Queue: func() queue.Stats {
			return queue.Stats{
				Issued: 1, Pops: 2, Refills: 3, Purged: 5, OverLimit: 6, Repeated: 7, Lifts: 8, Dropped: 9,
				Discarded: queue.Discarded{History: 21, HighWater: 22, Full: 23, Failed: 24},
				Purges:    31, LiftAlarms: 32, Jumps: 33, Jumped: 34, Held: 35, Starved: 36, FailedPasses: 37, Passes: reading(),
			}
		},
		Apps: func() []queue.View {
			v := queue.View{App: 7, Name: "orders", Issued: 51, Refills: 52, Held: 53, Left: 0.25, Exhausted: 2, Unconfirmed: 3, Limit: model.Limit{MaxID: 9, Policy: model.LimitWrap}}
			v.Depths[0], v.Depths[1], v.Depths[2] = 100, 40, -1
			for i := 3; i < model.Shards; i++ {
				v.Depths[i] = 1000
			}
			unknown := queue.View{App: 8, Left: 1, Unconfirmed: 1}
			for i := range unknown.Depths {
				unknown.Depths[i] = -1
			}
			return []queue.View{v, unknown}
		},
		Conditions: func() []model.Condition { return []model.Condition{{Name: "redis", OK: true}, {Name: "database"}} },
		Answers:    func() map[int]int64 { return map[int]int64{0: 10, -4: 11} },
		Traffic: func() map[string]metrics.Traffic {
			return map[string]metrics.Traffic{"queue": {OK: reading(), Codes: map[int]int64{-4: 61, -12: 0}}}
		},
		Connections: func() metrics.Connections { return metrics.Connections{Open: 61, Refused: 62, Failed: 63} },
		Settings: func() []model.Finding {
			return []model.Finding{{Level: model.LevelUnsafe}, {Level: model.LevelOK}, {Level: model.LevelOK}}
		},
		Segment: &metrics.Segment{
			Stats: func() segment.Stats {
				return segment.Stats{Issued: 1, Loads: 2, FailedLoads: 3, Waits: 4, Refused: 5, Wasted: 6, Repeated: 7, Lifts: 8, Starved: 12, LoadTimes: reading()}
			},
			Views: func() []segment.View {
				return []segment.View{{Name: "orders", InitOK: true, Held: 9, Runway: 10}, {Name: "never used", Held: 11}}
			},
		},
		Snowflake: func() metrics.Snowflake {
			return metrics.Snowflake{
				Stats:     snowflake.Stats{Issued: 21, Refused: 22, Wasted: 23, Waits: 24},
				Worker:    worker.Status{WorkerID: 25, Trust: 26 * time.Second, State: worker.StateOffline, ClockOffset: -27 * time.Millisecond},
				MaxOffset: 5 * time.Second, Remaining: 28 * time.Hour,
			}
		},
		UID: func() metrics.UID {
			return metrics.UID{
				Stats:  uid.Stats{Issued: 31, Refused: 32, Dropped: 33, Discarded: 34, Nodes: 35},
				Status: uid.Status{WorkerID: 36, RingSize: 37, RingFill: 38, AheadSeconds: -39, RunwaySeconds: 40, RemainingSeconds: 41},
			}
		},
	}
}

// scrape is what Prometheus reads.
func scrape(t *testing.T, s metrics.Sources) string {
	t.Helper()
	body, err := metrics.Text(s)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestTextShowsEverything(t *testing.T) {
	body := scrape(t, full())
	for _, want := range []string{
		"shardid_connections 61", "shardid_connections_refused_total 62", "shardid_accept_errors_total 63",
		"shardid_queue_issued_total 1", "shardid_queue_pops_total 2", "shardid_queue_refills_total 3",
		`shardid_queue_wasted_indices_total{reason="history"} 21`, `shardid_queue_wasted_indices_total{reason="high_water"} 22`,
		`shardid_queue_wasted_indices_total{reason="full"} 23`, `shardid_queue_wasted_indices_total{reason="failed"} 24`,
		`shardid_queue_wasted_indices_total{reason="purged"} 5`, `shardid_queue_wasted_indices_total{reason="over_limit"} 6`,
		`shardid_queue_wasted_indices_total{reason="dropped"} 9`, `shardid_queue_wasted_indices_total{reason="jumped"} 34`,
		"shardid_queue_purged_lists_total 31", "shardid_queue_lift_alarms_total 32", "shardid_queue_incarnation_jumps_total 33",
		"shardid_queue_repeated_indices_total 7", "shardid_queue_lifts_total 8", "shardid_queue_held_ids 35",
		"shardid_queue_starved_total 36", "shardid_queue_failed_passes_total 37",
		`shardid_queue_refill_pass_seconds_bucket{le="0.0005"} 0`, `shardid_queue_refill_pass_seconds_bucket{le="0.001"} 1`,
		`shardid_queue_refill_pass_seconds_bucket{le="5"} 1`, `shardid_queue_refill_pass_seconds_bucket{le="+Inf"} 3`,
		"shardid_queue_refill_pass_seconds_sum 120.001", "shardid_queue_refill_pass_seconds_count 3",
		`shardid_queue_app_issued_total{app="7"} 51`, `shardid_queue_app_refills_total{app="7"} 52`, `shardid_queue_app_held_ids{app="7"} 53`,
		`shardid_queue_app_depth_indices{app="7"} 61140`, `shardid_queue_app_depth_min_indices{app="7"} 40`,
		`shardid_queue_app_depth_indices{app="8"} 0`, `shardid_queue_app_depth_min_indices{app="8"} -1`,
		`shardid_queue_app_left_ratio{app="7"} 0.25`, `shardid_queue_app_exhausted_lists{app="7"} 2`,
		"shardid_queue_unconfirmed_lists 4", "shardid_queue_wrap_apps 1",
		`shardid_condition_ok{name="redis"} 1`, `shardid_condition_ok{name="database"} 0`,
		`shardid_http_answers_total{code="0"} 10`, `shardid_http_answers_total{code="-4"} 11`,
		`shardid_refused_total{code="-4",mode="queue"} 61`, `shardid_refused_total{code="-12",mode="queue"} 0`,
		`shardid_request_duration_seconds_count{mode="queue",outcome="ok"} 3`, `shardid_request_duration_seconds_count{mode="queue",outcome="failed"} 0`,
		`shardid_store_operation_seconds_count{operation="pop",store="redis"} 3`, `shardid_store_errors_total{operation="pop",store="redis"} 1`,
		`shardid_store_settings{level="ok"} 2`, `shardid_store_settings{level="unsafe"} 1`, `shardid_store_settings{level="warn"} 0`,
		`shardid_build_info{version="1.2.3"} 1`, "shardid_unsafe_no_history 1", "go_goroutines", "process_resident_memory_bytes",
		"shardid_segment_issued_total 1", "shardid_segment_loads_total 2", "shardid_segment_failed_loads_total 3",
		"shardid_segment_waits_total 4", "shardid_segment_refused_total 5", "shardid_segment_wasted_total 6",
		"shardid_segment_repeated_total 7", "shardid_segment_lifts_total 8", "shardid_segment_starved_total 12", "shardid_segment_load_seconds_count 3",
		`shardid_segment_held_ids{tag="orders"} 9`, `shardid_segment_runway_seconds{tag="orders"} 10`,
		"shardid_snowflake_issued_total 21", "shardid_snowflake_refused_total 22", "shardid_snowflake_wasted_total 23",
		"shardid_snowflake_waits_total 24", "shardid_snowflake_worker_id 25", "shardid_snowflake_lease_trust_seconds 26",
		"shardid_snowflake_offline 1", `shardid_snowflake_lease_state{state="offline"} 1`, `shardid_snowflake_lease_state{state="serving"} 0`,
		`shardid_snowflake_lease_state{state="waiting"} 0`, "shardid_snowflake_clock_offset_seconds -0.027",
		"shardid_snowflake_clock_offset_limit_seconds 5", "shardid_snowflake_lifetime_seconds 100800",
		"shardid_uid_issued_total 31", "shardid_uid_refused_total 32", "shardid_uid_dropped_total 33", "shardid_uid_discarded_total 34",
		"shardid_uid_nodes_total 35", "shardid_uid_worker_id 36", "shardid_uid_ring_size 37", "shardid_uid_ring_fill 38",
		"shardid_uid_ahead_seconds -39", "shardid_uid_runway_seconds 40", "shardid_uid_lifetime_seconds 41",
	} {
		if !strings.Contains(body, "\n"+want+"\n") && !strings.Contains(body, "\n"+want+" ") {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(body, "never used") {
		t.Error("a tag that this replica never used has metrics")
	}
}

// Tags come from a table of any size and may have any name: the series stay few, and
// none makes a scrape fail.
func TestTagsAreBounded(t *testing.T) {
	for name, tags := range map[string][]string{
		"many":          manyTags(5000),
		"one is other":  append([]string{"other"}, manyTags(150)...),
		"not UTF-8":     {"a\xff", "a\xfe", "b"},
		"quotes, lines": {"a\"b\\c", "d\ne"},
	} {
		s := full()
		s.Segment.Views = func() (views []segment.View) {
			for i, tag := range tags {
				views = append(views, segment.View{Name: tag, InitOK: true, Held: 1, Runway: float64(10000 - i)})
			}
			return views
		}
		held, runway, sum := 0, 0, 0.0
		for line := range strings.Lines(scrape(t, s)) {
			if strings.HasPrefix(line, "shardid_segment_held_ids{") {
				var n float64
				if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err != nil {
					t.Fatal(err)
				}
				held, sum = held+1, sum+n
			}
			if strings.HasPrefix(line, "shardid_segment_runway_seconds{") {
				runway++
			}
		}
		if held > 101 || held != runway || int(sum) != len(tags) {
			t.Errorf("%s: %d series of %v IDs, %d of runways", name, held, sum, runway)
		}
	}
	s := full()
	s.Segment.Views = func() []segment.View {
		views := []segment.View{}
		for i, tag := range manyTags(103) { // of other: 449, 501, 450
			views = append(views, segment.View{Name: tag, InitOK: true, Held: 1, Runway: []float64{501, 450, 449}[(i+1)%3]})
		}
		return views
	}
	if body := scrape(t, s); !strings.Contains(body, "\nshardid_segment_runway_seconds{tag=\"other\"} 449\n") {
		t.Error("other does not last as long as the shortest of it")
	}
}

func manyTags(n int) (tags []string) {
	for i := range n {
		tags = append(tags, fmt.Sprintf("tag%05d", i))
	}
	return tags
}

// The modes that are disabled have no metrics.
func TestDisabledModes(t *testing.T) {
	s := full()
	s.Segment, s.Snowflake, s.UID = nil, nil, nil
	for line := range strings.Lines(scrape(t, s)) {
		for _, mode := range []string{"segment", "snowflake", "uid"} {
			if strings.HasPrefix(line, "shardid_"+mode) {
				t.Error(line)
			}
		}
	}
}
