//go:build unix

// Package stories runs the shardid binary as its users do: processes, signals, HTTP, and real servers of
// databases, Redis, Sentinel, Cluster and ZooKeeper. It knows the contract and nothing of the code. A file is
// named after what a user gets, what happens to them, or what an operator gets, and a story after its subject.

package stories_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

func TestMain(m *testing.M) { rig.Main(m) }

// story is the first line of every story.
func story(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	t.Parallel()
	begun := time.Now()
	t.Cleanup(func() { t.Logf("story took %v", time.Since(begun).Round(10*time.Millisecond)) })
}

type (
	settings = rig.Settings
	ledger   = rig.Ledger
)

// plain is the series of a mode that is not the queue.
var plain = rig.List{App: -1}

var eventually = rig.Eventually

// command is a shardid that is not started yet, in a folder of its own.
func command(t *testing.T, dir string, s settings, args ...string) *exec.Cmd {
	t.Helper()
	return s.Command(dir, rig.Binary(t), args...)
}

// outcome is what a command left.
type outcome struct {
	exit           int
	stdout, stderr string // without the lines that administration leaves for an audit
}

// shardid runs a command to its end, in a folder of its own.
func shardid(t *testing.T, s settings, args ...string) outcome {
	t.Helper()
	return shardidIn(t, t.TempDir(), s, args...)
}

