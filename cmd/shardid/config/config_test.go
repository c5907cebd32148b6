package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
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

func TestConfigFiles(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "\uFEFF# mark\n", "server:\n", "{}", "redis: {addrs: []}"} {
		got, err := loadText(t, text, nil)
		wantConfig(t, got, err, nothing)
	}
	t.Chdir(t.TempDir()) // without a file
	got, err := loadArgs(t, nil)
	wantConfig(t, got, err, nothing)
	// A fork of Leaf calls the mode zk zk_normal.
	got, err = loadText(t, "snowflake: {worker: {mode: zk_normal}}\nzookeeper: {addrs: ['h:2181']}\n", nil)
	wantConfig(t, got, err, func(c *Config) {
		c.Snowflake.Worker.Mode, c.ZooKeeper.Addrs = "zk", []string{"h:2181"}
	})
}

func TestConfigFile(t *testing.T) {
	got, err := loadArgs(t, nil, "--config", "testdata/full.yaml")
	wantConfig(t, got, err, func(want *Config) {
		want.Server.Addr, want.Server.AdminToken, want.Server.DrainDelay = ":9090", "token-of-the-file", 0
		want.Server.AllowedHosts = []string{"ids.example.com", "shardid"}
		want.Database.Driver, want.Database.DSN = "mysql", "app:pw@tcp(db:3306)/ids?parseTime=true"
		want.Redis.Mode, want.Redis.MasterName, want.Redis.TLS = "sentinel", "m", true
		want.Redis.Addrs = []string{"s1:26379", "s2:26379"}
		want.UID.Epoch = Date{time.Date(2025, time.May, 1, 0, 0, 0, 0, time.UTC)}
		want.UID.ScheduleInterval = Interval(5 * time.Minute)
		want.Snowflake.Worker.Mode = "local"
		want.Snowflake.Worker.LocalMap = map[string]int{"10.0.0.1:8080": 0, "10.0.0.2:8080": 1023}
	})
}

func TestConfigPrecedence(t *testing.T) {
	const file = "server: {addr: ':1'}\nqueue: {timeout: 1s}\nlog: {level: warn}\nredis: {mode: single, addrs: ['f:1']}\n"
	environ := []string{
		"PATH=/bin", "SHARDID_SERVER_ADDR=:2", "SHARDID_QUEUE_TIMEOUT=3s", "SHARDID_REDIS_ADDRS=a:1, b:2", "SHARDID_REDIS_MODE=cluster",
		"SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP=10.0.0.1:80=1,[::1]:80=2", "SHARDID_UID_SCHEDULE_INTERVAL=off", "SHARDID_REDIS_PASSWORD=p=q,r",
	}
	got, err := loadText(t, file, environ, "--set", "server.addr=:4", "--set", "server.addr=:3",
		"--set=redis.tls=true", "--set", "redis.addrs=c:1,d:1", "--set", "queue.low_watermark=0.5")
	wantConfig(t, got, err, func(want *Config) {
		want.Server.Addr, want.Queue.Timeout, want.Queue.LowWatermark, want.Log.Level = ":3", 3*time.Second, 0.5, "warn"
		want.Redis = Redis{Mode: "cluster", Addrs: []string{"c:1", "d:1"}, ClientTLS: ClientTLS{TLS: true}, Password: "p=q,r"}
		want.Snowflake.Worker.LocalMap = map[string]int{"10.0.0.1:80": 1, "[::1]:80": 2}
	})
	from := map[string]string{"server.addr": "flag --set server.addr",
		"queue.timeout": "environment SHARDID_QUEUE_TIMEOUT", "log.level": "config.yaml:3", "data_dir": "default"}
	for _, k := range got.Keys {
		if want, ok := from[k.Path]; ok && k.From != want {
			t.Errorf("%s is from %s, want %s", k.Path, k.From, want)
		}
		if k.Secret && strings.Contains(k.Value(), "p=q") {
			t.Errorf("%s is shown", k.Path)
		}
	}
}

