//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestE2EProvisionFile: one command makes every app of a file on a database server, a second one changes
// nothing, one that is refused does not keep the others away, and a file with a mistake makes none.
func TestE2EProvisionFile(t *testing.T) {
	check.Deep(t)
	story(t)
	dir, dsn := t.TempDir(), migrated(t)
	on := onMariaDB(dsn)
	provision := func(exit int, says, text string) outcome {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "apps.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := shardidIn(t, dir, on, "provision", "--file", "apps.yaml", "--json")
		if o.exit != exit || !strings.Contains(o.stdout+o.stderr, says) || strings.Count(o.stderr, "\n") > 2 {
			t.Errorf("%s: %+v, want %q", text, o, says)
		}
		return o
	}
	var all strings.Builder
	for id := range 256 {
		fmt.Fprintf(&all, "- {id: %d, name: app %[1]d}\n", id)
	}
	provision(2, "apps.yaml:257: id: has a value of another kind", all.String()+"- {id: 256, name: one too many}\n")
	if n := number(t, dsn, "SELECT COUNT(*) FROM id_alloc"); n != 0 {
		t.Errorf("a file with a mistake made %d shards", n)
	}
	if o := provision(0, `{"appId":255,"name":"app 255","action":"made"}`, all.String()); len(o.audit) != 256 {
		t.Errorf("%d audit lines", len(o.audit))
	}
	if o := provision(0, `{"appId":255,"name":"app 255","action":"there already"}`, all.String()); len(o.audit) != 0 {
		t.Errorf("the second time: %q", o.audit)
	}
	if n := number(t, dsn, "SELECT COUNT(*) FROM id_alloc"); n != 256*64 {
		t.Errorf("%d shards", n)
	}
	must(t, on, "apps", "delete", "--app", "9", "--confirm", "app 9")
	o := provision(1, "1 of 2 apps are not provisioned: correct what follows and run this again, which leaves the others as they are\nshardid: provision app 8: ",
		"- {id: 8, name: other}\n- {id: 9, name: back, step: 77}\n")
	if o.stdout != `[{"appId":8,"name":"other","action":"failed"},{"appId":9,"name":"back","action":"made"}]`+"\n" {
		t.Errorf("the report: %s", o.stdout)
	}
	if n := number(t, dsn, "SELECT MIN(step) FROM id_alloc WHERE app_id = 9"); n != 77 {
		t.Errorf("step %d", n)
	}
	on = onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t)) // without tables
	if o := provision(1, "2 of 2 apps are not provisioned", "- {id: 1, name: a}\n- {id: 2, name: b}\n"); !strings.Contains(o.stderr, "run `shardid migrate`") ||
		o.stdout != `[{"appId":1,"name":"a","action":"failed"},{"appId":2,"name":"b","action":"not tried"}]`+"\n" {
		t.Errorf("without tables: %+v", o)
	}
}