func shardidIn(t *testing.T, dir string, s settings, args ...string) outcome {
	t.Helper()
	cmd := command(t, dir, s, args...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	check.Must(t, cmd.Start())
	bound := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer bound.Stop()
	var failed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	o := outcome{exit: cmd.ProcessState.ExitCode(), stdout: stdout.String()}
	for line := range strings.Lines(stderr.String()) {
		if !strings.Contains(line, `"msg":"audit"`) {
			o.stderr += line
		}
	}
	return o
}

// must runs a command that has to succeed and gives its output.
func must(t *testing.T, s settings, args ...string) string {
	t.Helper()
	o := shardid(t, s, args...)
	if o.exit != 0 || o.stderr != "" {
		t.Fatalf("shardid %s: %+v", strings.Join(args, " "), o)
	}
	return o.stdout
}

func onMariaDB(dsn string) settings {
	return settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": dsn}
}

func onRedis(addr string) settings {
	return settings{"REDIS_URL": "redis://" + addr}
}

// as says user and password of Redis.
func as(user, password string, s settings) settings {
	return settings{"REDIS_URL": strings.Replace(s["REDIS_URL"], "://", "://"+user+":"+password+"@", 1)}
}

// migrated is a new database of the shared MariaDB with the schema in place.
func migrated(t *testing.T) (dsn string) {
	t.Helper()
	dsn = testserver.SharedMariaDB(t).NewDatabase(t)
	must(t, onMariaDB(dsn), "migrate")
	return dsn
}

// query runs statements one by one; they must succeed.
var query = rig.Query

// A daemon: how it is started, asked and stopped, and what it says of itself.

// daemon is one `shardid serve`.
type daemon struct {
	*rig.Process
	t      *testing.T
	url    string
	client *http.Client
}

// startLimit is how long a process may take to listen on a busy machine.
const startLimit = 30 * time.Second

// serve starts shardid on a free port in a new folder and returns when it
// listens.
func serve(t *testing.T, s settings, args ...string) *daemon {
	t.Helper()
	return serveIn(t, t.TempDir(), s, args...)
}

// serveReady starts so many and returns when they are ready.
func serveReady(t *testing.T, n int, s settings, args ...string) (replicas []*daemon) {
	t.Helper()
	for range n {
		replicas = append(replicas, serve(t, s, args...))
	}
	for _, d := range replicas {
		d.ready()
	}
	return replicas
}

// prepared migrates and runs commands in a new folder, then a replica.
func prepared(t *testing.T, s settings, commands ...[]string) *daemon {
	t.Helper()
	dir := t.TempDir()
	for _, args := range append([][]string{{"migrate"}}, commands...) {
		if o := shardidIn(t, dir, s, args...); o.exit != 0 {
			t.Fatalf("%v: %+v", args, o)
		}
	}
	return serveIn(t, dir, s)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

func serveIn(t *testing.T, dir string, s settings, args ...string) *daemon {
	t.Helper()
	return listening(launch(t, command(t, dir, s, serving(args)...)))
}

// serving are the arguments of a replica on a free port.
func serving(args []string) []string {
	return append([]string{"serve", "--set", "server.addr=127.0.0.1:0"}, args...)
}

// listening returns when d says where it listens.
func listening(d *daemon) *daemon {
	d.t.Helper()
	d.url = "http://" + d.Listens()
	return d
}

// launch starts a replica and returns at once.
func launch(t *testing.T, cmd *exec.Cmd) *daemon {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	d := &daemon{t: t, client: &http.Client{Timeout: 20 * time.Second, Transport: transport}}
	t.Cleanup(d.client.CloseIdleConnections)
	d.Process = rig.Start(t, cmd, filepath.Join(t.TempDir(), "log"))
	return d
}

// stops sends a signal that ends the process well.
func (d *daemon) stops(s syscall.Signal, limit time.Duration) {
	d.t.Helper()
	d.Signal(s)
	if code := d.Exit(limit); code != 0 {
		d.t.Errorf("exit %d:\n%s", code, d.Output())
	}
}

// answer is an HTTP answer, with the fields of both shapes of JSON.
type answer struct {
	status  int
	header  http.Header
	body    string
	closes  bool // the server closes the connection after it
	Code    int
	Message string
	Status  string // of the health endpoints
	ID      int64
	IDStr   string
	IDs     []json.RawMessage
}

// do sends a request; header is a list of names and values.
func (d *daemon) do(method, target string, header ...string) (a answer, err error) {
	req, err := http.NewRequest(method, d.url+target, nil)
	if err != nil {
		return a, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	a.status, a.header, a.body = resp.StatusCode, resp.Header, string(raw)
	a.closes = resp.Close
	isJSON := strings.HasPrefix(a.header.Get("Content-Type"), "application/json") && strings.HasPrefix(a.body, "{")
	if err == nil && isJSON {
		err = json.Unmarshal(raw, &a)
	}
	return a, err
}

// get is do with GET, for the goroutine of the test.
func (d *daemon) get(target string) answer {
	d.t.Helper()
	a, err := d.do(http.MethodGet, target)
	if err != nil {
		d.t.Fatalf("GET %s: %v", target, err)
	}
	return a
}

// want gets target and checks status and code.
func (d *daemon) want(target string, status, code int) answer {
	d.t.Helper()
	a := d.get(target)
	if a.status != status || a.Code != code {
		d.t.Fatalf("GET %s: %d %s, want %d and code %d", target, a.status, a.body, status, code)
	}
	return a
}

func (d *daemon) ready() {
	d.t.Helper()
	eventually(d.t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
}

// alarms are the names of those that are on.
func (d *daemon) alarms() (names []string) {
	d.t.Helper()
	status := fromJSON[struct{ Alarms []struct{ Name string } }](d.t, d.want("/api/status", 200, 0))
	for _, a := range status.Alarms {
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
	eventually(d.t, startLimit, "all is well", func() bool {
		return d.get("/healthz").status == 200 && d.get("/readyz").Status == "ok" &&
			!slices.ContainsFunc(d.alarms(), func(name string) bool {
				return name == "ShardidStoreAway" || name == "ShardidConditionFailing"
			})
	})
}

// respAddr is where a daemon listens for Redis clients.
func (d *daemon) respAddr() string {
	d.t.Helper()
	addr := d.Said("listening for Redis clients")
	if addr == "" {
		d.t.Fatal("no Redis clients are listened for")
	}
	return addr
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
