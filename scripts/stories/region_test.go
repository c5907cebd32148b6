//go:build unix

package stories_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// regionPaths are where IDs of each kind come from; an answer has many of them.
func regionPaths() map[string]string {
	return map[string]string{
		"queue":     "/v1/queue/1/ids?gatePass=alice&count=300",
		"scrambled": "/v1/queue/2/ids?gatePass=alice&count=300",
		"segment":   "/v1/segment/orders/ids?count=300",
		"numbers":   "/v1/segment/invoices/ids?count=50",
		"snowflake": "/v1/snowflake/ids?count=300",
		"uid":       "/v1/uid/ids?count=300",
		"sequence":  "/v1/sequence/chat/ids?key=room1&count=300",
	}
}

// TestRegions: four deployments of four regions, on MariaDB and on SQLite,
// that share nothing and never talk to each other, are asked for the same: no ID of one is one of
// another. What is of another region, or of none, is refused, by commands and by a start.
func TestRegions(t *testing.T) {
	check.Deep(t)
	story(t)
	add := func(s settings, dir string) {
		for _, args := range []string{
			"migrate", "provision --app 1 --name one", "provision --app 2 --name two --scramble",
			"tags add --tag orders --step 100",
			"tags add --tag invoices --step 10 --pattern INV-{yyyyMMdd}-{seq:5} --reset day",
			"spaces add --space chat --sections 4", "names add --name gophers",
		} {
			try{args: args}.in(t, dir, s)
		}
	}
	seen, replicas := map[string]string{}, []*daemon{}
	for id := range 4 {
		s := settings{"REGION_ID": strconv.Itoa(id), "REGION_BITS": "2", "SERVER_ADMIN_TOKEN": adminToken}
		dir := t.TempDir()
		if id < 2 {
			s = s.With(onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t))).With(onRedis(testserver.Redis(t).Addr))
		}
		add(s, dir)
		d := serveIn(t, dir, s)
		d.ready()
		replicas = append(replicas, d)
		for range 3 {
			wantOwn(t, d, id, seen)
		}
		lease := d.lease("gophers", "").Lease
		if from := int64(id) * 256; lease.WorkerID < from || lease.WorkerID >= from+256 {
			t.Errorf("region %d leases worker ID %d", id, lease.WorkerID)
		}
		wantRegion(t, d, id)
		if id == 1 {
			wantRefusedElsewhere(t, dir, s)
		}
	}
	t.Logf("%d IDs", len(seen))

	// The client of tinyid counts on its own, by the region's stride.
	run := replicas[3].get("/tinyid/id/nextSegmentId?bizType=orders").body
	if !strings.Contains(run, `"delta":4,"remainder":3`) {
		t.Errorf("a run of tinyid is %s", run)
	}
	a := replicas[3].get("/v1/segment/orders/ids?count=10&ranges=true")
	if !strings.Contains(a.body, `"count":10,"stride":"4"`) {
		t.Errorf("ranges are %s", a.body)
	}

	// The doctor of one asks the others.
	asks := []string{"doctor", "--json", "--region", replicas[1].url, "--region", replicas[2].url}
	o := shardidIn(t, t.TempDir(), settings{"REGION_ID": "0", "REGION_BITS": "2"}, asks...)
	if strings.Contains(o.stdout, `"unsafe"`) || strings.Count(o.stdout, "of its own, of 2 bits") != 2 {
		t.Errorf("doctor says %+v", o)
	}
	for _, wrong := range []settings{
		{"REGION_ID": "2", "REGION_BITS": "2"}, {"REGION_ID": "0", "REGION_BITS": "3"}, nil,
	} {
		if o := shardidIn(t, t.TempDir(), wrong, asks...); !strings.Contains(o.stdout, `"unsafe"`) || o.exit == 0 {
			t.Errorf("with %v doctor says %+v", wrong, o)
		}
	}
}

// wantOwn asks for IDs of each kind; none may be another region's.
func wantOwn(t *testing.T, d *daemon, id int, seen map[string]string) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(regionPaths())) {
		var a answer
		eventually(t, startLimit, kind+" is served", func() bool {
			a = d.get(regionPaths()[kind])
			return a.status == 200
		})
		var got struct{ IDs []string }
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.IDs) < 50 {
			t.Fatalf("%s: %v: %.200s", kind, err, a.body)
		}
		for _, one := range got.IDs {
			name := kind + " " + one
			if kind == "scrambled" {
				name = "queue " + one
			}
			if by, taken := seen[name]; taken {
				t.Fatalf("%s of region %d was issued by %s", name, id, by)
			}
			seen[name] = fmt.Sprint("region ", id)
		}
	}
}

