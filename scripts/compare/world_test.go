//go:build unix

package compare

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

// tally is what a generator has issued in a world. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	seen     map[string]bool
	last     map[string]string // the last ID of each series in which they should rise
	repeats  int
	disorder int    // IDs below the one before
	why      string // the last refusal
	before   int64  // the highest before the fault
	highest  int64
	since    int64         // IDs after the fault
	at       time.Time     // of the last one or, before it, of the fault; zero before that
	pause    time.Duration // the longest without an ID since then
	rested   int64         // since, when it was last asked
}

func (l *tally) note(series, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[id] {
		l.repeats++
	}
	if last := l.last[series]; len(id) < len(last) || len(id) == len(last) && id < last {
		l.disorder++
	}
	l.seen[id], l.last[series] = true, id
	number, _ := strconv.ParseInt(id, 10, 64) // 0 for a UUID, whose numbers nobody counts
	l.highest = max(l.highest, number)
	if !l.at.IsZero() {
		l.since, l.pause, l.at = l.since+1, max(l.pause, time.Since(l.at)), time.Now()
	}
}

func (l *tally) refuse(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = why
}

// rest says that nobody has asked for so long, which is no pause of a generator that issued before.
func (l *tally) rest(length time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since > l.rested {
		l.at = l.at.Add(length)
	}
	l.rested = l.since
}

// happen says that the fault happens now.
func (l *tally) happen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.before, l.since, l.rested, l.pause = time.Now(), l.highest, 0, 0, 0
}

// issues says whether an ID has come since the fault or, before it, at all.
func (l *tally) issues() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since > 0 || l.at.IsZero() && len(l.seen) > 0
}

// process is a shardid, or a program that issues IDs by generators of others.
type process struct {
	*rig.Process
	w       *world
	command func() *exec.Cmd
	url     string // of a shardid
	suffix  string // of the kinds of a shardid: alone where there is no Redis
	in      io.Writer
	out     *bufio.Scanner // of a program
	number  int
	frozen  bool
	next    *process // the one that takes its place
}

func (p *process) start() {
	cmd, log := p.command(), filepath.Join(p.w.t.TempDir(), "log")
	if p.url != "" {
		p.Process = rig.Start(p.w.t, cmd, log)
		return
	}
	reader, writer, err := os.Pipe() // which, unlike StdoutPipe, may be read after the end of the process
	check.Must(p.w.t, err)
	p.w.t.Cleanup(func() { _ = reader.Close() })
	p.in, err = cmd.StdinPipe()
	check.Must(p.w.t, err)
	cmd.Stdout, p.out = writer, bufio.NewScanner(reader)
	p.Process = rig.Start(p.w.t, cmd, "")
	check.Must(p.w.t, writer.Close())
}

// tell sends a program a command, and gives each line of the answer to use until it is done or was killed.
func (p *process) tell(command string, use func(kind, rest string)) {
	_, err := fmt.Fprintln(p.in, command)
	for err == nil && p.out.Scan() && p.out.Text() != "done" {
		kind, rest, _ := strings.Cut(p.out.Text(), " ")
		if why, refused := strings.CutPrefix(rest, "! "); refused {
			p.w.tally(kind).refuse(why)
		} else {
			use(kind, rest)
		}
	}
}

// series names the IDs of a process, in which they should rise.
func (p *process) series() string { return fmt.Sprint(p.number, " ", p.Cmd.Process.Pid) }

func (p *process) take(n int) {
	p.tell(fmt.Sprint("take ", n), func(kind, id string) { p.w.tally(kind).note(p.series(), id) })
}

// modes are the paths of what a shardid issues.
var modes = map[string]string{
	"queue":     "/v1/queue/1/ids?gatePass=alice&count=",
	"segment":   "/v1/segment/orders/ids?count=",
	"snowflake": "/v1/snowflake/ids?count=",
	"uid":       "/v1/uid/ids?count=",
	"sequence":  "/v1/sequence/chat/ids?key=room42&count=",
}

// ask gets IDs of a shardid.
func (w *world) ask(url, mode string, count int) ([]string, error) {
	resp, err := w.http.Get(url + modes[mode] + strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var got struct {
		IDs     []string
		Message string
	}
	if err = json.NewDecoder(resp.Body).Decode(&got); err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(got.Message)
	}
	return got.IDs, err
}

