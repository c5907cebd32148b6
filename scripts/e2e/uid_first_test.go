//go:build unix

package e2e_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// uidParsed is Baidu's parseUID: four strings.
type uidParsed struct{ UID, Timestamp, WorkerID, Sequence string }

func parseUID(t *testing.T, d *daemon, uid string) (p uidParsed) {
	t.Helper()
	a := d.want("/api/uid/parse/"+uid, 200, 0)
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return p
}

// uidView is what /api/status says of the mode.
type uidView struct {
	Mode                     string
	WorkerID, NodeID         int64
	RingSize, RingFilled     int64
	AheadSeconds             float64
	MarkedUntil              time.Time
	RemainingLifetimeSeconds int64
}

func uidStatus(t *testing.T, d *daemon) uidView {
	t.Helper()
	var s struct{ UID uidView }
	if err := json.Unmarshal([]byte(d.want("/api/status", 200, 0).body), &s); err != nil {
		t.Fatal(err)
	}
	return s.UID
}

// serveUID starts a replica and waits for its first UID, which is entered.
func serveUID(t *testing.T, dir string, s settings, books *uidBooks) *daemon {
	t.Helper()
	d := serveIn(t, dir, s)
	eventually(t, startLimit, "the first UID", func() bool { return takeUIDs(d, books, 1).status == 200 })
	return d
}

// TestE2EUIDFirstMinute: one command, one curl, and the ID taken apart in every
// way there is.
func TestE2EUIDFirstMinute(t *testing.T) {
	story(t)
	d := serve(t, settings{"TIME_ZONE": "UTC"}, "--demo")
	var a answer
	eventually(t, startLimit, "the first UID", func() bool { a = d.get("/api/uid/get"); return a.status == 200 })
	uid := a.body
	if !regexp.MustCompile(`^[1-9]\d{17,18}$`).MatchString(uid) || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %q", a.header, uid)
	}
	p := parseUID(t, d, uid)
	at, err := time.Parse(time.DateTime, p.Timestamp)
	if age := time.Since(at); err != nil || age < 0 || age > startLimit+10*time.Second || p.UID != uid || p.WorkerID != "1" || p.Sequence != "0" {
		t.Errorf("%+v, %v old, %v", p, age, err)
	}
	wantDecoded(t, d, uid, at)

	next, err := strconv.ParseInt(uid, 10, 64)
	if a := d.want("/api/uid/get", 200, 0); err != nil || a.body != strconv.FormatInt(next+1, 10) {
		t.Errorf("%s comes after %s", a.body, uid)
	}
	if ids, _, err := d.take(uidGet, 3); err != nil || len(ids) != 3 || ids[0] != next+2 || ids[2] != next+4 {
		t.Errorf("%v, %v", ids, err)
	}
	one, err := d.do(http.MethodGet, "/api/uid/get", "Accept", "application/json")
	if err != nil || one.body != strconv.FormatInt(next+5, 10) || !strings.HasPrefix(one.header.Get("Content-Type"), "application/json") {
		t.Errorf("%v: %s", err, one.body)
	}
	if m := d.get("/metrics").body; !strings.Contains(m, "\nshardid_uid_issued_total 6\n") || !strings.Contains(m, "\nshardid_uid_ring_size 65536\n") {
		t.Errorf("6 UIDs were issued:\n%s", m)
	}
}

// wantDecoded: the command and /decode agree with /api/uid/parse.
func wantDecoded(t *testing.T, d *daemon, uid string, at time.Time) {
	t.Helper()
	out := must(t, nil, "decode", "--kind", "uid", uid)
	want := "timestamp  " + strconv.FormatInt(at.Unix(), 10) + "\ntime       " + at.Format(time.RFC3339) + "\nworkerId   1\nsequence   0\n"
	// The same digits are a snowflake of the past too, as the hint says.
	hint := regexp.MustCompile(`^(with --kind snowflake: \d{4}-\d\d-\d\dT\S+Z, worker \d+\n)?$`)
	if rest, ok := strings.CutPrefix(out, want); !ok || !hint.MatchString(rest) {
		t.Errorf("got %q, want %q", out, want)
	}
	body := d.want("/decode?kind=uid&id="+uid, 200, 0).body
	if !strings.HasSuffix(body, `"timestamp":`+strconv.FormatInt(at.Unix(), 10)+`,"time":"`+at.Format(time.RFC3339)+`","workerId":1,"sequence":0}`) {
		t.Errorf("/decode: %s", body)
	}
}

