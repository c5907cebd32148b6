//go:build unix

package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// deployment is a private Redis and MariaDB, and what shardid needs to use them.
type deployment struct {
	redis *testserver.RedisServer
	db    *testserver.MariaDBServer
	dsn   string
}

const tag = "leaf-segment-test" // what the load asks the segment mode for

// deploy starts the stores on the core of the load, and provisions apps, given by
// their step, and the tag.
func (s *suite) deploy(t *testing.T, steps map[uint8]int64) (d deployment) {
	t.Helper()
	s.onLoadCore(t, func() { d.redis, d.db = testserver.Redis(t), testserver.MariaDB(t) })
	d.dsn = d.db.NewDatabase(t)
	withDatabase(t, d.dsn, func(ctx context.Context, db *sqlstore.Store) error {
		if err := db.Migrate(ctx, func(string) {}); err != nil {
			return err
		}
		for id, step := range steps {
			app := model.App{ID: id, Name: fmt.Sprint("app ", id), Step: step, Limit: model.Limit{Policy: model.LimitReject}}
			if _, err := db.CreateApp(ctx, app); err != nil {
				return err
			}
		}
		_, err := db.CreateTag(ctx, model.Tag{Name: tag, MaxID: 1, Step: 1000})
		return err
	})
	return d
}

func withDatabase(t *testing.T, dsn string, use func(context.Context, *sqlstore.Store) error) {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Driver: sqlstore.MySQL, DSN: dsn})
	check.Must(t, err)
	defer db.Close()
	check.Must(t, use(t.Context(), db))
}

// settings are shardid's.
func (d deployment) settings() settings {
	return settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": d.dsn, "REDIS_MODE": "single", "REDIS_ADDRS": d.redis.Addr}
}

// shardid starts the service, pinned, and returns when it issues IDs of that app.
func (s *suite) serveShardid(t *testing.T, env settings, app int, args ...string) (d *daemon) {
	t.Helper()
	env = env.With(settings{"SERVER_PPROF_ADDR": "127.0.0.1:0", "GOMAXPROCS": s.procs()})
	s.onServerCore(t, func() {
		d = serve(t, env, s.shardid, append([]string{"serve", "--set", "server.addr=127.0.0.1:0"}, args...)...)
	})
	rig.Until(t, startLimit, "shardid issues IDs", func() error { return answers(d.url + queuePath(app, "alice")) })
	return d
}

func queuePath(app int, pass string) string {
	return fmt.Sprintf("/get?appId=%d&gatePass=%s", app, pass)
}

// answers is nil when a GET is answered with 200.
func answers(url string) error {
	_, err := get(url)
	return err
}

// client gives up sooner than a mode's timeout plus some.
var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128, IdleConnTimeout: time.Second}}

func get(url string) ([]byte, error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// metric reads one that has no label.
func (d *daemon) metric(name string) float64 {
	d.t.Helper()
	body, err := get(d.url + "/metrics")
	check.Must(d.t, err)
	return rig.Metric(d.t, string(body), name)
}

// inScripts are the commands that shardid's scripts run inside Redis. Redis counts
// them like calls, which they are not.
func inScripts() []string {
	return []string{"info", "hmget", "hset", "hget", "llen", "lindex", "lpop", "ltrim", "rpush", "unlink", "time", "get", "del"}
}

// redisCalls is how many commands clients have sent.
func (d deployment) redisCalls(t *testing.T) float64 {
	t.Helper()
	c := d.redis.Client()
	defer c.Close()
	text, err := c.Info(t.Context(), "commandstats").Result()
	check.Must(t, err)
	return countCalls(text)
}

func countCalls(commandStats string) (calls float64) {
	scripted := strings.Contains(commandStats, "cmdstat_evalsha:")
	for line := range strings.Lines(commandStats) {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found || scripted && slices.Contains(inScripts(), name) {
			continue
		}
		n, _, _ := strings.Cut(rest, ",")
		if v, err := strconv.ParseFloat(n, 64); err == nil {
			calls += v
		}
	}
	return calls
}

// length is that of the list that serves a gatePass.
func (d deployment) length(t *testing.T, app uint8, pass string) int64 {
	t.Helper()
	c := d.redis.Client()
	defer c.Close()
	list := "id.gen.idList_" + model.ListKey{App: app, Shard: model.ShardOf(pass)}.String()
	n, err := c.LLen(t.Context(), list).Result()
	check.Must(t, err)
	return n
}

// profiled runs f and takes a CPU profile of d meanwhile, if that was asked for.
func (d *daemon) profiled(name string, length time.Duration, f func()) {
	d.t.Helper()
	if *profileFlag == "" {
		f()
		return
	}
	raw := d.cpuProfile(length, f)
	check.Must(d.t, os.MkdirAll(*profileFlag, 0o755))
	check.Must(d.t, os.WriteFile(filepath.Join(*profileFlag, strings.ReplaceAll(name, " ", "-")+".pprof"), raw, 0o600))
}

// cpuProfile runs f and takes a profile of d meanwhile, for a length in whole
// seconds.
func (d *daemon) cpuProfile(length time.Duration, f func()) []byte {
	d.t.Helper()
	addr := d.Said("profiles are served")
	type profile struct {
		raw []byte
		err error
	}
	taken := make(chan profile, 1)
	go func() {
		raw, err := get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, max(1, int(length.Seconds()))))
		taken <- profile{raw, err}
	}()
	f()
	p := <-taken
	if p.err != nil {
		d.t.Fatal(p.err)
	}
	return p.raw
}
