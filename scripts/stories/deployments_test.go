//go:build unix

package stories_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// release030 is the commit of version 0.3.0.
const release030 = "dcf9323b6c6789f2062ec0e775478ff867593e5b"

// release builds the shardid of a commit and returns its path. It stays in the user's cache, as it
// never changes; a test that has no git history, or not what the commit needs, is skipped.
func release(t *testing.T, commit string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	check.Must(t, err)
	path := filepath.Join(cache, "shardid", "releases", "shardid-"+commit)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	const script = `cd "$(git rev-parse --show-toplevel)"
		git archive "$1" -- client cmd docs go.mod go.sum model repository service sql config.yaml | tar -x -C "$2"
		cd "$2"
		CGO_ENABLED=0 GOFLAGS= GOWORK=off go build -tags nomsgpack -o "$3.$$" ./cmd/shardid
		mv "$3.$$" "$3"` // at once, as others may build it too
	out, err := exec.Command("/bin/sh", "-ec", script, "release", commit, t.TempDir(), path).CombinedOutput()
	if err != nil {
		t.Skipf("commit %s cannot be built here, as in a shallow clone: %v\n%s", commit, err, out)
	}
	return path
}

// kindsBeside are the IDs that both versions issue; of queue IDs each caller asks for many shards.
var kindsBeside = map[string]string{
	"queue":     "/v1/queue/7/ids?count=3&gatePass=",
	"scrambled": "/v1/queue/8/ids?count=3&gatePass=",
	"segment":   "/v1/segment/orders/ids?count=5",
	"numbers":   "/v1/segment/bills/ids?count=2",
	"snowflake": "/v1/snowflake/ids?count=5",
	"uid":       "/v1/uid/ids?count=5",
}

// mixed is a deployment of replicas of two versions.
type mixed struct {
	*testing.T
	old   string // the binary of 0.3.0
	s     settings
	slots []*slot
	calm  bool // the stores were not restarted yet

	mu     sync.Mutex
	issued map[string]string // who issued an ID, by kind and ID
}

// slot is the place of a replica: its folder and its settings stay when the version changes.
type slot struct {
	name, dir string
	settings  settings
	now       *daemon
	callers   rig.Callers
	counts    map[string]*atomic.Int64 // IDs of each kind
}

// TestUpgradeSideBySide: replicas of 0.3.0 continue while the new version migrates their database
// and serves beside them, take the place of each other in the same folder to and fro, also after
// both stores were restarted, and every replica issues every kind of ID all the time, none twice.
func TestUpgradeSideBySide(t *testing.T) {
	check.Deep(t)
	story(t)
	m := &mixed{T: t, old: release(t, release030), calm: true, issued: map[string]string{}}
	redis, database := testserver.Redis(t), testserver.MariaDB(t)
	m.s = onMariaDB(database.NewDatabase(t)).With(onRedis(redis.Addr)).With(settings{"SERVER_DRAIN_DELAY": "0s"})
	for _, args := range []string{
		"migrate", "provision --app 7 --name orders", "provision --app 8 --name hidden --scramble",
		"tags add --tag orders --step 100",
		"tags add --tag bills --step 10 --pattern BILL-{yyyyMMdd}-{seq:6} --reset day",
	} {
		m.byOld(args)
	}
	one, two := m.slot("one"), m.slot("two")
	m.start(one, m.old)
	m.start(two, m.old)
	m.progress("0.3.0 alone", 200)
	must(t, m.s, "migrate")
	m.progress("0.3.0 on the new schema", 300)
	m.start(m.slot("three"), "")
	m.start(m.slot("four"), "")
	m.progress("both", 500)
	says := map[string]string{"apps": "orders", "tags": "bills", "doctor": "database", "migrate": ""}
	for command, says := range says {
		check.Has(t, m.byOld(command), says, command, "of 0.3.0")
	}
	m.stop(one)
	m.start(one, m.old)
	m.progress("an old one started again", 300)

	m.calm = false
	redis.Kill()
	database.Kill()
	database.Restart()
	redis.Restart()
	m.progress("both stores restarted", 500)
	m.stop(one)
	m.start(one, "")
	two.callers.Stop()
	two.now.Kill()
	m.start(two, "")
	m.progress("new ones in their folders", 300)
	m.stop(two)
	m.start(two, m.old)
	m.progress("one went back", 300)
	m.stop(two)
	m.start(two, "")
	m.progress("all new", 300)
	for _, p := range m.slots {
		m.stop(p)
	}
	t.Logf("%d IDs", len(m.issued))
	if out := must(t, m.s, "doctor"); strings.Contains(out, "unsafe") || strings.Contains(out, "warn") {
		t.Errorf("doctor: %s", out)
	}
}

