package observe

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/clockid"
	"shardid/service/guard"
	"shardid/service/httpapi"
	"shardid/service/issuer"
	"shardid/service/monitor"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/sequence"
	"shardid/service/uid"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	names "github.com/prometheus/common/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// full is a registry and a state with everything, each counter with a value of its own.
func full() (*prometheus.Registry, monitor.State) {
	registry := prometheus.NewRegistry()
	stores := NewStores(nil, registry)
	guard.New(guard.Limits{}, nil, registry)
	watch := monitor.New(slog.New(slog.DiscardHandler), registry, func() (s monitor.State) {
		s.Queue.Apps = []queue.View{{Left: 1, Limit: model.Limit{Policy: model.LimitWrap}}}
		return s
	})
	registry.MustRegister(watch)
	watch.Report("redis", nil)
	watch.Report("database", errors.New("away"))
	watch.Alarms()
	issuer.NewTraffic(registry, model.ModeQueue)
	httpapi.New(httpapi.Options{Registry: registry})
	leafs := model.SnowflakeLayout(0, model.LeafWorkerBits, model.LeafSeqBits)
	now := func() (int64, time.Duration) { return 1_800_000_000_000_000_000, 0 }
	flakes, _ := idgen.New(idgen.Snowflakes(leafs, now)) // a layout that is good
	clockid.NewSnowflakes(flakes, 0, nil, registry)
	sequence.New(sequence.Options{Registry: registry})
	segment.New(segment.Options{Registry: registry})
	_, _ = queue.New(queue.Options{RefillCron: "@hourly", ReloadCron: "@hourly", Registry: registry,
		Log: slog.New(slog.DiscardHandler)})
	stores.took.WithLabelValues("redis", "pop").Observe(0.003)
	stores.took.WithLabelValues("redis", "pop").Observe(60)
	stores.failed.WithLabelValues("redis", "pop").Inc()
	apps := []queue.View{{
		App: 7, Name: "orders", Issued: 51, Refills: 52, Held: 53, Left: 0.25, Exhausted: 2, Unconfirmed: 3,
		Limit: model.Limit{MaxID: 9, Policy: model.LimitWrap},
	}, {App: 8, Left: 1, Unconfirmed: 1}}
	known, unknown := &apps[0].Depths, &apps[1].Depths
	for i := range model.Shards {
		known[i], unknown[i] = 1000, -1
	}
	known[0], known[1], known[2] = 100, 40, -1
	s := monitor.State{Worker: worker.Status{WorkerID: 25, Trust: 26 * time.Second, State: worker.StateOffline}}
	s.Version, s.Queue.Apps, s.Snowflake = "1.2.3", apps, &monitor.SnowflakeStatus{}
	s.UID = &uid.Status{
		Issued: 31, Refused: 32, Dropped: 33, WorkerID: 36, RingSize: 37, RingFill: 38, AheadSeconds: -39,
		RunwaySeconds: 40, RemainingSeconds: 41,
	}
	return registry, s
}

// text is what Prometheus reads.
func text(t *testing.T) string {
	t.Helper()
	registry, state := full()
	all, w := Gatherer(registry, func() monitor.State { return state },
		func() *uid.Status { return state.UID }), httptest.NewRecorder()
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	check.Equal(t, w.Code, http.StatusOK, w.Body)
	return w.Body.String()
}

// Every source is exported, with its value, and nothing else of ours is. The buckets of one
// histogram stand for those of all.
func TestText(t *testing.T) {
	var ours strings.Builder
	body := text(t)
	for line := range strings.Lines(body) {
		buckets := strings.Contains(line, "_bucket{") && !strings.Contains(line, "store_operation")
		if strings.HasPrefix(line, "shardid_") && !buckets {
			ours.WriteString(line)
		}
	}
	check.Made(t, "testdata/metrics.txt", ours.String())
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		check.Has(t, body, "\n"+name+" ", name)
	}
}

// The table of docs/monitoring.md has every metric of ours, as a scrape shows it.
func TestReferences(t *testing.T) {
	parser := expfmt.NewTextParser(names.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text(t)))
	check.Must(t, err)
	table := "| metric | type | labels | what it is |\n|---|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		if !strings.HasPrefix(name, "shardid_") {
			continue
		}
		if help := f.GetHelp(); len(help) < 10 || !strings.HasSuffix(help, ".") && !strings.Contains(help, ": ") {
			t.Errorf("%s: the help %q is no sentence", name, help)
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n",
			name, strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	check.MadePart(t, "../../docs/monitoring.md", "metrics", table)
}

// TestDeployedMetrics: each metric that the dashboard and the alerts name is exported.
func TestDeployedMetrics(t *testing.T) {
	exported := text(t)
	for _, file := range []string{"grafana/shardid.json", "prometheus/alerts.yml"} {
		raw, err := os.ReadFile("../../deploy/" + file)
		check.Must(t, err)
		names := regexp.MustCompile(`shardid_\w+`).FindAllString(string(raw), -1)
		if len(names) < 3 {
			t.Errorf("%s names %q", file, names)
		}
		for _, name := range names {
			if !regexp.MustCompile(`(?m)^` + name + `[ {]`).MatchString(exported) {
				t.Errorf("%s: nothing exports %s", file, name)
			}
		}
	}
}
