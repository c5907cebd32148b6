package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"shardid/scripts/check"
)

// loadText loads text as config.yaml in a folder of its own, so that messages
// name the file as a user sees it.
func loadText(t *testing.T, text string, environ []string, args ...string) (*Loaded, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("config.yaml", []byte(text), 0o600))
	return loadArgs(t, environ, args...)
}

func loadArgs(t *testing.T, environ []string, args ...string) (*Loaded, error) {
	t.Helper()
	flags := pflag.NewFlagSet("shardid", pflag.ContinueOnError)
	AddFlags(flags)
	check.Must(t, flags.Parse(args))
	return Load(flags, environ)
}

// wantConfig holds what was loaded against the defaults with some changes.
func wantConfig(t *testing.T, got *Loaded, err error, change func(*Config)) {
	t.Helper()
	want := Defaults().Config
	change(&want)
	if err != nil {
		t.Error(err)
	} else if !reflect.DeepEqual(got.Config, want) {
		t.Errorf("got  %+v\nwant %+v", got.Config, want)
	}
}

func nothing(*Config) {}

// What a file says in any of the ways to write YAML is what is loaded.
func TestConfigFile(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "\uFEFF# mark\n", "server:\n", "{}",
		"zookeeper: {addrs: []}"} {
		got, err := loadText(t, text, nil)
		wantConfig(t, got, err, nothing)
	}
	t.Chdir(t.TempDir()) // without a file
	got, err := loadArgs(t, nil)
	wantConfig(t, got, err, nothing)
	got, err = loadText(t, `# Every kind of value, in other ways to write YAML than config.yaml.
server: {addr: ":9090", admin_token: 'token-of-the-file', drain_delay: 0s, require_token: False}
database:
  driver: mysql
  dsn: |-
    app:pw@tcp(db:3306)/ids?parseTime=true
  hosts:
    - s1:3306
    - "s2:3306"
uid:
  epoch: "2025-05-01"
  schedule_interval: 5m
  time_bits: '28'
snowflake:
  worker:
    mode: zk_recycle
    local_map:
      "10.0.0.1:8080": 0
      "10.0.0.2:8080": 1023
zookeeper: {addrs: 'h1:2181,h2:2181/leaf'}
log:
`, nil)
	wantConfig(t, got, err, func(want *Config) {
		want.Server.Addr, want.Server.AdminToken, want.Server.DrainDelay = ":9090", "token-of-the-file", 0
		want.Database.Driver, want.Database.DSN = "mysql", "app:pw@tcp(db:3306)/ids?parseTime=true"
		want.Database.Hosts = []string{"s1:3306", "s2:3306"}
		want.UID.Epoch = time.Date(2025, time.May, 1, 0, 0, 0, 0, time.UTC)
		want.UID.ScheduleInterval = 5 * time.Minute
		want.Snowflake.Worker.Mode = "zk_recycle"
		want.Snowflake.Worker.LocalMap = map[string]int{"10.0.0.1:8080": 0, "10.0.0.2:8080": 1023}
		want.ZooKeeper.Addrs = []string{"h1:2181", "h2:2181/leaf"} // as in leaf.snowflake.zk.address
	})
}

