//go:build unix

package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// tally is what a generator has issued in a world.
type tally struct {
	seen     map[string]bool
	last     map[int]string // the last ID of each series in which they should rise
	repeats  int
	disorder int    // IDs below one that the series had before they were asked for
	why      string // the last refusal
	highest  int64
	before   int64         // the highest before the fault
	since    int           // IDs asked for since the fault or, where there is none yet, at all
	at       time.Time     // of the last one of these or, before it, of the fault
	pause    time.Duration // the longest without one
}

// process is a replica of shardid, or a program that issues IDs by other generators.
type process struct {
	*rig.Process // the present life
	program      string
	number       int
	dir, addr    string
	generators   []generator
}

// world is where a fault happens: a database and its copy, a Redis and its copy, and all generators.
type world struct {
	t           *testing.T
	db          *testserver.MariaDBPair
	redis, copy *testserver.RedisServer
	link        *testserver.Proxy // by which the copy of Redis follows
	dbAddr      *testserver.Proxy // by which all reach the database
	redisAddr   *testserver.Proxy
	incr        *redis.Client
	http        http.Client // without a limit: what is frozen answers later, and shardid has a limit of its own
	clock       string      // the file with the seconds by which the clocks of processes are off; "" for the real one
	dump        string      // the file with that of the database
	jvm         []string    // options of Java
	enter       []string    // what runs a program in a container
	embedded    bool        // shardid has the embedded stores
	processes   []*process
	asking      sync.WaitGroup
	mu          sync.Mutex // guards what follows
	fault       time.Time  // zero before it
	tallies     map[string]*tally
}

// uidTable is what the page of UidGenerator has a user make.
const uidTable = `CREATE TABLE peers.WORKER_NODE (ID BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	HOST_NAME VARCHAR(64) NOT NULL, PORT VARCHAR(64) NOT NULL, TYPE INT NOT NULL, LAUNCH_DATE DATE NOT NULL,
	MODIFIED TIMESTAMP NOT NULL, CREATED TIMESTAMP NOT NULL)`

func newWorld(t *testing.T) *world {
	w := &world{t: t, tallies: map[string]*tally{}, dump: filepath.Join(t.TempDir(), "dump")}
	w.jvm = []string{"-Xmx64m", "-XX:-UsePerfData", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	w.db, w.redis = testserver.MariaDBReplicated(t), testserver.Redis(t)
	w.link = testserver.NewProxy(t, w.redis.Addr)
	w.copy = testserver.RedisReplica(t, &testserver.RedisServer{Addr: w.link.Addr})
	w.dbAddr, w.redisAddr = testserver.NewProxy(t, w.db.Primary.Addr()), testserver.NewProxy(t, w.redis.Addr)
	behind := *w.redis
	behind.Addr = w.redisAddr.Addr
	w.incr = behind.Client()
	w.http.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(w.http.CloseIdleConnections)
	t.Cleanup(w.end)
	rig.Query(t, w.db.Primary.DSN(""), "SET GLOBAL max_connections = 5000", "CREATE DATABASE shardid",
		"CREATE DATABASE peers", uidTable)
	for _, args := range []string{"migrate", "provision --app 1 --name compare", "tags add --tag orders",
		"names add --name demo", "spaces add --space chat"} {
		output(t, w.settings().Command(t.TempDir(), w.tool("shardid"), strings.Fields(args)...))
	}
	w.db.CatchUp()
	return w
}

// tool is the path of a program, which has the clock of the world.
func (w *world) tool(name string) string {
	if w.clock != "" {
		name = "clocked/" + name
	}
	return filepath.Join(tools, name)
}

// settings are those of shardid.
func (w *world) settings() rig.Settings {
	return rig.Settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": "root@tcp(" + w.dbAddr.Addr + ")/shardid",
		"REDIS_URL": "redis://" + w.redisAddr.Addr}
}