// paced asks for n IDs of a series, one a millisecond, so many at once, and for fewer if that takes a second more.
func (w *world) paced(kind, series string, n, atOnce int, ask func(i int) ([]string, error)) {
	begun := time.Now()
	for i := 0; i*atOnce < n && time.Since(begun) < time.Duration(n)*time.Millisecond+time.Second; i++ {
		ids, err := ask(i)
		if err != nil {
			w.tally(kind).refuse(err.Error())
		}
		for _, id := range ids {
			w.tally(kind).note(series, id)
		}
		time.Sleep(time.Until(begun.Add(time.Duration((i+1)*atOnce) * time.Millisecond)))
	}
}

// world is where a fault happens: a database and its copy, a Redis and its copy, and all generators.
type world struct {
	t         *testing.T
	dir       string
	db        *testserver.MariaDBPair
	redis     *testserver.RedisServer
	copy      *testserver.RedisServer // of redis
	link      *testserver.Proxy       // by which the copy follows
	dbAddr    *testserver.Proxy       // by which all reach the database
	redisAddr *testserver.Proxy
	incr      *redis.Client
	clock     string   // the file with the seconds by which the clocks of generators are off; "" for the real one
	jvm       []string // options of Java
	boxed     bool     // each program has a network and process IDs of its own
	network   []string // what runs a program in the network of the machine; nil before the first one
	pairs     []string // of addresses that a network needs
	processes []*process
	http      *http.Client
	asked     time.Time  // until when all are asked
	mu        sync.Mutex // guards what follows
	tallies   map[string]*tally
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), tallies: map[string]*tally{}}
	w.jvm = []string{"-Xmx64m", "-XX:-UsePerfData", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	w.db, w.redis = testserver.MariaDBReplicated(t), testserver.Redis(t)
	w.link = testserver.NewProxy(t, w.redis.Addr)
	w.copy = testserver.RedisReplica(t, &testserver.RedisServer{Addr: w.link.Addr})
	w.dbAddr, w.redisAddr = testserver.NewProxy(t, w.db.Primary.Addr()), testserver.NewProxy(t, w.redis.Addr)
	w.incr = redis.NewClient(&redis.Options{Addr: w.redisAddr.Addr})
	t.Cleanup(func() { _ = w.incr.Close() })
	w.http = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(w.http.CloseIdleConnections)
	rig.Query(t, w.db.Primary.DSN(""), "SET GLOBAL max_connections = 5000", "CREATE DATABASE peers",
		"CREATE DATABASE shardid", "CREATE DATABASE alone")
	rig.Query(t, w.db.Primary.DSN("peers"), tables...)
	for _, suffix := range []string{"", "-alone"} {
		for _, args := range []string{"migrate", "provision --app 1 --name compare", "tags add --tag orders",
			"names add --name demo", "spaces add --space chat"} {
			output(t, w.settings(suffix).Command(t.TempDir(), rig.Binary(t), strings.Fields(args)...))
		}
	}
	w.db.CatchUp()
	return w
}

// settings are those of a shardid with Redis, or of one with the database alone.
func (w *world) settings(suffix string) rig.Settings {
	s := rig.Settings{"DATABASE_DRIVER": "mysql", "GO_COMPARE_CLOCK": w.clock}
	if suffix == "" {
		return s.With(rig.Settings{"DATABASE_DSN": "root@tcp(" + w.dbAddr.Addr + ")/shardid",
			"REDIS_URL": "redis://" + w.redisAddr.Addr})
	}
	return s.With(rig.Settings{"DATABASE_DSN": "root@tcp(" + w.dbAddr.Addr + ")/alone"})
}

// addReplica starts a shardid that listens at one address, and is reached at another if it is in a network of its own.
func (w *world) addReplica(number int, suffix, listen, addr string, network ...string) {
	dir, binary := w.t.TempDir(), rig.Binary(w.t)
	if w.clock != "" {
		binary = tools.clockedShardid
	}
	argv := append(network, binary, "serve", "--set", "server.addr="+listen, "--set", "data_dir="+dir)
	w.add(&process{number: number, suffix: suffix, url: "http://" + addr, command: func() *exec.Cmd {
		return w.settings(suffix).Command(dir, argv[0], argv[1:]...)
	}})
}

func (w *world) add(p *process) {
	p.w = w
	w.processes = append(w.processes, p)
	p.start()
}

