//go:build unix

package stories_test

import (
	"strings"
	"testing"

	"shardid/scripts/testserver"
)

// TestErrorTable: what the database lacks is refused with advice, and nothing is issued: the next
// ID is the one after the last. The row of an app whose number does not fit into an ID, which only a
// server gets that checks nothing, is left out with a warning: no ID of app 44, which 300 is in eight
// bits, comes of it. What the requests alone can do wrong is told by the tests of httpapi.
func TestErrorTable(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	query(t, dsn, "DELETE FROM id_alloc WHERE app_id = 1 AND shard_id = 18") // hello's
	out, err := mariadb(t, dsn, "CALL alloc_initData(300, 'big', 'by the procedure')")
	if err == nil || !strings.Contains(strings.ToLower(out), "constraint") {
		t.Errorf("app 300: %v: %s, want that a constraint refuses it", err, out)
	}
	out, err = mariadb(t, dsn, testserver.IgnoreCheck("id_alloc", "id_alloc_app_id_is_0_to_255")+
		"; INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (300, 'big', 0)")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := serve(t, onMariaDB(dsn).With(settings{"UID_ENABLED": "false"}))
	d.ready()
	last := d.want(aliceGet, 200, 0).ID
	for target, want := range map[string]struct {
		code int
		says string
	}{
		"/get?appId=2&gatePass=alice":  {-2, "shardid provision"},
		"/get?appId=44&gatePass=alice": {-2, "shardid provision"},
		helloGet:                       {-3, "id_alloc"},
		segmentGet + "tag":             {-2, "shardid tags add"},
		"/api/uid/get":                 {-9, "uid.enabled"},
	} {
		if a := d.want(target, 404, want.code); !strings.Contains(a.Message, want.says) {
			t.Errorf("%s: %s, want %q", target, a.body, want.says)
		}
		if last += 1 << 14; d.want(aliceGet, 200, 0).ID != last {
			t.Errorf("%s: the next ID is not %d: something was issued", target, last)
		}
	}
	if len(d.Lines(`"level":"WARN"`, "app_id 300")) == 0 {
		t.Errorf("no warning:\n%s", d.Output())
	}
	if list := must(t, onMariaDB(dsn), "apps"); strings.Contains(list, "big") {
		t.Errorf("apps shows it: %s", list)
	}
}