// TestE2EUIDParse: Baidu's own example with Baidu's epoch, what is no UID, and
// requests that get none. The example's time bits have run out, so nothing is
// issued either; it can be read all the same.
func TestE2EUIDParse(t *testing.T) {
	story(t)
	d := serve(t, settings{"UID_EPOCH": "2016-05-20T00:00:00+08:00", "TIME_ZONE": "Asia/Shanghai"})
	if a := d.want("/api/uid/parse/3200169789968523265", 200, 0); a.body != `{"UID":"3200169789968523265","timestamp":"2019-05-02 23:26:39","workerId":"21","sequence":"1"}` {
		t.Errorf("Baidu's example: %s", a.body)
	}
	if p := parseUID(t, d, "9223372036854775807"); p != (uidParsed{"9223372036854775807", "2024-11-20 21:24:15", "4194303", "8191"}) {
		t.Errorf("the last UID there is: %+v", p)
	}
	for _, no := range []string{"-1", "-3200169789968523265", "0", "9223372036854775808", "18446744073709551617", "abc", "1.5", "+5", "0x10", "%205", "1e3", ""} {
		if a := d.want("/api/uid/parse/"+no, 400, -6); a.Message == "" || strings.Contains(a.body, "timestamp") {
			t.Errorf("%s: %s", no, a.body)
		}
		if no != "" {
			d.want("/decode?kind=uid&id="+no, 400, -6)
		}
	}
	for _, target := range []string{uidTarget(0), uidTarget(10001), "/api/uid/get?count=-1", "/api/uid/get?count=x", "/api/uid/get?count=1&count=2"} {
		d.want(target, 400, -6)
	}
	for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodDelete} {
		if a, err := d.do(method, "/api/uid/get"); err != nil || a.status != 405 || a.IDStr != "" {
			t.Errorf("%s: %v, %d %s", method, err, a.status, a.body)
		}
	}
}

// TestE2EUIDDisabled: the mode can be left out, and is missed by nobody else.
func TestE2EUIDDisabled(t *testing.T) {
	story(t)
	d := serve(t, settings{"UID_ENABLED": "false", "UID_EPOCH": "2016-05-20"}, "--demo")
	d.want("/api/uid/get", 404, -9)
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").Status == "ok" })
	d.want("/api/uid/parse/3200169789968523265", 200, 0)
}

// TestE2EUIDTimeRanOut: a clock that the time bits cannot hold gets a refusal that
// says so, never a negative ID, and the other modes go on.
func TestE2EUIDTimeRanOut(t *testing.T) {
	story(t)
	for _, c := range []struct{ mode, epoch, says string }{
		{"cached", "2016-05-20", "past 2024-11-20T21:24:15Z, the last second of 28 bits since 2016-05-20T00:00:00Z"},
		{"default", "2016-05-20", "past 2024-11-20T21:24:15Z, the last second of 28 bits since 2016-05-20T00:00:00Z"},
		{"default", "2099-01-01", "not after the epoch 2099-01-01T00:00:00Z: set the clock"},
	} {
		t.Run(c.mode+" "+c.epoch, func(t *testing.T) {
			d := serve(t, settings{"UID_MODE": c.mode, "UID_EPOCH": c.epoch}, "--demo")
			var a answer
			eventually(t, startLimit, "refused for good", func() bool { a = d.get("/api/uid/get"); return a.Code != -1 })
			for range 50 {
				if a = d.want(uidTarget(3), 503, -8); !uidRefused(a) || !strings.Contains(a.Message, c.says) {
					t.Fatalf("%v %s", a.header, a.body)
				}
			}
			if a := d.want("/healthz", 503, 0); !strings.Contains(a.body, c.says) {
				t.Errorf("/healthz: %s", a.body)
			}
			eventually(t, startLimit, "the queue mode serves", func() bool { return d.get(aliceGet).status == 200 })
		})
	}
}

// TestE2EUIDToTheLastSecond: the ring runs into the end of the time bits, whose
// last IDs are issued; then there are none.
func TestE2EUIDToTheLastSecond(t *testing.T) {
	story(t)
	const left, span = 60, 1<<20 - 1 // seconds
	epoch := time.Now().Add((left - span) * time.Second).UTC().Truncate(time.Second)
	books := &uidBooks{bits: uidBits{worker: 30, seq: 13, epoch: epoch.Unix()}}
	d := serveUID(t, t.TempDir(), settings{
		"UID_TIME_BITS": "20", "UID_WORKER_BITS": "30", "UID_SEQ_BITS": "13", "UID_EPOCH": epoch.Format(time.RFC3339),
	}, books)
	var a answer
	eventually(t, startLimit, "the end", func() bool {
		drainUIDs(d, books, 4096)
		a = drainUIDs(d, books, 1)
		return strings.Contains(a.Message, "the last second of 20 bits")
	})
	last := epoch.Unix() + span
	seconds := books.by(books.bits.secondOf)
	if seconds[last] != 8192 || len(seconds) < 10 || seconds[last+1] != 0 {
		t.Errorf("the last second is %d: %v", last, seconds)
	}
	for range 20 {
		if a := takeUIDs(d, books, 1); !uidRefused(a) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if v := uidStatus(t, d); v.RemainingLifetimeSeconds != 0 || len(d.Lines(`"level":"WARN"`, "time bits of UIDs run out")) == 0 {
		t.Errorf("%+v\n%s", v, d.Output())
	}
	books.Settle(t)
}

// drainUIDs takes batches until one is refused; it gives the refusal.
func drainUIDs(d *daemon, books *uidBooks, count int) answer {
	d.t.Helper()
	for {
		if a := takeUIDs(d, books, count); a.status != http.StatusOK {
			return a
		}
	}
}
