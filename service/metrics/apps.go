package metrics

import (
	"slices"
	"strconv"

	"shardid/model"
	"shardid/service/queue"

	"github.com/prometheus/client_golang/prometheus"
)

// apps shows each app of the queue mode: 256 at most.
type apps struct {
	views       func() []queue.View
	perApp      []number[queue.View]
	unconfirmed *prometheus.Desc
	wrap        *prometheus.Desc
}

func newApps(views func() []queue.View) *apps {
	a := &apps{
		views:       views,
		unconfirmed: prometheus.NewDesc("shardid_queue_unconfirmed_lists", "Lists that take no segment before an operator confirms their max_id.", nil, nil),
		wrap:        prometheus.NewDesc("shardid_queue_wrap_apps", "Apps with the wrap policy, whose IDs repeat once they pass the limit.", nil, nil),
	}
	counter, gauge := prometheus.CounterValue, prometheus.GaugeValue
	a.add("issued_total", "IDs of the app given to callers.", counter, func(v queue.View) float64 { return float64(v.Issued) })
	a.add("refills_total", "Segments of the app pushed.", counter, func(v queue.View) float64 { return float64(v.Refills) })
	a.add("held_ids", "IDs of the app that this replica holds ahead of its callers.", gauge, func(v queue.View) float64 { return float64(v.Held) })
	a.add("depth_indices", "Indices in the app's lists, as this replica last saw each: at most queue.refill_cron ago.", gauge, func(v queue.View) float64 { return float64(sum(v.Depths)) })
	a.add("depth_min_indices", "Indices in the shortest of the app's lists, seen likewise; -1 when none was seen.", gauge, func(v queue.View) float64 { return float64(least(v.Depths)) })
	a.add("left_ratio", "Share of its indices that the shard with the fewest can still allocate, 0 to 1.", gauge, func(v queue.View) float64 { return v.Left })
	a.add("exhausted_lists", "Shards of the app that have nothing more to give under its limit.", gauge, func(v queue.View) float64 { return float64(v.Exhausted) })
	return a
}

func (a *apps) add(name, help string, kind prometheus.ValueType, value func(queue.View) float64) {
	a.perApp = append(a.perApp, number[queue.View]{prometheus.NewDesc("shardid_queue_app_"+name, help, []string{"app"}, nil), kind, value})
}

// Describe implements prometheus.Collector.
func (a *apps) Describe(out chan<- *prometheus.Desc) {
	for _, m := range a.perApp {
		out <- m.desc
	}
	out <- a.unconfirmed
	out <- a.wrap
}

// Collect implements prometheus.Collector.
func (a *apps) Collect(out chan<- prometheus.Metric) {
	unconfirmed, wrap := 0, 0
	for _, v := range a.views() {
		for _, m := range a.perApp {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(v), strconv.Itoa(int(v.App)))
		}
		unconfirmed += v.Unconfirmed
		if v.Policy == model.LimitWrap {
			wrap++
		}
	}
	out <- prometheus.MustNewConstMetric(a.unconfirmed, prometheus.GaugeValue, float64(unconfirmed))
	out <- prometheus.MustNewConstMetric(a.wrap, prometheus.GaugeValue, float64(wrap))
}

// sum is that of the depths that are known.
func sum(depths [model.Shards]int64) (n int64) {
	for _, d := range depths {
		n += max(d, 0)
	}
	return n
}

// least is the lowest depth that is known, -1 when none is.
func least(depths [model.Shards]int64) int64 {
	known := slices.DeleteFunc(depths[:], func(d int64) bool { return d < 0 })
	if len(known) == 0 {
		return -1
	}
	return slices.Min(known)
}
