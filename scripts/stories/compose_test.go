//go:build unix

package stories_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/goccy/go-yaml"
)

// composed is deploy/compose/compose.yaml, the variables that it needs replaced by password.
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
	raw, err := os.ReadFile("../../deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\$\{\w+:-\}`).ReplaceAllString(string(raw), "")
	text = regexp.MustCompile(`\$\{\w+[^}]*\}`).ReplaceAllString(text, password)
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
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
	if err := redis.Client().ConfigSet(t.Context(), "requirepass", command[n-1]).Err(); err != nil {
		t.Fatal(err)
	}
	return []string{"mysql:3306", net.JoinHostPort("127.0.0.1", strconv.Itoa(db.Port)), "valkey:6379", redis.Addr}
}

// healthy runs a store's health check as the engine does, with clients in the PATH, against what listens at
// addr. env wins over the environment of the service.
func (c composed) healthy(service, addr string, clients []string, env ...string) error {
	s, port := c.Services[service], addr[strings.LastIndex(addr, ":")+1:]
	if s.Healthcheck.Test[0] != "CMD-SHELL" {
		return fmt.Errorf("%s: health check %v", service, s.Healthcheck.Test)
	}
	check := strings.NewReplacer("$$", "$", "valkey-cli", "valkey-cli -p "+port).Replace(s.Healthcheck.Test[1])
	cmd := exec.Command("/bin/sh", "-c", check)
	cmd.Env = append(cmd.Env, "PATH="+strings.Join(append(clients, os.Getenv("PATH")), ":"), "MYSQL_TCP_PORT="+port)
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", service, err, out)
	}
	return nil
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
		if err := c.healthy(store, hosts[2*i+1], clients); err != nil {
			t.Error(err)
		}
		if c.healthy(store, hosts[2*i+1], clients, "MYSQL_PASSWORD=wrong", "VALKEYCLI_AUTH=wrong") == nil {
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
	l := &load{apps: []int64{1}, books: &ledger{}}
	for _, name := range []string{"shardid-1", "shardid-2"} {
		d := serve(t, c.settings(name, hosts...))
		eventually(t, startLimit, "healthy", func() bool { return shardid(t, nil, "health", "--url", d.url).exit == 0 })
		l.replicas = append(l.replicas, d)
	}
	if a := l.replicas[0].get(aliceGet); a.status != 200 || a.ID <= 0 {
		t.Errorf("the first ID: %+v", a)
	}
	l.start(t, 8)
	l.reach(t, 20_000)
	l.stop()
	l.books.Settle(t)
}