// env are settings for a binary; none is the present one. 0.3.0 has another key for the address of Redis.
func (m *mixed) env(s settings, binary string) settings {
	if binary == "" {
		return s
	}
	old := s.With(settings{"REDIS_MODE": "single", "REDIS_ADDRS": strings.TrimPrefix(s["REDIS_URL"], "redis://")})
	delete(old, "REDIS_URL")
	return old
}

// byOld runs a command of 0.3.0.
func (m *mixed) byOld(args string) string {
	m.Helper()
	out, err := m.env(m.s, m.old).Command(m.TempDir(), m.old, strings.Fields(args)...).CombinedOutput()
	if err != nil {
		m.Fatalf("%s: %v: %s", args, err, out)
	}
	return string(out)
}

func (m *mixed) slot(name string) *slot {
	address := settings{"SNOWFLAKE_ADVERTISE": fmt.Sprintf("10.1.0.%d:8080", len(m.slots)+1)}
	p := &slot{name: name, dir: m.TempDir(), settings: m.s.With(address), counts: map[string]*atomic.Int64{}}
	for kind := range kindsBeside {
		p.counts[kind] = &atomic.Int64{}
	}
	m.slots = append(m.slots, p)
	return p
}

// start begins a life by a binary, none is the present one, with a caller for each kind.
func (m *mixed) start(p *slot, binary string) {
	m.Helper()
	env, version := m.env(p.settings, binary).With(settings{"SERVER_ADDR": "127.0.0.1:0"}), "0.3.0"
	if binary == "" {
		binary, version = rig.Binary(m.T), "the new"
	}
	d := &daemon{t: m.T, client: &http.Client{Timeout: 20 * time.Second}}
	m.Cleanup(d.client.CloseIdleConnections)
	d.Process = rig.Start(m.T, env.Command(p.dir, binary, "serve"), filepath.Join(m.TempDir(), version))
	listening(d).ready()
	kinds := slices.Sorted(maps.Keys(kindsBeside))
	p.now = d
	p.callers.Start(m.T, len(kinds), func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(1, uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(3 * time.Millisecond) {
			m.ask(p, d, kinds[caller], fmt.Sprint(p.name, " by ", version), rnd)
		}
	})
}

// stop ends a life once all that it was asked is answered.
func (m *mixed) stop(p *slot) {
	m.Helper()
	p.callers.Stop()
	p.now.stops(syscall.SIGTERM, startLimit)
	if failed := p.now.Lines(`"level":"ERROR"`); m.calm && len(failed) > 0 {
		m.Errorf("%s: %q", p.name, failed)
	}
}

