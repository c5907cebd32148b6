//go:build unix

package bench

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"shardid/client"
	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/prometheus/procfs"
)

// deployment is a MariaDB and a Redis with three apps, a tag and a space of sequences. What holds much ahead for one
// way of asking would spare calls to Redis to another one: so each has its app.
type deployment struct {
	settings rig.Settings
	dsn      string
	redis    *testserver.RedisServer
}

const (
	// getPath asks for an ID of app 1, whose step is that of many deployments.
	getPath = "/get?appId=1&gatePass=%s"
	// refilledPath asks for one of app 4, each of whose lists needs its small step every second or two.
	refilledPath = "/get?appId=4&gatePass=%s"
	smallStep    = 250
	// chatPath asks for a number of a key.
	chatPath = "/v1/sequence/chat/ids?key=%s"
)

func (c *comparison) deploy() deployment {
	d := deployment{redis: testserver.Redis(c.t), dsn: testserver.MariaDB(c.t).NewDatabase(c.t)}
	d.settings = rig.Settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": d.dsn,
		"REDIS_URL": "redis://" + d.redis.Addr, "RESP_ADDR": "127.0.0.1:0"}
	for _, args := range [][]string{
		{"migrate"},
		{"provision", "--app", "1", "--name", "one at a time", "--step", "1000"},
		{"provision", "--app", "3", "--name", "over RESP", "--step", "100000"},
		{"provision", "--app", "4", "--name", "often refilled", "--step", strconv.Itoa(smallStep)},
		{"tags", "add", "--tag", "orders", "--step", "1000"},
		{"spaces", "add", "--space", "chat"},
	} {
		c.run(d, args...)
	}
	return d
}

// run runs a command of shardid to its end.
func (c *comparison) run(d deployment, args ...string) {
	c.t.Helper()
	out, err := d.settings.Command(c.t.TempDir(), c.shardid, args...).CombinedOutput()
	check.OK(c.t, err, "shardid", args, string(out))
}

// serve starts a server on the core of the servers and returns when it listens.
func (c *comparison) serve(env rig.Settings, words ...string) *rig.Process {
	dir := c.t.TempDir()
	if len(c.cores) > 0 {
		words = c.onCores(c.cores[:1], words...)
	}
	cmd := env.With(rig.Settings{"GOMAXPROCS": "1"}).Command(dir, words[0], words[1:]...)
	p := rig.Start(c.t, cmd, filepath.Join(dir, "log"))
	p.Listens()
	return p
}

// serveShardid starts a replica, or an embedded service without settings, and returns when it gives an ID of app 1.
func (c *comparison) serveShardid(env rig.Settings, flags ...string) *rig.Process {
	p := c.serve(env, append([]string{c.shardid, "serve", "--set", "server.addr=127.0.0.1:0"}, flags...)...)
	c.awaitID(p, getPath)
	return p
}

// serveFilled starts a replica and returns when it has filled all lists.
func (c *comparison) serveFilled(d deployment, lists int) *rig.Process {
	p := c.serveShardid(d.settings)
	rig.Until(c.t, 3*time.Minute, "all lists are filled", func() error {
		if n := c.refills(p); n < lists {
			time.Sleep(50 * time.Millisecond)
			return fmt.Errorf("%d of %d", n, lists)
		}
		return nil
	})
	return p
}

func (c *comparison) refills(p *rig.Process) int {
	text, err := get(p, "/metrics")
	check.Must(c.t, err)
	return int(rig.Metric(c.t, text, "shardid_queue_refills_total"))
}

func (c *comparison) awaitID(p *rig.Process, ask string) {
	c.t.Helper()
	rig.Until(c.t, time.Minute, "the first ID", func() error { return check.Err(get(p, fmt.Sprintf(ask, "alice"))) })
}

