//go:build unix

package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestE2ELeafFirstMinute: an empty folder, one command, and the curls of Leaf.
func TestE2ELeafFirstMinute(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").Status == "ok" })
	for _, want := range []string{"1", "2"} {
		a := d.want(segmentGet+demoTag, 200, 0)
		if a.body != want || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
			t.Errorf("got %q as %q, want %q as text", a.body, a.header.Get("Content-Type"), want)
		}
	}
	ids, a, err := d.take(segmentGet+demoTag, 3)
	if err != nil || !slices.Equal(ids, []int64{3, 4, 5}) {
		t.Errorf("a batch of three: %v, %d %q", err, a.status, a.body)
	}
	d.want(segmentGet+"nothing", 404, -2)
	d.want(segmentGet+demoTag+"?count=0", 400, -6)
	wantPages(t, d)
	wantDecodes(t, d)
}

// wantDecodes: the worker ID in a snowflake is that of /api/status, and the time
// is now.
func wantDecodes(t *testing.T, d *daemon) {
	t.Helper()
	id := d.want(snowflakeGet, 200, 0).body
	parts := fromJSON[struct{ Timestamp, WorkerID, SequenceID string }](t, d.want("/decodeSnowflakeId?snowflakeId="+id, 200, 0))
	status := d.flakeStatus()
	if status.State != "serving" || status.Mode != "mysql" || parts.WorkerID != fmt.Sprint(status.WorkerID) {
		t.Errorf("decoded to %+v, /api/status says %+v", parts, status)
	}
	ms, _, _ := strings.Cut(parts.Timestamp, "(")
	if at, err := strconv.ParseInt(ms, 10, 64); err != nil || time.Since(time.UnixMilli(at)).Abs() > time.Minute {
		t.Errorf("%q is of %s: %v", id, parts.Timestamp, err)
	}
	o := must(t, nil, "decode", "--kind", "snowflake", id)
	if !strings.Contains(o, "workerId") || !strings.Contains(o, parts.SequenceID) {
		t.Errorf("shardid decode: %s", o)
	}
}

// wantPages: /cache shows what the replica holds, /db what the table has, to
// programs and to people.
func wantPages(t *testing.T, d *daemon) {
	t.Helper()
	type row struct {
		Key          string
		Value0, Max0 int64
		MaxID, Step  int64
		MaxIDStr     string
	}
	for page, want := range map[string]row{
		"/cache": {Key: demoTag, Value0: 6, Max0: 2001, Step: 2000},
		"/db":    {Key: demoTag, MaxID: 2001, Step: 2000, MaxIDStr: "2001"},
	} {
		a, err := d.do("GET", page, "Accept", "application/json")
		if err != nil || a.status != 200 {
			t.Fatalf("%s: %v %d %s", page, err, a.status, a.body)
		}
		if rows := fromJSON[struct{ Tags []row }](t, a).Tags; !slices.Equal(rows, []row{want}) {
			t.Errorf("%s: %s, want %+v", page, a.body, want)
		}
		a = d.want(page, 200, 0)
		if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || !strings.Contains(a.body, demoTag) || !strings.Contains(a.body, "2001") {
			t.Errorf("%s as %s: %s", page, a.header.Get("Content-Type"), a.body)
		}
	}
}

// TestE2ELeafDisabled: modes that are switched off say so, and keep nobody from
// being ready.
func TestE2ELeafDisabled(t *testing.T) {
	story(t)
	d := serve(t, onlyLeaf().With(settings{"SEGMENT_ENABLED": "false", "SNOWFLAKE_ENABLED": "false"}), "--demo")
	eventually(t, startLimit, "ready", func() bool { a := d.get("/readyz"); return a.status == 200 && a.Status == "ok" })
	for _, target := range []string{segmentGet + demoTag, segmentGet + demoTag + "?count=5", snowflakeGet, snowflakeGet + "?count=5", "/cache", "/db"} {
		if a := d.want(target, 404, -9); !strings.Contains(a.Message, ".enabled") || a.ID != 0 || a.IDs != nil {
			t.Errorf("%s: %s", target, a.body)
		}
	}
	d.want("/decodeSnowflakeId?snowflakeId=1244913459358187520", 200, 0)
	d.want(aliceGet, 200, 0)
}

// TestE2ELeafTags: the tags of the segment mode on the command line.
func TestE2ELeafTags(t *testing.T) {
	story(t)
	for name, s := range map[string]settings{"sqlite": {}, "mariadb": onMariaDB(migrated(t))} {
		t.Run(name, func(t *testing.T) { tagCommands(t, t.TempDir(), s) })
	}
}