// A map in a variable or in --set may be written as in the file, where JSON is a map, too.
func TestConfigMapAsInTheFile(t *testing.T) {
	const name = "SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP="
	for _, text := range []string{`{"10.0.0.1:80":1,"[::1]:80":2}`, ` {'10.0.0.1:80': 1, "[::1]:80": 2}`} {
		got, err := loadText(t, "", []string{name + text})
		wantConfig(t, got, err, func(want *Config) {
			want.Snowflake.Worker.LocalMap = map[string]int{"10.0.0.1:80": 1, "[::1]:80": 2}
		})
	}
	for text, want := range map[string]string{
		`{"10.0.0.1:80":1`:      `is no map: write {"ip:port": number}`,
		`{"10.0.0.1:80":"one"}`: "holds something else than text with a whole number",
		`{"a:1":1,"a:1":2}`:     `"a:1" is there twice: keep one`,
	} {
		if _, err := loadText(t, "", []string{name + text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What Kubernetes sets, and what the examples of docs/ read, are no keys, and no mistake.
func TestConfigVariablesOfOthersAreIgnored(t *testing.T) {
	environ := []string{
		"SHARDID_URLS=http://127.0.0.1:8080", "SHARDID_TOKEN=p=q",
		"SHARDID_SERVICE_HOST=10.0.0.1", "SHARDID_SERVICE_PORT=80", "SHARDID_SERVICE_PORT_HTTP=80", "SHARDID_PORT=tcp://10.0.0.1:80",
		"SHARDID_PORT_80_TCP=tcp://10.0.0.1:80", "SHARDID_PORT_80_TCP_PROTO=tcp", "SHARDID_PORT_80_TCP_PORT=80", "SHARDID_PORT_80_TCP_ADDR=10.0.0.1",
		"SHARDID_REDIS_SERVICE_HOST=10.0.0.2", "SHARDID_REDIS_PORT=tcp://10.0.0.2:6379", "SHARDID_REDIS_PORT_6379_TCP_ADDR=10.0.0.2",
	}
	t.Chdir(t.TempDir())
	got, err := loadArgs(t, environ)
	wantConfig(t, got, err, nothing)
	for _, name := range []string{"SHARDID_REDIS_PORT", "SHARDID_PORT_", "SHARDID_PORT_X_TCP", "SHARDID_SERVICE", "SHARDID_"} {
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
		{"mysql", "", ""},
	} {
		config := Config{DataDir: "d", Database: Database{Driver: c.driver, DSN: c.dsn}}
		check.Equal(t, config.DatabaseDSN(), c.want, c)
	}
}

// Every user of the machine can read a command line, so it takes no secret.
func TestConfigSecretsAreNotSetByFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	var secrets []string
	for _, k := range Defaults().Keys {
		if !k.Secret {
			continue
		}
		secrets = append(secrets, k.Path)
		_, err := loadArgs(t, nil, "--set", k.Path+"=hunter2")
		want := "flag --set " + k.Path + ": is a secret, which every user of the machine could read here: " +
			"set " + k.Env() + " instead"
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	check.Equal(t, strings.Join(secrets, " "), "server.admin_token database.dsn redis.password redis.sentinel_password", "secrets are")
}

// A key that an earlier version had stops the start with one line that names it and its
// replacement, wherever it is.
func TestConfigRemovedKeys(t *testing.T) {
	for path, instead := range removed {
		if slices.ContainsFunc(Defaults().Keys, func(k *Key) bool { return k.Path == path }) {
			t.Errorf("%s is still there", path)
			continue
		}
		said := path + " is gone since 0.4: " + instead
		section, name, _ := strings.Cut(path, ".")
		variable := (&Key{Path: path}).Env()
		_, inFile := loadText(t, "log: {}\n"+section+":\n  "+name+": true\n", nil)
		_, inEnv := loadText(t, "", []string{variable + "=true"})
		_, inFlag := loadText(t, "", nil, "--set", path+"=true")
		for want, err := range map[string]error{
			"config.yaml:3: " + said:                inFile,
			"environment " + variable + ": " + said: inEnv,
			"flag --set: " + said:                   inFlag,
		} {
			if err == nil || err.Error() != want {
				t.Errorf("got %v\nwant %s", err, want)
			}
		}
	}
}

// A setting of the command line or a variable is refused in the same words as a line of the file.
func TestConfigFlagAndEnvErrors(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"SHARDID_QUEUE_LOW_WATERMARK=1.5", `environment SHARDID_QUEUE_LOW_WATERMARK: 1.5 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2`},
		{"SHARDID_QUEUE_LOW_WATERMARK=NaN", `environment SHARDID_QUEUE_LOW_WATERMARK: NaN is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2`},
		{"SHARDID_QUEUE_LOW_WATER=0.5", `environment SHARDID_QUEUE_LOW_WATER: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_URL=x", `environment SHARDID_URL: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_CONFIG=x", `environment SHARDID_CONFIG: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_A\nB=x", `environment SHARDID_A…: unknown variable: unset it, or see config.yaml in the sources for every key`},
		{"SHARDID_REDIS_TLS=", `environment SHARDID_REDIS_TLS: "" is not a boolean: write true or false`},
		{"SHARDID_REDIS_ADDRS=a:1,,b:1", `environment SHARDID_REDIS_ADDRS: "" is not host:port: write an address such as 10.0.0.5:6379, with a port from 1 to 65535`},
		{"SHARDID_REDIS_ADDRS=a:1", `environment SHARDID_REDIS_ADDRS: redis.addrs is set but redis.mode is embedded: set redis.mode to single, sentinel or cluster`},
		{"SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP=x", `environment SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP: "x" is not a pair: write key=value, several separated by commas`},
		{"SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP=a=1,a=2", `environment SHARDID_SNOWFLAKE_WORKER_LOCAL_MAP: "a" is there twice: keep one`},
		{"--set=queue.low_watermark=1.5", `flag --set queue.low_watermark: 1.5 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2`},
		{"--set=queue.timeout=2", `flag --set queue.timeout: "2" is not a duration: write a number with its unit, such as 500ms, 2s or 5m`},
		{"--set=redis.mode=single", `flag --set redis.mode: redis.mode is single but redis.addrs is empty: list host:port of the servers`},
		{"--set=log.level=", `flag --set log.level: is empty: set it, the default is info`},
		{"--set=redis.tls=maybe", `flag --set redis.tls: "maybe" is not a boolean: write true or false`},
		{"--set=redis.tls", `flag --set redis.tls: has no value: write --set redis.tls=VALUE`},
		{"--set=log.levle=info", `flag --set log.levle: unknown key: the keys here are level, format, access`},
		{"--set=snowflake.worker.mod=local",
			`flag --set snowflake.worker.mod: unknown key: the keys here are mode, local_map, expiry, lease, redis_acks`},
		{"--config=none.yaml", `none.yaml: cannot be read: no such file or directory: name a readable file with --config`},
		{"--config=.", `.: cannot be read: is a directory: name a readable file with --config`},
		{"--config=", `"": cannot be read: no such file or directory: name a readable file with --config`},
		{"--config=a\nb", `"a\nb": cannot be read: no such file or directory: name a readable file with --config`},
		{"--set=log=info", `flag --set log: unknown key: the keys here are ` + sections},
		{"--set=loglevel=info", `flag --set loglevel: unknown key: the keys here are ` + sections},
	} {
		t.Chdir(t.TempDir())
		environ, args := []string{c.given}, []string(nil)
		if strings.HasPrefix(c.given, "--") {
			environ, args = nil, []string{c.given}
		}
		if _, err := loadArgs(t, environ, args...); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v\nwant %s", c.given, err, c.want)
		}
	}
}

// TestConfigLastSourceIsBlamed: a value that a later source replaced is not.
func TestConfigLastSourceIsBlamed(t *testing.T) {
	const file = "queue:\n  timeout: 1h\n"
	if _, err := loadText(t, file, []string{"SHARDID_QUEUE_TIMEOUT=3s"}); err != nil {
		t.Errorf("the value of the file is replaced: %v", err)
	}
	_, err := loadText(t, file, []string{"SHARDID_QUEUE_TIMEOUT=2h"}, "--set=queue.timeout=3h")
	if err == nil || !strings.HasPrefix(err.Error(), "flag --set queue.timeout: 3h0m0s is not in ") {
		t.Errorf("got %v", err)
	}
}

// TestConfigSecretsNeverLeak breaks a configuration in every way around a
// secret, from the file and from the environment.
func TestConfigSecretsNeverLeak(t *testing.T) {
	const secret = "hunter2"
	wrongs := []string{
		"hunter2", "hunter2 \u00e9", "\"hunter2", "'hunter2", "[hunter2]", "{hunter2: hunter2}", "{hunter2: ", "&hunter2 x", "*hunter2", "!!hunter2 x",
		"|\n hunter2", "hunter2: hunter2: x", "\thunter2", "@hunter2", "%hunter2", "\"\\hunter2\"", "- hunter2", "hunter2\n  hunter2", "hunter2\nhunter2",
		"hunter2:hunter2@tcp(h)/x?tls=hunter2", "x@hunter2(h)/x", "x@/%zzhunter2", "x@/hunter2?hunter2", "u:hunter2@tcp(h)/", "\"hunter2\\n\"",
	}
	for _, k := range Defaults().Keys {
		if !k.Secret {
			continue
		}
		section, name, _ := strings.Cut(k.Path, ".")
		for _, wrong := range wrongs {
			_, inFile := loadText(t, section+":\n  "+name+": "+wrong+"\n", []string{"SHARDID_DATABASE_DRIVER=mysql"})
			_, inEnv := loadText(t, "", []string{"SHARDID_DATABASE_DRIVER=mysql", k.Env() + "=" + wrong})
			for _, err := range []error{inFile, inEnv} {
				for line := range strings.Lines(fmt.Sprint(err)) {
					if strings.Contains(line, secret) || !regexp.MustCompile(`^(<nil>|config\.yaml:\d+: |environment SHARDID_)`).MatchString(line) {
						t.Errorf("%s %q: %v", k.Path, wrong, err)
					}
				}
			}
		}
	}
}

const configDocs = "../../../config.yaml"

// TestConfigDocsAreTheDefaults holds the documented values; the loader itself
// refuses keys that do not exist.
func TestConfigDocsAreTheDefaults(t *testing.T) {
	got, err := loadArgs(t, nil, "--config", configDocs)
	wantConfig(t, got, err, nothing)
}

// TestConfigDocsAreComplete: every key, in the order of the struct.
func TestConfigDocsAreComplete(t *testing.T) {
	l, err := loadArgs(t, nil, "--config", configDocs)
	check.Must(t, err)
	last := 0
	for _, k := range l.Keys {
		line, err := strconv.Atoi(strings.TrimPrefix(k.From, configDocs+":"))
		if err != nil || line <= last {
			t.Errorf("%s is not documented or out of order: %s", k.Path, k.From)
		}
		last = line
	}
}

// TestConfigCoversTheContract names what other people script against.
func TestConfigCoversTheContract(t *testing.T) {
	const contract = `server.addr=127.0.0.1:8080 server.admin_token= server.pprof_addr= data_dir=data database.driver=sqlite database.dsn= database.hosts=[]
		redis.mode=embedded redis.addrs=[] redis.master_name= redis.username= redis.password= redis.db=0 redis.tls=false
		queue.low_watermark=0.2 queue.prefetch_max=1000 segment.enabled=true snowflake.enabled=true uid.enabled=true
		snowflake.epoch_ms=1288834974657 snowflake.name=shardid snowflake.advertise= snowflake.worker.mode=mysql
		snowflake.worker.local_map=map[] zookeeper.addrs=[] uid.mode=cached uid.time_bits=28 uid.worker_bits=22 uid.seq_bits=13
		uid.epoch=2026-01-01 uid.boost_power=3 uid.padding_factor=50 uid.schedule_interval=off`
	std := map[string]string{}
	for _, k := range Defaults().Keys {
		std[k.Path] = k.Default
	}
	for _, entry := range strings.Fields(contract) {
		path, want, _ := strings.Cut(entry, "=")
		if got, ok := std[path]; !ok || got != want {
			t.Errorf("%s: got %q (there: %t), want %q", path, got, ok, want)
		}
	}
	if std["queue.refill_cron"] != "0 */2 * * * *" || std["queue.reload_cron"] != "30 */2 * * * *" {
		t.Error("the schedules are not the contract's")
	}
}

// TestConfigTags: the validator knows every tag, and the defaults pass.
func TestConfigTags(t *testing.T) {
	l := Defaults()
	l.check()
	check.Must(t, l.wrong())
	tags := regexp.MustCompile(`^(min=-?\w+,max=\w+|gt=\w+,lt=\w+|oneof=[a-z_ ]+)$`)
	for _, k := range Defaults().Keys {
		for _, prefix := range []string{"omitempty,", "unique,", "dive,", "keys,ipport,endkeys,"} {
			k.must = strings.TrimPrefix(k.must, prefix)
		}
		if k.must != "" && formats()[k.must] == nil && !tags.MatchString(k.must) {
			t.Errorf("%s: %q has no message", k.Path, k.must)
		}
	}
}

// FuzzConfig: no bytes make the loader panic, and an error is one line that
// begins with the file for each problem.
func FuzzConfig(f *testing.F) {
	for _, file := range []string{configDocs, "testdata/full.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, c := range fileErrors() {
		f.Add([]byte(c.file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := Check("config.yaml", data); err != nil {
			for i, line := range strings.Split(err.Error(), "\n") {
				if i < mostProblems && !strings.HasPrefix(line, "config.yaml:") || strings.Contains(line, "\r") {
					t.Errorf("%q: got %q", data, line)
				}
			}
		}
	})
}