// ask asks a replica for some IDs of a kind. It may tell callers to come again, and do nothing else.
func (m *mixed) ask(p *slot, d *daemon, kind, who string, rnd *rand.Rand) {
	target := kindsBeside[kind]
	if strings.HasSuffix(target, "gatePass=") {
		target += fmt.Sprint("user", rnd.IntN(100))
	}
	a, err := d.do(http.MethodGet, target)
	if err != nil || a.status != http.StatusOK {
		if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			m.Errorf("%s refused %s: %d %s %v", who, kind, a.status, a.body, err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range a.IDs {
		key := kind + " " + string(id)
		if by, taken := m.issued[key]; taken {
			m.Errorf("%s came from %s, and before from %s", key, who, by)
		}
		m.issued[key] = who
	}
	p.counts[kind].Add(int64(len(a.IDs)))
}

// progress waits until each replica has issued so many more IDs of each kind.
func (m *mixed) progress(phase string, ids int64) {
	m.Helper()
	goals := map[*atomic.Int64]int64{}
	for _, p := range m.slots {
		for _, count := range p.counts {
			goals[count] = count.Load() + ids
		}
	}
	took := eventually(m.T, time.Minute, phase, func() bool {
		for count, goal := range goals {
			if count.Load() < goal {
				return false
			}
		}
		return true
	})
	m.Logf("%s: %v", phase, took.Round(time.Millisecond))
}

// regionPaths are where IDs of each kind come from; an answer has many of them.
var regionPaths = map[string]string{
	"queue":     "/v1/queue/1/ids?gatePass=alice&count=300",
	"scrambled": "/v1/queue/2/ids?gatePass=alice&count=300",
	"segment":   "/v1/segment/orders/ids?count=300",
	"numbers":   "/v1/segment/invoices/ids?count=50",
	"snowflake": "/v1/snowflake/ids?count=300",
	"uid":       "/v1/uid/ids?count=300",
	"sequence":  "/v1/sequence/chat/ids?key=room1&count=300",
}

// TestRegions: deployments of two regions, one on MariaDB and one on SQLite, share nothing and never talk to each
// other, and are asked for the same: no ID of one is one of the other, and an ID says its region. The database of
// a region, such as one that was restored from its backup, serves no other one.
func TestRegions(t *testing.T) {
	check.Deep(t)
	story(t)
	seen, urls := map[string]int{}, []string{}
	for _, id := range []int{1, 2} {
		s, dir := settings{"REGION_ID": strconv.Itoa(id), "REGION_BITS": "2"}, t.TempDir()
		if id == 1 {
			s = s.With(onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t))).With(onRedis(testserver.Redis(t).Addr))
		}
		for _, args := range []string{
			"migrate", "provision --app 1 --name one", "provision --app 2 --name two --scramble",
			"tags add --tag orders --step 100",
			"tags add --tag invoices --step 10 --pattern INV-{yyyyMMdd}-{seq:5} --reset day",
			"spaces add --space chat --sections 4", "names add --name gophers",
		} {
			try{args: args}.in(t, dir, s)
		}
		d := serveIn(t, dir, s)
		d.ready()
		urls = append(urls, d.url)
		for range 3 {
			wantOwn(t, d, id, seen)
		}
		for kind, path := range map[string]string{
			"queue": "/v1/queue/1/ids?gatePass=bob", "snowflake": "/v1/snowflake/ids", "uid": "/v1/uid/ids",
		} {
			one := strings.Trim(string(d.want(path, 200, 0).IDs[0]), `"`)
			check.Has(t, d.get("/decode?kind="+kind+"&id="+one).body, fmt.Sprintf(`"region":%d`, id), kind)
		}
		lease := d.lease("gophers", "").Lease
		if from := int64(id) * 256; lease.WorkerID < from || lease.WorkerID >= from+256 {
			t.Errorf("region %d leases worker ID %d", id, lease.WorkerID)
		}
		// Clients that count on their own do so by the region's stride.
		run := d.get("/tinyid/id/nextSegmentId?bizType=orders").body
		check.Has(t, run, fmt.Sprintf(`"delta":4,"remainder":%d`, id), "a run of tinyid")
		check.Has(t, d.get("/v1/segment/orders/ids?count=10&ranges=true").body, `"count":10,"stride":"4"`, "ranges")
		wrong := try{"provision --app 9 --name nine", 1, "", fmt.Sprintf("region %d/2", id)}
		wrong.in(t, dir, s.With(settings{"REGION_ID": "3"}))
	}
	t.Logf("%d IDs", len(seen))
	asks := []string{"doctor", "--json", "--region", urls[0], "--region", urls[1]}
	for id, isUnsafe := range map[string]bool{"0": false, "1": true} { // as a third region, and as one of them
		o := shardid(t, settings{"REGION_ID": id, "REGION_BITS": "2"}, asks...)
		if strings.Contains(o.stdout, `"unsafe"`) != isUnsafe || isUnsafe && o.exit == 0 {
			t.Errorf("as region %s doctor says %+v", id, o)
		}
	}
}

// wantOwn asks for IDs of each kind; none may be another region's.
func wantOwn(t *testing.T, d *daemon, id int, seen map[string]int) {
	t.Helper()
	for kind, path := range regionPaths {
		var a answer
		eventually(t, startLimit, kind+" is served", func() bool {
			a = d.get(path)
			return a.status == 200
		})
		if len(a.IDs) < 50 {
			t.Fatalf("%s: %.200s", kind, a.body)
		}
		for _, one := range a.IDs {
			name := strings.Replace(kind, "scrambled", "queue", 1) + string(one)
			if by, taken := seen[name]; taken {
				t.Fatalf("%s of region %d was issued by region %d", name, id, by)
			}
			seen[name] = id
		}
	}
}
