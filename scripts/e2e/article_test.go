//go:build unix

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

// articleTable is the table as the original article published it.
const articleTable = `CREATE TABLE id_alloc (app_id int(11) NOT NULL, app_name varchar(128) NOT NULL,
	max_id bigint(20) NOT NULL DEFAULT '1', shard_id int(11) NOT NULL, step int(11) NOT NULL DEFAULT '1000',
	description varchar(255) DEFAULT NULL, create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
	update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
	max_limit_id bigint(20) DEFAULT NULL, PRIMARY KEY (app_id, shard_id)) ENGINE=InnoDB DEFAULT CHARSET=utf8`

// articleApp gives all rows of an app, whose shards have handed out max_id.
func articleApp(app int, name string, maxID int64, limit string) string {
	rows := make([]string, 64)
	for shard := range rows {
		rows[shard] = fmt.Sprintf("(%d, '%s', %d, %d, %s)", app, name, maxID, shard, limit)
	}
	return "INSERT INTO id_alloc (app_id, app_name, max_id, shard_id, max_limit_id) VALUES " + strings.Join(rows, ", ")
}

// TestE2EArticleLimits: an app of the article's table that is past its limit is named by
// migrate and doctor and refused, which the log tells once; its operator chooses wrap.
func TestE2EArticleLimits(t *testing.T) {
	story(t)
	const limit = 1000<<14 | 7
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	query(t, dsn, articleTable, articleApp(7, "orders", 2000, fmt.Sprint(limit)),
		articleApp(8, "notes", 2000, "NULL"), articleApp(9, "wide", 2000, fmt.Sprint(int64(1)<<40)))
	s := onMariaDB(dsn).with(onRedis(testserver.Redis(t).Addr))
	out := must(t, s, "migrate")
	choose := `shardid apps set --app 7 --limit-policy wrap --confirm "orders"`
	for _, want := range []string{"limit of app 7 (orders): max_limit_id 16384007, policy reject", choose, "app 9 (wide)"} {
		if !strings.Contains(out, want) {
			t.Errorf("migrate does not say %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, "notes") {
		t.Errorf("an app without a limit in\n%s", out)
	}
	if o := shardid(t, s, "doctor"); o.exit != 0 || !strings.Contains(o.stdout, choose) {
		t.Errorf("doctor does not say %s: %+v", choose, o)
	}
	d := serve(t, s.with(settings{"QUEUE_RELOAD_CRON": "* * * * * *"}))
	d.ready()
	for range 20 {
		d.want("/get?appId=7&gatePass=alice", 409, -5)
		d.want("/get?appId=7&gatePass=hello", 409, -5)
	}
	if told := d.lines(`"level":"WARN"`, "reached its limit", "--limit-policy wrap"); len(told) != 1 {
		t.Errorf("%d warnings, want 1:\n%s", len(told), d.output())
	}
	for _, c := range []struct{ args, says string }{
		{"apps set --app 7 --limit-policy wrap", "confirm it"},
		{"apps set --app 7 --limit-policy wrap --confirm notes", `which is "orders"`},
		{"apps set --app 7 --limit-policy wrap --confirm orders --max-limit-id 16400391", "may have been issued"}, // another fold
	} {
		if o := shardid(t, s, strings.Fields(c.args)...); o.exit == 0 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: %+v", c.args, o)
		}
	}
	if o := shardid(t, s, "apps", "set", "--app", "7", "--limit-policy", "wrap", "--confirm", "orders"); o.exit != 0 {
		t.Fatalf("%+v", o)
	}
	eventually(t, 10*time.Second, "the app wraps", func() bool { return d.get("/get?appId=7&gatePass=alice").status == 200 })
	first := int64(2001<<14|7) % limit
	for range 3 {
		if a := d.want("/get?appId=7&gatePass=alice", 200, 0); a.ID < first || (a.ID-first)%(1<<14) != 0 {
			t.Errorf("%d is no ID above index 2000, folded at %d", a.ID, limit)
		}
	}
	if out := must(t, s, "migrate"); strings.Contains(out, "orders") || !strings.Contains(out, "app 9 (wide)") {
		t.Errorf("after the choice: %s", out)
	}
}
