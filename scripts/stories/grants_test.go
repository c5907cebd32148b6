//go:build unix

package stories_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// sectionOf gives the lines of one section of a file.
func sectionOf(t *testing.T, file, pattern string) []string {
	t.Helper()
	section := regexp.MustCompile(pattern).FindStringSubmatch(readPage(t, file))
	if section == nil {
		t.Fatalf("%s has no section %s", file, pattern)
	}
	return strings.Split(section[1], "\n")
}

// grantsOf gives the statements of a section of deploy/grants.sql.
func grantsOf(t *testing.T, name string) []string {
	t.Helper()
	lines := sectionOf(t, "../../deploy/grants.sql", `(?s)\n-- \[`+name+`\] (.*?)\n(?:\n|$)`)[1:]
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "--") })
}

// permit runs the commands of blocks of docs/stores.md, such as "redis queue", on a server.
func permit(t *testing.T, server *testserver.RedisServer, blocks ...string) {
	t.Helper()
	for _, block := range blocks {
		for _, command := range sectionOf(t, docs+"stores.md", "(?s)\n```redis "+block+"\n(.*?)\n```\n") {
			var args []any
			for _, word := range strings.Fields(command) {
				args = append(args, word)
			}
			if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
		}
	}
}

// asUser is a connection to database shardid as one of the documented users.
func asUser(db *testserver.MariaDBServer, user string) settings {
	return onMariaDB(user + ":change-me@tcp(127.0.0.1:" + strconv.Itoa(db.Port) + ")/shardid")
}

// TestGrants: with exactly the grants of deploy/grants.sql and the ACL of docs/stores.md each mode issues IDs, without
// its own section it does not, and administration and doctor have what they need.
func TestGrants(t *testing.T) {
	story(t)
	db, redis := testserver.MariaDB(t, "--log-bin=b", "--server-id=1", "--sync-binlog=1"), testserver.Redis(t)
	grant := func(block string) { query(t, db.DSN(""), grantsOf(t, block)...) }
	query(t, db.DSN(""), "CREATE DATABASE shardid")
	grant("migrate")
	must(t, asUser(db, "shardid_migrate"), "migrate")
	must(t, asUser(db, "shardid_migrate"), "migrate")
	must(t, onMariaDB(db.DSN("shardid")), "provision", "--app", "1", "--name", "test")
	must(t, onMariaDB(db.DSN("shardid")), "tags", "add", "--tag", "orders")
	must(t, onMariaDB(db.DSN("shardid")), "names", "add", "--name", "orders")
	must(t, onMariaDB(db.DSN("shardid")), "spaces", "add", "--space", "chat")

	grant("service")
	permit(t, redis, "queue")
	s := asUser(db, "shardid").With(as("shardid", "change-me", onRedis(redis.Addr)))
	d := serve(t, s)
	answers := func(d *daemon, target string) {
		t.Helper()
		eventually(t, startLimit, target, func() bool { return d.get(target).status == 200 })
	}
	answers(d, aliceGet)
	answers(d, "/api/segment/get/orders")
	answers(d, "/v1/sequence/chat/ids?key=room42")
	d.lease("orders", "pod-1")
	for _, c := range []struct {
		d             *daemon
		block, target string
	}{
		{d, "snowflake", "/api/snowflake/get/x"},
		{d, "uid", "/api/uid/get"},
	} {
		if a := c.d.get(c.target); a.status == 200 {
			t.Errorf("%s without its grants: %s", c.target, a.body)
		}
		grant(c.block)
		answers(c.d, c.target)
	}
	if ready := d.get("/readyz"); ready.Status != "ok" {
		t.Errorf("/readyz: %s", ready.body)
	}

	admin := [][]string{
		{"provision", "--app", "2", "--name", "second"}, {"apps", "set", "--app", "2", "--step", "2000"}, {"apps"},
		{"apps", "delete", "--app", "2", "--confirm", "second"}, {"provision", "--app", "2", "--name", "again"},
		{"confirm", "--app", "1", "--name", "test"},
		{"tags", "add", "--tag", "b"}, {"tags", "set", "--tag", "b", "--step", "10"},
		{"tags", "delete", "--tag", "b", "--confirm", "b"}, {"tags"},
		{"names", "add", "--name", "n"}, {"names", "set", "--name", "n", "--hold", "5m"},
		{"names", "delete", "--name", "n", "--confirm", "n"}, {"names"}, {"workers"},
		{"spaces", "add", "--space", "s"}, {"spaces", "set", "--space", "s", "--step", "5"},
		{"spaces", "delete", "--space", "s", "--confirm", "s"}, {"spaces"},
	}
	if o := shardid(t, s, admin[0]...); o.exit != 1 || !strings.Contains(o.stderr, "grant the user of database.dsn") {
		t.Errorf("%v without its grants: %+v", admin[0], o)
	}
	grant("administration")
	for _, args := range admin {
		must(t, s, args...)
	}
	if o := shardid(t, s, "doctor"); !strings.Contains(o.stdout, "CONFIG GET is refused") {
		t.Errorf("doctor reads all without its rights:\n%s", o.stdout)
	}
	grant("doctor")
	permit(t, redis, "doctor")
	if o := shardid(t, s, "doctor"); o.exit != 0 || strings.Contains(o.stdout, "unknown") {
		t.Errorf("doctor: %+v", o)
	}

	// The worker IDs of Redis, once those of the database are given up.
	d.stops(syscall.SIGTERM, 15*time.Second)
	must(t, s, "confirm", "--registry")
	byRedis := serve(t, s.With(byRedis(redis.Addr)))
	answers(byRedis, aliceGet)
	if a := byRedis.get("/api/snowflake/get/x"); a.status == 200 {
		t.Errorf("snowflake without its ACL: %s", a.body)
	}
	permit(t, redis, "snowflake")
	answers(byRedis, "/api/snowflake/get/x")
}

// TestACLOfTopologies: the same ACL on a cluster, and behind sentinels.
func TestACLOfTopologies(t *testing.T) {
	check.Deep(t)
	story(t)
	cluster, behind := testserver.Cluster(t), testserver.Sentinel(t)
	for _, node := range cluster.Nodes {
		permit(t, node, "queue", "cluster")
	}
	for _, server := range []*testserver.RedisServer{behind.Master, behind.Replica} {
		permit(t, server, "queue")
	}
	for _, server := range behind.Sentinels {
		permit(t, server, "sentinel")
	}
	sentinel := onSentinel(behind)
	sentinel["REDIS_URL"] += "&sentinel_username=shardid&sentinel_password=change-me"
	for name, s := range map[string]settings{"cluster": onCluster(cluster), "sentinel": sentinel} {
		t.Run(name, func(t *testing.T) {
			d := serve(t, as("shardid", "change-me", s), "--demo")
			eventually(t, startLimit, "served", func() bool { return d.get(aliceGet).status == 200 })
			d.ready()
			if name == "sentinel" {
				behind.DownAfter(t, 500*time.Millisecond)
				behind.Master.Kill()
				behind.MasterAddr(t, behind.Master.Addr)
				eventually(t, startLimit, "served after a failover", func() bool {
					return d.get(aliceGet).status == 200
				})
			}
		})
	}
}
