//go:build unix

package stories_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/goccy/go-yaml"
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
	return onMariaDB(user + ":change-me@tcp(" + db.Addr() + ")/shardid")
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
	must(t, onMariaDB(db.DSN("shardid")), "tags", "add", "--tag", "gone")

	grant("service")
	permit(t, redis, "queue")
	s := asUser(db, "shardid").With(as("shardid", "change-me", onRedis(redis.Addr)))
	d := serve(t, s)
	for _, target := range []string{
		aliceGet, segmentGet + "orders", segmentGet + "gone", "/v1/sequence/chat/ids?key=room42",
	} {
		eventuallyID(t, d, target)
	}
	d.lease("orders")
	for block, target := range map[string]string{"snowflake": snowflakeGet, "uid": uidGet} {
		if a := d.get(target); a.status == 200 {
			t.Errorf("%s without its grants: %s", target, a.body)
		}
		grant(block)
		eventuallyID(t, d, target)
	}
	// After a restart Redis tells how far what was deleted had come.
	must(t, onMariaDB(db.DSN("shardid")), "tags", "delete", "--tag", "gone", "--confirm", "gone")
	changes := func() string {
		return oneRow(t, db.DSN("shardid"),
			"SELECT CONCAT(COUNT(*), ' ', COALESCE(MIN(settled), 1)) FROM shardid_change")
	}
	check.Equal(t, changes(), "0 1", "before the restart")
	db.Restart()
	eventually(t, startLimit, "the restart is settled", func() bool { return changes() == "1 1" })
	eventually(t, startLimit, "/readyz is ok", func() bool { return d.get("/readyz").Status == "ok" })
	if replicas := d.get("/api/replicas"); strings.Contains(replicas.body, `"message"`) {
		t.Errorf("/api/replicas: %s", replicas.body)
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
	grant("doctor")
	if o := shardid(t, s, "doctor"); o.exit != 0 || strings.Contains(o.stdout, "unknown") {
		t.Errorf("doctor: %+v", o)
	}
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
	sentinels := strings.Join(behind.Addrs, ",") + "?master_name=" + behind.MasterName +
		"&sentinel_username=shardid&sentinel_password=change-me"
	for name, addrs := range map[string]string{"cluster": strings.Join(cluster.Addrs, ","), "sentinel": sentinels} {
		t.Run(name, func(t *testing.T) {
			d := serve(t, as("shardid", "change-me", onRedis(addrs)), "--demo")
			eventuallyID(t, d, aliceGet)
			d.ready()
			if name == "sentinel" {
				behind.DownAfter(t, 500*time.Millisecond)
				behind.Master.Kill()
				behind.MasterAddr(t, behind.Master.Addr)
				eventuallyID(t, d, aliceGet)
			}
		})
	}
}

// composed is deploy/compose/compose.yaml, the variables that it needs replaced by a password.
type composed struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Environment map[string]string
		Healthcheck struct{ Test []string }
	}
}

func readCompose(t *testing.T) (c composed) {
	t.Helper()
	text := regexp.MustCompile(`\$\{\w+:-\}`).ReplaceAllString(readPage(t, "../../deploy/compose/compose.yaml"), "")
	text = regexp.MustCompile(`\$\{\w+[^}]*\}`).ReplaceAllString(text, "hunter2-streng-geheim")
	check.Must(t, yaml.Unmarshal([]byte(text), &c))
	return c
}

// settings are a service's, the hosts replaced by what runs here.
func (c composed) settings(service string, hosts ...string) settings {
	s := settings{}
	for name, value := range c.Services[service].Environment {
		if key, ok := strings.CutPrefix(name, "SHARDID_"); ok {
			s[key] = strings.NewReplacer(hosts...).Replace(value)
		}
	}
	return s
}

// stores starts what the file calls mysql and valkey, with its arguments, users and
// passwords, and gives what to replace their names by.
func (c composed) stores(t *testing.T) (hosts []string) {
	t.Helper()
	args, command := c.Services["mysql"].Command, c.Services["valkey"].Command
	if testserver.OnMySQL() { // as it is in the image
		args = append([]string{"--log-bin=binlog", "--server-id=1"}, args...)
	}
	db := testserver.MariaDB(t, args...)
	env := c.Services["mysql"].Environment
	query(t, db.DSN(""), "CREATE DATABASE "+env["MYSQL_DATABASE"],
		fmt.Sprintf("CREATE USER %s IDENTIFIED BY '%s'", env["MYSQL_USER"], env["MYSQL_PASSWORD"]),
		fmt.Sprintf("GRANT ALL ON %s.* TO %s", env["MYSQL_DATABASE"], env["MYSQL_USER"]))
	n := len(command)
	if command[0] != "valkey-server" || command[n-2] != "--requirepass" {
		t.Fatalf("valkey: %v", command)
	}
	redis := testserver.Redis(t, command[1:n-2]...)
	check.Must(t, redis.Client().ConfigSet(t.Context(), "requirepass", command[n-1]).Err())
	return []string{"mysql:3306", db.Addr(), "valkey:6379", redis.Addr}
}

// healthy runs a store's health check as the engine does, with clients in the PATH, against what listens at
// addr. env wins over the environment of the service.
func (c composed) healthy(t *testing.T, service, addr string, clients []string, env ...string) error {
	t.Helper()
	s, port := c.Services[service], addr[strings.LastIndex(addr, ":")+1:]
	all := []string{"PATH=" + strings.Join(append(clients, os.Getenv("PATH")), ":"), "MYSQL_TCP_PORT=" + port}
	for name, value := range s.Environment {
		all = append(all, name+"="+value)
	}
	test := strings.NewReplacer("$$", "$", "valkey-cli", "valkey-cli -p "+port).Replace(s.Healthcheck.Test[1])
	return check.Err(shell(t, t.TempDir(), append(all, env...), test))
}

// TestCompose runs what deploy/compose says, without an engine: its stores in the versions of their
// images and with its arguments and health checks, its migration and its app, twice as a second `up` does,
// and its two replicas with its variables. It is no story beside others, as it sets what servers they start.
func TestCompose(t *testing.T) {
	check.Deep(t)
	c := readCompose(t)
	edition := func(service string) string { // mysql:9.7, valkey/valkey:9.1
		image := c.Services[service].Image
		return service + "-" + image[strings.LastIndex(image, ":")+1:]
	}
	clients := testserver.On(t, edition("mysql"), edition("valkey"))
	hosts := c.stores(t)
	for i, store := range []string{"mysql", "valkey"} {
		check.OK(t, c.healthy(t, store, hosts[2*i+1], clients), store)
		if c.healthy(t, store, hosts[2*i+1], clients, "MYSQL_PASSWORD=wrong", "VALKEYCLI_AUTH=wrong") == nil {
			t.Errorf("%s is healthy before it has its user", store)
		}
	}
	for range 2 {
		for _, service := range []string{"migrate", "provision"} {
			must(t, c.settings(service, hosts...), c.Services[service].Command...)
		}
	}
	if o := shardid(t, c.settings("shardid-1", hosts...), "doctor"); o.exit != 0 {
		t.Errorf("doctor: %+v", o)
	}
	for _, name := range []string{"shardid-1", "shardid-2"} {
		d := serve(t, c.settings(name, hosts...))
		eventually(t, startLimit, "healthy", func() bool { return shardid(t, nil, "health", "--url", d.url).exit == 0 })
		eventuallyID(t, d, aliceGet)
	}
}
