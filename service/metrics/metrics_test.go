package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shardid/service/health"
	"shardid/service/metrics"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/snowflake"
	"shardid/service/uid"
	"shardid/service/worker"
)

func TestHandlerShowsEveryCounter(t *testing.T) {
	h := metrics.Handler(metrics.Sources{
		Version: "1.2.3", UnsafeNoHistory: true,
		Queue: func() queue.Stats {
			return queue.Stats{
				Issued: 1, Pops: 2, Refills: 3, Purged: 5, OverLimit: 6, Repeated: 7, Lifts: 8, Dropped: 9,
				Discarded: queue.Discarded{History: 21, HighWater: 22, Full: 23, Failed: 24},
				Purges:    31, LiftAlarms: 32, Jumps: 33, Jumped: 34,
			}
		},
		Conditions: func() []health.Condition { return []health.Condition{{Name: "redis", OK: true}, {Name: "database"}} },
		Answers:    func() map[int]int64 { return map[int]int64{0: 10, -4: 11} },
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		"shardid_queue_issued_total 1", "shardid_queue_pops_total 2", "shardid_queue_refills_total 3",
		`shardid_queue_discarded_indices_total{reason="history"} 21`, `shardid_queue_discarded_indices_total{reason="high_water"} 22`,
		`shardid_queue_discarded_indices_total{reason="full"} 23`, `shardid_queue_discarded_indices_total{reason="failed"} 24`,
		"shardid_queue_purged_lists_total 31", "shardid_queue_lift_alarms_total 32",
		"shardid_queue_incarnation_jumps_total 33", "shardid_queue_jumped_indices_total 34",
		"shardid_queue_purged_indices_total 5",
		"shardid_queue_over_limit_indices_total 6", "shardid_queue_repeated_indices_total 7",
		"shardid_queue_lifts_total 8", "shardid_queue_dropped_indices_total 9",
		`shardid_condition_ok{name="redis"} 1`, `shardid_condition_ok{name="database"} 0`,
		`shardid_http_answers_total{code="0"} 10`, `shardid_http_answers_total{code="-4"} 11`,
		`shardid_build_info{version="1.2.3"} 1`, "shardid_unsafe_no_history 1", "go_goroutines",
	} {
		if !strings.Contains(w.Body.String(), "\n"+want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestHandlerShowsTheOtherModes(t *testing.T) {
	h := metrics.Handler(metrics.Sources{
		Queue: func() queue.Stats { return queue.Stats{} }, Conditions: func() []health.Condition { return nil },
		Answers: func() map[int]int64 { return nil },
		Segment: &metrics.Segment{
			Stats: func() segment.Stats {
				return segment.Stats{Issued: 1, Loads: 2, FailedLoads: 3, Waits: 4, Refused: 5, Wasted: 6, Repeated: 7, Lifts: 8}
			},
			Views: func() []segment.View {
				return []segment.View{{Name: "orders", InitOK: true, Held: 9, Runway: 10}, {Name: "never used", Held: 11}}
			},
		},
		Snowflake: func() metrics.Snowflake {
			return metrics.Snowflake{
				Stats:     snowflake.Stats{Issued: 21, Refused: 22, Wasted: 23, Waits: 24},
				Worker:    worker.Status{WorkerID: 25, Trust: 26 * time.Second, State: worker.StateOffline, ClockOffset: -27 * time.Millisecond},
				Remaining: 28 * time.Hour,
			}
		},
		UID: func() metrics.UID {
			return metrics.UID{
				Stats:  uid.Stats{Issued: 31, Refused: 32, Dropped: 33, Discarded: 34, Nodes: 35},
				Status: uid.Status{WorkerID: 36, RingSize: 37, RingFill: 38, AheadSeconds: -39, RunwaySeconds: 40, RemainingSeconds: 41},
			}
		},
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		"shardid_segment_issued_total 1", "shardid_segment_loads_total 2", "shardid_segment_failed_loads_total 3",
		"shardid_segment_waits_total 4", "shardid_segment_refused_total 5", "shardid_segment_wasted_total 6",
		"shardid_segment_repeated_total 7", "shardid_segment_lifts_total 8",
		`shardid_segment_held_ids{tag="orders"} 9`, `shardid_segment_runway_seconds{tag="orders"} 10`,
		"shardid_snowflake_issued_total 21", "shardid_snowflake_refused_total 22", "shardid_snowflake_wasted_total 23",
		"shardid_snowflake_waits_total 24", "shardid_snowflake_worker_id 25", "shardid_snowflake_lease_trust_seconds 26",
		"shardid_snowflake_offline 1", "shardid_snowflake_clock_offset_seconds -0.027", "shardid_snowflake_lifetime_seconds 100800",
		"shardid_uid_issued_total 31", "shardid_uid_refused_total 32", "shardid_uid_dropped_total 33", "shardid_uid_discarded_total 34",
		"shardid_uid_nodes_total 35", "shardid_uid_worker_id 36", "shardid_uid_ring_size 37", "shardid_uid_ring_fill 38",
		"shardid_uid_ahead_seconds -39", "shardid_uid_runway_seconds 40", "shardid_uid_lifetime_seconds 41",
	} {
		if !strings.Contains(w.Body.String(), "\n"+want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(w.Body.String(), "never used") {
		t.Error("a tag that this replica never used has metrics")
	}
}