// urls are those of two replicas, which programs ask for leases.
func (w *world) urls(suffix string) (urls []string) {
	for _, p := range w.processes {
		if p.url != "" && p.suffix == suffix && len(urls) < 2 {
			urls = append(urls, p.url)
		}
	}
	return urls
}

// addPrograms starts one in Go and one in Java, with these kinds.
func (w *world) addPrograms(number int, useful func(peer) bool) {
	common := append(os.Environ(), "GO_COMPARE_CLOCK="+w.clock, "COMPARE_REDIS="+w.redisAddr.Addr,
		"COMPARE_JDBC=jdbc:mariadb://"+w.dbAddr.Addr+"/peers?user=root",
		"COMPARE_SHARDID="+strings.Join(w.urls(""), ","), "COMPARE_ALONE="+strings.Join(w.urls("-alone"), ","))
	for _, language := range []string{"go", "java"} {
		argv, env := []string{tools.peers}, slices.Clone(common)
		if language == "java" {
			argv = slices.Concat([]string{"java"}, w.jvm, []string{"-jar", tools.jar})
		}
		switch {
		case language == "java" && (tools.jar == "" || w.clock != "" && tools.clock == ""):
			continue
		case language == "java" && w.clock != "":
			env = append(env, "LD_PRELOAD="+tools.clock)
		case w.clock != "":
			argv = []string{tools.clockedPeers}
		}
		argv = slices.Concat(w.enter(), argv, []string{strconv.Itoa(number)})
		for _, p := range peers {
			if p.language == language && useful(p) {
				argv = append(argv, p.kind)
			}
		}
		w.add(&process{number: number, command: func() *exec.Cmd {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env, cmd.Stderr = env, tools.log
			return cmd
		}})
	}
}

func (w *world) tally(kind string) *tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tallies[kind] == nil {
		w.tallies[kind] = &tally{seen: map[string]bool{}, last: map[string]string{}}
	}
	return w.tallies[kind]
}

func (w *world) all() []*tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.tallies))
}

// take has every generator issue n IDs, one a millisecond.
func (w *world) take(n int) {
	const atOnce = 20 // of a request to shardid
	for _, l := range w.all() {
		l.rest(time.Since(w.asked))
	}
	w.asked = time.Now().Add(time.Duration(n) * time.Millisecond)
	var all sync.WaitGroup
	var counting []string
	for _, p := range w.processes {
		switch {
		case p.frozen:
			continue
		case p.url == "":
			all.Go(func() { p.take(n) })
			continue
		case p.suffix == "":
			counting = append(counting, p.url)
		}
		for mode := range modes {
			if mode != "sequence" && (mode != "queue" || p.suffix == "") {
				all.Go(func() {
					w.paced(mode+p.suffix, p.series(), n, atOnce, func(int) ([]string, error) {
						return w.ask(p.url, mode, atOnce)
					})
				})
			}
		}
	}
	all.Go(func() { // one series for all replicas, which are asked in turn
		w.paced("sequence", "", n, atOnce, func(i int) ([]string, error) {
			return w.ask(counting[i%len(counting)], "sequence", atOnce)
		})
	})
	all.Go(func() {
		w.paced("incr", "", n, 1, func(int) ([]string, error) {
			number, err := w.incr.Incr(w.t.Context(), "compare").Result()
			if err != nil {
				return nil, err
			}
			return []string{strconv.FormatInt(number, 10)}, nil
		})
	})
	all.Wait()
}

// settle takes IDs until each generator issues, for a hundred seconds at most.
func (w *world) settle() {
	for begun, all := time.Now(), false; !all && time.Since(begun) < 100*time.Second; {
		w.take(1000)
		all = true
		for _, l := range w.all() {
			all = all && l.issues()
		}
	}
}

// happen says that the fault happens now.
func (w *world) happen() {
	w.asked = time.Now()
	for _, l := range w.all() {
		l.happen()
	}
}

// prepare starts the next program of each, as Java takes seconds to start. It makes its generators after the restart.
func (w *world) prepare() {
	for _, p := range w.processes {
		if p.url == "" {
			p.next = &process{w: w, command: p.command, number: p.number}
			p.next.start()
			p.next.tell("take 0", nil)
		}
	}
}

func (w *world) kill() {
	for _, p := range w.processes {
		p.Kill()
	}
}

func (w *world) restart() {
	for i, p := range w.processes {
		if p.next != nil {
			w.processes[i] = p.next
		} else {
			p.start()
		}
	}
}
