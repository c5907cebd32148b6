//go:build unix

package e2e_test

import (
	"strings"
	"testing"

	"shardid/scripts/testserver"
)

// TestE2EApp300: an app whose number does not fit into an ID cannot be
// provisioned by any road. 300 would be 44 in eight bits.
func TestE2EApp300(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "44", "--name", "innocent")

	o := shardid(t, onMariaDB(dsn), "provision", "--app", "300", "--name", "big")
	if o.exit != 2 || !strings.Contains(o.stderr, "0…255") || strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("provision: %+v", o)
	}
	for _, statement := range []string{
		"CALL alloc_initData(300, 'big', 'by the procedure')",
		"CALL alloc_initData(-1, 'negative', '')",
		"INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (300, 'big', 0)",
		"INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (45, 'many shards', 64)",
		"UPDATE id_alloc SET app_id = 300 WHERE app_id = 44",
	} {
		if out, err := mariadb(t, dsn, statement); err == nil || !strings.Contains(strings.ToLower(out), "constraint") {
			t.Errorf("%s: %v: %s", statement, err, out)
		}
	}
	if _, err := mariadb(t, dsn, "INSERT IGNORE INTO id_alloc (app_id, app_name, shard_id) VALUES (300, 'big', 0)"); err != nil {
		t.Log("INSERT IGNORE:", err)
	}
	if n := number(t, dsn, "SELECT COUNT(*) FROM id_alloc WHERE app_id <> 44 OR shard_id > 63"); n != 0 {
		t.Errorf("%d rows that must not be", n)
	}
}

// TestE2EApp300Forced: with the server's checks switched off the row gets in,
// and is left out with a warning: no ID of app 44 comes of it.
func TestE2EApp300Forced(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	out, err := mariadb(t, dsn, testserver.IgnoreCheck("id_alloc", "id_alloc_app_id_is_0_to_255")+"; INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (300, 'big', 0)")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if list := must(t, onMariaDB(dsn), "apps"); strings.Contains(list, "300") || strings.Contains(list, "big") {
		t.Errorf("apps shows it: %s", list)
	}
	d := serve(t, onMariaDB(dsn))
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	d.want("/get?appId=44&gatePass=alice", 404, -2)
	d.want("/get?appId=300&gatePass=alice", 400, -6)
	d.want(aliceGet, 200, 0)
	if n := len(d.Lines(`"level":"WARN"`, "app_id 300")); n == 0 || n > 3 {
		t.Errorf("%d warnings:\n%s", n, d.Output())
	}
}