func TestConfigPrecedence(t *testing.T) {
	const file = "server: {addr: ':1'}\nsegment: {runway: 100h}\nlog: {level: warn}\nzookeeper: {addrs: ['f:1']}\n"
	environ := []string{
		"PATH=/bin", "SHARDID_SERVER_ADDR=:2", "SHARDID_SEGMENT_RUNWAY=3s", "SHARDID_ZOOKEEPER_ADDRS=a:1, b:2",
		"SHARDID_LOG_FORMAT=json",
		`SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP={"10.1.46.33:8080":1,"10.1.46.33:8081":2}`,     // Leaf's own workIdMap
		"SHARDID_UID_SCHEDULE_INTERVAL=off", "SHARDID_UID_EPOCH=2016-05-20T00:00:00+08:00", // UidGenerator's own
		"SHARDID_DATABASE_DSN=p=q,r",
	}
	got, err := loadText(t, file, environ, "--set", "server.addr=:4", "--set", "server.addr=:3",
		"--set=uid.enabled=false", "--set", "zookeeper.addrs=c:1,d:1")
	wantConfig(t, got, err, func(want *Config) {
		want.Server.Addr, want.Segment.Runway, want.Log.Level, want.Log.Format = ":3", 3*time.Second, "warn", "json"
		want.ZooKeeper.Addrs, want.UID.Enabled, want.Database.DSN = []string{"c:1", "d:1"}, false, "p=q,r"
		want.Snowflake.Worker.LocalMap = map[string]int{"10.1.46.33:8080": 1, "10.1.46.33:8081": 2}
		want.UID.Epoch = time.Date(2016, time.May, 19, 16, 0, 0, 0, time.UTC)
	})
	if err != nil {
		return
	}
	for path, want := range map[string]string{"server.addr": "flag --set",
		"segment.runway": "environment SHARDID_SEGMENT_RUNWAY",
		"log.level":      "config.yaml:3", "data_dir": "default"} {
		check.Equal(t, got.key(path).From, want, path)
	}
}

// What Kubernetes sets, and what the examples of docs/ read, are no keys, and no mistake.
func TestConfigVariablesOfOthersAreIgnored(t *testing.T) {
	environ := []string{
		"SHARDID_URLS=http://127.0.0.1:8080", "SHARDID_TOKEN=p=q", "SHARDID_SHARD_BITS=0",
		"SHARDID_SERVICE_HOST=10.0.0.1", "SHARDID_SERVICE_PORT=80", "SHARDID_SERVICE_PORT_HTTP=80",
		"SHARDID_PORT=tcp://10.0.0.1:80",
		"SHARDID_PORT_80_TCP=tcp://10.0.0.1:80", "SHARDID_PORT_80_TCP_PROTO=tcp", "SHARDID_PORT_80_TCP_PORT=80",
		"SHARDID_PORT_80_TCP_ADDR=10.0.0.1",
		"SHARDID_REDIS_SERVICE_HOST=10.0.0.2", "SHARDID_REDIS_PORT=tcp://10.0.0.2:6379",
		"SHARDID_REDIS_PORT_6379_TCP_ADDR=10.0.0.2",
	}
	t.Chdir(t.TempDir())
	got, err := loadArgs(t, environ)
	wantConfig(t, got, err, nothing)
	for _, name := range []string{"SHARDID_REDIS_PORT", "SHARDID_PORT_", "SHARDID_PORT_X_TCP", "SHARDID_SERVICE",
		"SHARDID_"} {
		if _, err := loadArgs(t, []string{name + "=1"}); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestConfigDatabaseDSN(t *testing.T) {
	for _, c := range []struct{ driver, dsn, want string }{
		{"sqlite", "", filepath.Join("d", "shardid.db")},
		{"sqlite", "other.db", "other.db"},
		{"mysql", "u@/x", "u@/x"},
		{"mysql", "mysql://u:p%2Fw@h/ids", "u:p/w@tcp(h:3306)/ids?"},
		{"mysql", "mysql://u@[::1]:3307/ids?tls=true", "u@tcp([::1]:3307)/ids?tls=true"},
		{"mysql", "mysql://u@h/ids?loc=Asia/Shanghai", "u@tcp(h:3306)/ids?loc=Asia%2FShanghai"},
	} {
		config := Config{DataDir: "d", Database: Database{Driver: c.driver, DSN: c.dsn}}
		check.Equal(t, config.DatabaseDSN(), c.want, c)
	}
}

// config.yaml documents every key, in the order of the struct, with its default; the loader refuses
// keys that do not exist.
func TestConfigDocsAreTheDefaults(t *testing.T) {
	const docs = "../../../config.yaml"
	got, err := loadArgs(t, nil, "--config", docs)
	wantConfig(t, got, err, nothing)
	last := 0
	for _, k := range got.Keys {
		line, err := strconv.Atoi(strings.TrimPrefix(k.From, docs+":"))
		if err != nil || line <= last {
			t.Errorf("%s is not documented or out of order: %s", k.Path, k.From)
		}
		last = line
	}
}
