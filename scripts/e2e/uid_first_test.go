//go:build unix

package e2e_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// uidParsed is Baidu's parseUID: four strings.
type uidParsed struct{ UID, Timestamp, WorkerID, Sequence string }

func parseUID(t *testing.T, d *daemon, uid string) uidParsed {
	t.Helper()
	return fromJSON[uidParsed](t, d.want("/api/uid/parse/"+uid, 200, 0))
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
	return fromJSON[struct{ UID uidView }](t, d.want("/api/status", 200, 0)).UID
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
	check.Deep(t)
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
