//go:build unix

package stories_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

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
	draw := func(who string, d *daemon) {
		t.Helper()
		var a answer
		eventually(t, startLimit, "IDs", func() bool {
			a = d.get("/v1/segment/orders/ids?count=5000")
			return len(a.IDs) == 5000
		})
		for _, id := range a.IDs {
			if before[string(id)] {
				t.Fatalf("%s issues %s again", who, id)
			}
			before[string(id)] = true
		}
	}
	draw("the deployment", d)
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
	d.ready()
	draw("region 0", d)
	other.ready()
	draw("region 1", other)
}