// launch starts one process more, and returns when it can be asked: Java takes seconds to start.
func (w *world) launch(program string, number int, useful func(generator) bool) *process {
	p := &process{program: program, number: number, dir: w.t.TempDir(), addr: testserver.FreeAddrs(w.t, 1)[0]}
	for _, g := range generators {
		if g.program == program && useful(g) {
			p.generators = append(p.generators, g)
		}
	}
	w.processes = append(w.processes, p)
	w.start(p)
	rig.Until(w.t, time.Minute, program+" listens", func() error {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return p
}

// start begins a life of a process. Programs ask the replicas so far for leases.
func (w *world) start(p *process) {
	var settings rig.Settings
	argv := []string{w.tool("shardid"), "serve", "--set", "server.addr=" + p.addr}
	switch {
	case p.program == "shardid" && w.embedded:
		argv = append(argv, "--demo")
	case p.program == "shardid":
		settings = w.settings()
	default:
		urls := ""
		for _, replica := range w.processes {
			if replica.program == "shardid" {
				urls += ",http://" + replica.addr
			}
		}
		settings = rig.Settings{"URLS": urls[1:], "JDBC": "jdbc:mariadb://" + w.dbAddr.Addr + "/peers?user=root"}
		argv = []string{w.tool("peers")}
		if p.program == "java" {
			argv = slices.Concat([]string{"java"}, w.jvm, []string{"-jar", filepath.Join(tools, "peers.jar")})
		}
		argv = append(argv, strings.TrimPrefix(p.addr, "127.0.0.1:"), strconv.Itoa(p.number))
		for _, g := range p.generators {
			argv = append(argv, g.kind)
		}
	}
	argv = slices.Concat(w.enter, argv)
	cmd := settings.With(rig.Settings{"GO_COMPARE_CLOCK": w.clock}).Command(p.dir, argv[0], argv[1:]...)
	if p.program == "java" && w.clock != "" {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+filepath.Join(tools, "clock.so"))
	}
	p.Process = rig.Start(w.t, cmd, filepath.Join(p.dir, "log"))
}

// add starts one process of each program, which issues from now on.
func (w *world) add(number int, useful func(generator) bool) {
	for _, program := range programs {
		w.ask(w.launch(program, number, useful), forever)
	}
}

// restart kills all processes, and starts them again after what happens meanwhile. New programs are there before, but
// make their generators when they are asked.
func (w *world) restart(meanwhile func()) {
	old := slices.Clone(w.processes)
	w.processes = slices.DeleteFunc(w.processes, func(p *process) bool { return p.program != "shardid" })
	for _, p := range old {
		if p.program != "shardid" {
			w.launch(p.program, p.number, func(g generator) bool { return slices.Contains(p.generators, g) })
		}
	}
	for _, p := range old {
		p.Kill()
	}
	meanwhile()
	w.happen()
	for _, p := range w.processes {
		if p.program == "shardid" {
			w.start(p)
		}
		w.ask(p, forever)
	}
}

const forever = time.Hour // longer than a fault

// ask has all generators of a process issue IDs, one a millisecond, for so long or until it ends. Programs wait for the
// next millisecond themselves, so a request is for a hundred. A replica issues those of a request at once: that is for
// ten, as the more come at once the less a repeat shows.
func (w *world) ask(p *process, length time.Duration) {
	life, end, atOnce := p.Process, time.Now().Add(length), 100
	if p.program == "shardid" {
		atOnce = 10
	}
	for _, g := range p.generators {
		series := life.Cmd.Process.Pid
		if g.is == ordered {
			series = 0 // one of all processes
		}
		w.mu.Lock()
		if w.tallies[g.kind] == nil {
			w.tallies[g.kind] = &tally{seen: map[string]bool{}, last: map[int]string{}}
		}
		w.mu.Unlock()
		w.asking.Go(func() {
			for time.Now().Before(end) && !life.Gone() {
				next := time.Now().Add(time.Duration(atOnce) * time.Millisecond)
				w.askOnce(p.addr, g, series, atOnce)
				time.Sleep(time.Until(next))
			}
		})
	}
}

// together has all processes issue for so long.
func (w *world) together(length time.Duration) {
	for _, p := range w.processes {
		w.ask(p, length)
	}
	w.asking.Wait()
}

func (w *world) askOnce(addr string, g generator, series, count int) {
	w.mu.Lock()
	l := w.tallies[g.kind]
	last, asked := l.last[series], time.Now()
	w.mu.Unlock()
	ids, err := w.get(addr, g, count)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		l.why = err.Error()
	}
	for _, id := range ids {
		if l.seen[id] {
			l.repeats++
		}
		if len(id) < len(last) || len(id) == len(last) && id < last {
			l.disorder++
		}
		l.seen[id], l.last[series], last = true, id, id
		number, _ := strconv.ParseInt(id, 10, 64) // 0 for a UUID, whose numbers nobody counts
		l.highest = max(l.highest, number)
	}
	if len(ids) > 0 && asked.After(w.fault) {
		l.since += len(ids)
		l.rest()
		l.at = time.Now()
	}
}

// rest notes how long it is since the last ID.
func (l *tally) rest() {
	if !l.at.IsZero() {
		l.pause = max(l.pause, time.Since(l.at))
	}
}

// get has a generator issue so many IDs. With an error come those that it issued before.
func (w *world) get(addr string, g generator, count int) (ids []string, err error) {
	if g.kind == "incr" {
		for len(ids) < count && err == nil {
			var number int64
			if number, err = w.incr.Incr(w.t.Context(), "compare").Result(); err == nil {
				ids = append(ids, strconv.FormatInt(number, 10))
			}
		}
		return ids, err
	}
	resp, err := w.http.Get("http://" + addr + g.path + "count=" + strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var got struct {
		IDs     []string
		Message string
	}
	if err = json.NewDecoder(resp.Body).Decode(&got); err == nil && got.Message != "" {
		err = errors.New(got.Message)
	}
	return got.IDs, err
}

// happen says that the fault happens now.
func (w *world) happen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = time.Now()
	for _, l := range w.tallies {
		l.at, l.before, l.since, l.pause = w.fault, l.highest, 0, 0
	}
}

// settle returns when each generator has issued in the last second, or after a hundred seconds.
func (w *world) settle() {
	_ = check.Within(100*time.Second, func() error { // the page says which one does not
		w.mu.Lock()
		defer w.mu.Unlock()
		for kind, l := range w.tallies {
			if l.since == 0 || time.Since(l.at) > time.Second {
				return fmt.Errorf("%s does not issue: %s", kind, l.why)
			}
		}
		return nil
	})
}

// end kills all processes, and returns when nobody asks any more.
func (w *world) end() {
	w.mu.Lock()
	for _, l := range w.tallies {
		l.rest()
	}
	w.mu.Unlock()
	for _, p := range w.processes {
		p.Kill()
	}
	w.processes = nil
	w.asking.Wait()
}

// client runs a program of MariaDB, for the primary.
func (w *world) client(name string, args ...string) (said string) {
	path := filepath.Join(filepath.Dir(testserver.MariaDBClient(w.t)), name)
	args = append([]string{"--user=root", "--socket=" + w.db.Primary.Socket}, args...)
	return output(w.t, exec.Command(path, args...))
}

// setClock sets the clocks of all processes, and those of processes to come.
func (w *world) setClock(seconds int) {
	w.clock = filepath.Join(filepath.Dir(w.dump), "clock")
	check.Must(w.t, os.WriteFile(w.clock, []byte(strconv.Itoa(seconds)), 0o600))
	time.Sleep(100 * time.Millisecond) // until programs in Go have read it
}