// get is an ordinary request, for a page or an ID.
func get(p *rig.Process, path string) (string, error) {
	resp, err := http.Get("http://" + p.Listens() + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// servers compares over HTTP and RESP, first as fast as they can and then all at one rate.
func (c *comparison) servers() {
	d := c.deploy()
	own := c.serveFilled(d, 3*64)
	c.awaitID(own, chatPath)
	embedded := c.serveShardid(nil, "--demo")
	bare := c.serve(nil, c.contender, "gin")
	plain := c.serve(nil, c.contender, "redis", d.redis.Addr)

	contenders := []contender{
		c.asking("bare Gin", bare, getPath, 1, 1),
		c.asking("/get", own, getPath, 1, 1),
		c.asking("plain LPOP", plain, getPath, 1, 1),
		c.asking("segment", own, "/api/segment/get/orders", 1, 1),
		c.asking("snowflake", own, "/api/snowflake/get/bench", 1, 1),
		c.asking("UID", own, "/api/uid/get", 1, 1),
		c.asking("count=100", embedded, getPath+"&count=100", 1, 100),
		c.asking("sequence", own, chatPath, 1, 1),
		c.asking("plain INCR", plain, chatPath, 1, 1),
		c.asking("RESP", own, "INCR queue:3:%s", 1, 1),
		c.asking("RESP pipelined", own, "INCR queue:3:%s", 16, 1),
		c.asking("RESP LPOP", own, "LPOP queue:3:%s 100", 1, 100),
		c.asking("RESP sequence", own, "INCR sequence:chat:%s", 1, 1),
		c.asking("RESP sequence pipelined", own, "INCR sequence:chat:%s", 16, 1),
		{"Go client", func() figures { return c.drawByClient(embedded) }}, // where no segment.max_rate bounds a tag
	}
	contenders[1].run = c.countingCalls(d, contenders[1].run)
	rounds := c.rounds
	if c.full {
		rounds = 11 // short ones, as the speed of the machine changes
	}
	c.contest("servers", rounds, contenders)
	slow := rig.Settings{"QUEUE_MAX_LIST_RATE": strconv.Itoa(smallStep)}
	c.latencies(d, own, bare, plain, c.serveShardid(d.settings.With(slow)))
}

const warmup = 200 * time.Millisecond

// asking measures a server that is asked as fast as it answers: its speed, its latencies and its CPU time.
func (c *comparison) asking(name string, p *rig.Process, ask string, pipeline, ids int) contender {
	return contender{name, func() figures {
		before := c.cpu(p)
		got := newLoad(addressOf(p, ask), ask, pipeline, 0).run(c.t, warmup, c.load)
		got["CPU"] = (c.cpu(p) - before) / got["req/s"] // the warm-up is as fast as the rest
		got["IDs/s"] = got["req/s"] * float64(ids)
		return got
	}}
}

// addressOf is where a path, or a command of RESP, is asked for.
func addressOf(p *rig.Process, ask string) string {
	if ask[0] != '/' {
		return p.Said("listening for Redis clients")
	}
	return p.Listens()
}

// cpu is the time that a server has used, in seconds; 0 where the system does not tell.
func (c *comparison) cpu(p *rig.Process) float64 {
	proc, err := procfs.NewProc(p.Cmd.Process.Pid)
	if err != nil {
		return 0
	}
	stat, err := proc.Stat()
	check.Must(c.t, err)
	return stat.CPUTime()
}

// cpuOfRedis is the time that Redis has used, in seconds.
func (d deployment) cpuOfRedis(t *testing.T) float64 {
	t.Helper()
	used, err := d.redis.Client().InfoMap(t.Context(), "cpu").Result()
	check.Must(t, err)
	var system, user float64
	_, err = fmt.Sscan(used["CPU"]["used_cpu_sys"]+" "+used["CPU"]["used_cpu_user"], &system, &user)
	check.Must(t, err)
	return system + user
}

// countingCalls adds how many IDs a call to Redis brought. Each call of shardid is a script; those of the plain service
// are not.
func (c *comparison) countingCalls(d deployment, run func() figures) func() figures {
	redis := d.redis.Client()
	calls := func() (n float64) {
		stats, err := redis.InfoMap(c.t.Context(), "commandstats").Result()
		check.Must(c.t, err)
		_, err = fmt.Sscanf(stats["Commandstats"]["cmdstat_evalsha"], "calls=%f", &n)
		check.Must(c.t, err)
		return n
	}
	return func() figures {
		before := calls()
		got := run()
		got["IDs/call"] = got["req/s"] * (warmup + c.load).Seconds() / (calls() - before)
		return got
	}
}

// drawByClient takes IDs of a tag one by one, as fast as one goroutine can.
func (c *comparison) drawByClient(p *rig.Process) figures {
	ids, err := client.New(client.Options{Addrs: []string{"http://" + p.Listens()}})
	check.Must(c.t, err)
	defer ids.Close()
	source, drawn := ids.Segment("orders"), 0
	draw := func(length time.Duration) {
		for end := time.Now().Add(length); time.Now().Before(end); drawn += 1000 {
			for range 1000 {
				if _, err := source.Next(c.t.Context()); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	draw(warmup)
	drawn = 0
	begun := time.Now()
	draw(c.load)
	return figures{"IDs/s": float64(drawn) / time.Since(begun).Seconds()}
}

// latencies are those of a load at one rate for all, far below what /get can do: what is seen is what happens inside a
// server, and not the queue before a busy one. It is at most three quarters of what the lists that are often refilled
// are allowed: above that they are empty.
func (c *comparison) latencies(d deployment, own, bare, plain, refilled *rig.Process) {
	speeds := c.of(goal{figure: "/get req/s"})
	rate := min(int(0.4*speeds[len(speeds)/2])/100*100, 64*smallStep*3/4)
	c.found["rate req/s"] = []float64{float64(rate)}
	at := func(name string, p *rig.Process, path string) contender {
		return contender{name + " at the rate", func() figures {
			before := c.cpu(p) + d.cpuOfRedis(c.t)
			got := newLoad(p.Listens(), path, 1, rate).run(c.t, time.Second, 5*c.load)
			got["CPU"] = (c.cpu(p) + d.cpuOfRedis(c.t) - before) / got["req/s"]
			return got
		}}
	}
	c.contest("at a rate", c.rounds, []contender{
		at("bare Gin", bare, getPath),
		at("/get", own, getPath),
		at("refilled", refilled, refilledPath),
		at("sequence", own, chatPath),
		at("plain INCR", plain, chatPath),
	})
	if n := c.refills(refilled); n < 128 {
		c.t.Errorf("%d refills of 64 lists, want two of each: the latency beside them says nothing", n)
	}
}