func tagCommands(t *testing.T, dir string, s settings) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct {
		args   string
		exit   int
		stdout string
		stderr string
	}{
		{"migrate", 0, "schema is at version", ""},
		{"tags", 0, "shardid tags add", ""},
		{"tags --json", 0, "[]", ""},
		{"tags add --tag orders --step 500 --max-id 50001 --description paid", 0, "50001", ""},
		{"tags add --tag 订单", 0, "订单", ""},
		{"tags add --tag orders", 1, "", `"orders": tag is already provisioned`},
		{"tags add --tag orders --step 0", 2, "", "step"},
		{"tags add --tag other --step 0", 2, "", "step"},
		{"tags add --tag other --step many", 2, "", "step"},
		{"tags add --tag other --max-id 0", 2, "", "max_id"},
		{"tags add --tag=", 2, "", "tag"},
		{"tags add --tag " + long, 2, "", "128"},
		{"tags add", 2, "", `required flag(s) "tag"`},
		{"tags add --tag other extra", 2, "", "extra"},
		{"tags extra", 2, "", "extra"},
		{"tags", 0, "orders  50001    500   ", ""},
		{"tags --json", 0, `{"tag":"orders","maxId":50001,"maxIdStr":"50001","step":500,"description":"paid"`, ""},
	} {
		o := shardidIn(t, dir, s, strings.Fields(c.args)...)
		if o.exit != c.exit || !strings.Contains(o.stdout, c.stdout) || !strings.Contains(o.stderr, c.stderr) || c.exit != 0 && o.stdout != "" {
			t.Errorf("%.60s: %+v, want exit %d, %q, %q", c.args, o, c.exit, c.stdout, c.stderr)
		}
		wantOneLine(t, o)
	}
}

// TestE2ELeafEpochChanged: an epoch and widths that IDs were issued with stay.
func TestE2ELeafEpochChanged(t *testing.T) {
	story(t)
	i := newInstance(t, "instance", "10.0.0.1:8080", nil, nil)
	i.start()
	i.serves(startLimit)
	i.stop()
	for key, value := range map[string]string{"epoch_ms": "1600000000000", "worker_bits": "9", "seq_bits": "11"} {
		o := shardidIn(t, i.dir, i.settings, "serve", "--server.addr", "127.0.0.1:0", "--snowflake."+key, value)
		for _, part := range []string{key + "=" + value, "epoch_ms=1288834974657"} {
			if o.exit != 1 || !strings.Contains(o.stderr, part) {
				t.Errorf("%+v: exit 1 and %q are wanted", o, part)
			}
		}
		if lines := strings.Count(o.stderr, "shardid: "); lines != 1 {
			t.Errorf("%d explanations: %s", lines, o.stderr)
		}
	}
	i.start()
	i.serves(startLimit)
	i.books.Settle(t, "with the old epoch again")
}

// TestE2ELeafJavaScript: with 5 and 7 bits snowflakes fit JavaScript's numbers, and each
// place that takes them apart knows the widths.
func TestE2ELeafJavaScript(t *testing.T) {
	story(t)
	widths := []string{"--snowflake.worker_bits", "5", "--snowflake.seq_bits", "7", "--snowflake.sequence_start", "16", "--snowflake.epoch_ms", "1767225600000"}
	d := serve(t, nil, append([]string{"--demo"}, widths...)...)
	eventually(t, startLimit, "the mode serves", func() bool { return d.get("/api/snowflake/get/x").status == 200 })
	seen := map[string]bool{}
	for range 3 {
		for id := range strings.Lines(d.want("/api/snowflake/get/x"+"?count=1000", 200, 0).body) {
			id = strings.TrimSpace(id)
			if n := number64(t, id); seen[id] || n <= 0 || n >= 1<<53 {
				t.Fatalf("%s is no number of JavaScript, or came twice: %v", id, seen[id])
			}
			seen[id] = true
		}
	}
	for id := range seen {
		when := 1767225600000 + number64(t, id)>>12
		worker, seq := number64(t, id)>>7&31, number64(t, id)&127
		leaf := d.get("/decodeSnowflakeId?snowflakeId=" + id).body
		if want := fmt.Sprintf(`"workerId":"%d","sequenceId":"%d"`, worker, seq); !strings.Contains(leaf, fmt.Sprint(when)) || !strings.Contains(leaf, want) {
			t.Errorf("%s: %s, want %d and %s", id, leaf, when, want)
		}
		line := must(t, nil, append([]string{"decode", "--json", "--kind", "snowflake", id}, widths...)...)
		if !strings.Contains(line, fmt.Sprintf(`"timestamp":%d`, when)) || !strings.Contains(line, fmt.Sprintf(`"workerId":%d`, worker)) {
			t.Errorf("%s: %s", id, line)
		}
		break
	}
}
