package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shardid/service/health"
	"shardid/service/metrics"
	"shardid/service/queue"
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