// wantRegion: an ID says its region where it is taken apart.
func wantRegion(t *testing.T, d *daemon, id int) {
	t.Helper()
	for kind, path := range map[string]string{
		"queue": "/v1/queue/1/ids?gatePass=bob", "snowflake": "/v1/snowflake/ids", "uid": "/v1/uid/ids",
	} {
		var got struct{ IDs []string }
		if err := json.Unmarshal([]byte(d.get(path).body), &got); err != nil || len(got.IDs) != 1 {
			t.Fatalf("%s: %v", path, err)
		}
		a := d.get("/decode?kind=" + kind + "&id=" + got.IDs[0])
		if !strings.Contains(a.body, fmt.Sprintf(`"region":%d`, id)) {
			t.Errorf("%s of region %d is %s", kind, id, a.body)
		}
	}
	if a := d.get("/api/status"); !strings.Contains(a.body, fmt.Sprintf(`"region":{"id":%d,"bits":2}`, id)) {
		t.Errorf("the status of region %d is %.200s", id, a.body)
	}
}

// wantRefusedElsewhere: the database of a region, such as one that was restored from its backup,
// serves no other one.
func wantRefusedElsewhere(t *testing.T, dir string, s settings) {
	t.Helper()
	for other, says := range map[string]string{
		"2/2": "says 2/2", "1/3": "says 1/3", "0/0": "the configuration has none",
	} {
		id, bits, _ := strings.Cut(other, "/")
		wrong := s.With(settings{"REGION_ID": id, "REGION_BITS": bits})
		for _, args := range [][]string{
			{"serve", "--set", "server.addr=127.0.0.1:0"}, {"provision", "--app", "9", "--name", "nine"},
		} {
			begun := time.Now()
			o := shardidIn(t, dir, wrong, args...)
			if o.exit != 1 || !strings.Contains(o.stderr, says) || !strings.Contains(o.stderr, "region 1/2") {
				t.Errorf("as region %s, %s after %v: %+v", other, args[0], time.Since(begun), o)
			}
		}
	}
	if o := shardidIn(t, dir, s, "region"); !strings.Contains(o.stdout, "this is region 1 of 4") {
		t.Errorf("shardid region says %+v", o)
	}
}

// TestRegionAdopts: a deployment that has issued IDs becomes region 0 by the operator's word, and
// another region begins where that says.
func TestRegionAdopts(t *testing.T) {
	check.Deep(t)
	story(t)
	dir, s := t.TempDir(), settings{}
	for _, args := range []string{
		"migrate", "provision --app 1 --name one", "tags add --tag orders --step 1000", "spaces add --space chat",
	} {
		try{args: args}.in(t, dir, s)
	}
	d := serveIn(t, dir, s)
	d.ready()
	before := map[string]bool{}
	tag := func(d *daemon, count int) (ids []string) {
		var got struct{ IDs []string }
		eventually(t, startLimit, "IDs", func() bool {
			a := d.get(fmt.Sprintf("/v1/segment/orders/ids?count=%d", count))
			return json.Unmarshal([]byte(a.body), &got) == nil && len(got.IDs) == count
		})
		return got.IDs
	}
	for _, id := range tag(d, 5000) {
		before[id] = true
	}
	d.stops(syscall.SIGTERM, startLimit)
	zero := settings{"REGION_BITS": "1"}
	o := shardidIn(t, dir, zero, "serve", "--set", "server.addr=127.0.0.1:0")
	if o.exit != 1 || !strings.Contains(o.stderr, "shardid region adopt") {
		t.Errorf("a used deployment begins a region: %+v", o)
	}
	o = shardidIn(t, dir, zero.With(settings{"REGION_ID": "1"}), "region", "adopt")
	if o.exit != 1 || !strings.Contains(o.stderr, "only region 0") {
		t.Errorf("region 1 adopts: %+v", o)
	}
	o = shardidIn(t, dir, zero, "region", "adopt")
	_, command, found := strings.Cut(o.stdout, "in each other region: shardid ")
	if o.exit != 0 || !found {
		t.Fatalf("adopt says %+v", o)
	}
	elsewhere, first := t.TempDir(), settings{"REGION_ID": "1", "REGION_BITS": "1"}
	try{args: strings.SplitN(command, "\n", 2)[0]}.in(t, elsewhere, first)
	d, other := serveIn(t, dir, zero), serveIn(t, elsewhere, first)
	for name, d := range map[string]*daemon{"region 0": d, "region 1": other} {
		d.ready()
		for _, id := range tag(d, 5000) {
			if before[id] {
				t.Fatalf("%s issues %s again", name, id)
			}
			before[id] = true
		}
	}
}
