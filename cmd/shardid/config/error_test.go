package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
)

const (
	ofPort = ": write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535"
	noText = "is no value of this key: config.yaml of the release shows one; write text in quotes, or remove the " +
		"line for the default"
)

// Each mistake in a file stops the start with one line: file, line, key, what is wrong and what to do.
func TestConfigFileErrors(t *testing.T) {
	for file, want := range map[string]string{
		// The shape of the file.
		"server:\n  adrr: x\n":                 "2: server.adrr: " + unknownKey,
		"server.addr: x\n":                     "1: server.addr: " + unknownKey,
		"log:\n  \"passwd hunter2\": x\n":      "2: log.passwd…: " + unknownKey,
		"region: {\"\": x}\n":                  "1: region.: " + unknownKey,
		"log:\n  level: info\n  level: warn\n": "3: log.level: is there twice: keep one",
		"server: 8080\n":                       "1: server has no keys: write them on the lines below their section",
		"- server\n":                           "1: the file has no keys: write them on the lines below their section",
		"log: {}\n---\nuid: {}\n":              "3: begins a second document: keep one, without ---",
		"server:\n\taddr: x\n": "2: is not YAML: found character … that cannot start any token: check indentation " +
			"(by spaces, not tabs), colons and quotes around this line",
		// The type of a value.
		"server:\n  addr: [a]\n":                "2: server.addr: " + noText,
		"server: {admin_token: {hunter2: x}}\n": "1: server.admin_token: " + noText,
		"server:\n  addr:\n":                    "2: server.addr: " + noText,
		"log:\n  level: &x info\n":              "2: log.level: " + noText,
		"zookeeper: {addrs: [[a]]}\n":           "1: zookeeper.addrs: " + noText,
		"queue: {prefetch_max: 1.5}\n":          `1: queue.prefetch_max: "1.5" is not a whole number: write decimal`,
		"database: {tls: yes}\n":                `1: database.tls: "yes" is not a boolean: write true or false`,
		"segment: {runway: 2}\n": `1: segment.runway: "2" is not a duration: write a number with its unit, such as ` +
			"500ms, 2s or 5m",
		"uid: {epoch: 2026-02-30}\n": `1: uid.epoch: "2026-02-30" is not a date: write it as YYYY-MM-DD, or with ` +
			"time and zone as 2016-05-20T00:00:00+08:00",
		"uid: {epoch: '2026-02-03T00:00:00.5Z'}\n": `1: uid.epoch: "2026-02-03T00:00:00.5Z" is not a date: write it`,
		"snowflake: {worker: {local_map: {'10.0.0.1:1': x}}}\n": `1: snowflake.worker.local_map: "10.0.0.1:1=x" is ` +
			`not a key with a whole number: write ip:port=1 in a variable and {"ip:port": 1} in the file`,
		// The value itself.
		"# one\nqueue:\n  # two\n  prefetch_max: 0\n": "4: queue.prefetch_max: 0 is not in 1…10000: choose a value " +
			"in this range, the default is 1000",
		"uid: {schedule_interval: 1ms}\n": "1: uid.schedule_interval: 1ms is not in 1s…24h: choose a value in this " +
			"range, the default is off",
		"database: {driver: postgres}\n": `1: database.driver: "postgres" is not one of sqlite, mysql: choose one, ` +
			"the default is sqlite",
		"data_dir: ''\n":              "1: data_dir: is empty: set it, the default is data",
		"server: {addr: localhost}\n": `1: server.addr: "localhost" is not host:port` + ofPort,
		"zookeeper: {addrs: ['h1:2181', 'h2:2181/leaf/']}\n": `1: zookeeper.addrs: "h2:2181/leaf/" is not host:port: ` +
			"write an address such as 10.0.0.7:2181, with a port from 1 to 65535; a chroot follows the last one, as " +
			"in 10.0.0.7:2181/leaf",
		"database: {driver: mysql, hosts: [':3306']}\n": `1: database.hosts: ":3306" is not host:port: write an ` +
			"address such as 10.0.0.5:6379, with a port from 1 to 65535",
		"queue: {refill_cron: '*/2 * * * *'}\n": `1: queue.refill_cron: "*/2 * * * *" is not a schedule: ` +
			`write six fields (second minute hour day month weekday) such as 0 */2 * * * *`,
		"snowflake: {name: a/b}\n": `1: snowflake.name: "a/b" is not a name: use 1 to 128 of letters, digits, '.', ` +
			"'_' and '-', a letter or digit first",
		"snowflake: {advertise: 'host:80'}\n": `1: snowflake.advertise: "host:80" is not ip:port: write an address ` +
			"such as 10.0.0.5:8080, with a port from 1 to 65535",
		"snowflake: {worker: {local_map: {'10.0.0.1': 5}}}\n": `1: snowflake.worker.local_map: "10.0.0.1" is not ` +
			`ip:port`,
		"server: {admin_token: 'hunter 2'}\n": "1: server.admin_token: the value holds a space, a line end or a " +
			"character beyond ASCII: use visible ASCII only",
		"server: {admin_token: CHANGE-ME}\n": "1: server.admin_token: the value still holds CHANGE-ME " +
			"of the example: write your own secret",
	} {
		wantProblem(t, file, "config.yaml:"+want)
	}
}

// wantProblem loads a file that stops the start with one line.
func wantProblem(t *testing.T, file, want string) {
	t.Helper()
	got, err := loadText(t, file, nil)
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") || got != nil {
		t.Errorf("%s\ngot  %v\nwant %s", file, err, want)
	}
}

// Values that are right by themselves and do not fit together are told with the line of the one to blame.
func TestConfigConflicts(t *testing.T) {
	const mysql = "database:\n  driver: mysql\n  dsn: a:hunter2@tcp(h:1)/"
	for file, want := range map[string]string{
		"server:\n  require_token: true\n":                     "2: server.require_token is true but server",
		"server: {protect_monitoring: true}\n":                 "1: server.protect_monitoring is true but t",
		"server:\n  tls_cert_file: c.pem\n":                    "2: server.tls_cert_file and server.tls_key",
		"server:\n  tls_client_ca_file: c.pem\n":               "2: server.tls_client_ca_file is set but se",
		"server:\n  drain_delay: 20s\n":                        "2: server.drain_delay 20s leaves nothing o",
		"database:\n  driver: mysql\n":                         "2: database.driver is mysql but database.d",
		"database:\n  dsn: app:hunter2@10.0.0.7:3306/ids\n":    "2: database.dsn is that of a server but da",
		"database:\n  dsn: host=h dbname=ids\n":                "2: database.dsn is that of a server but da",
		"database:\n  driver: mysql\n  dsn: app:hunter2@db\n":  "3: database.dsn is no data source name of ",
		mysql + "ids?timeout=hunter2\n":                        "3: database.dsn is no data source name of ",
		mysql + "\n":                                           "3: database.dsn names no database: write u",
		"database:\n  driver: mysql\n  dsn: mysql://h:70000/i": "3: database.dsn has no host with a port in 1",
		mysql + "ids?tls=true\n  tls: true\n":                  "3: database.dsn has a parameter tls, and d",
		mysql + "ids\n  tls: true\n  tls_key_file: k.pem":      "5: database.tls_cert_file and database.tls",
		"database: {tls: true}\n":                              "1: database.tls is true but database.drive",
		"database: {tls_ca_file: x}\n":                         "1: database.tls_ca_file, database.tls_cert",
		"database:\n  hosts: ['h:1']\n":                        "2: database.hosts is set but database.driv",
		"database:\n  dsn: app:hunter2@tcp(db:3306)/ids":       "2: database.dsn is that of a server but da",
		"database:\n  dsn: app:hunter2@/ids\n":                 "2: database.dsn is that of a server but da",
		"database:\n  dsn: postgres://app:hunter2@db/i":        "2: database.dsn is that of a server but da",
		"redis: {url: 'redis://h', tls_ca_file: x}\n":          "1: redis.tls_ca_file, redis.tls_cert_file ",
		"redis: {url: 'rediss://h', tls_key_file: x}\n":        "1: redis.tls_cert_file and redis.tls_key_f",
		"snowflake: {worker: {mode: local}}\n":                 "1: snowflake.worker.mode is local but snow",
		"snowflake: {worker: {mode: zk}}\n":                    "1: snowflake.worker.mode is zk but zookeep",
		"snowflake:\n  seq_bits: 13\n":                         "2: snowflake.worker_bits and snowflake.seq",
		"snowflake:\n  worker_bits: 5\n  worker: {mode: local, " +
			"local_map: {'10.0.0.1:1': 31, '10.0.0.2:1': 32}}\n": "3: snowflake.worker.local_map gives 10.0.0.2:1 " +
			"the worker",
		"snowflake: {worker: {local_map: {'10.0.0.1:1': 5, '10.0.0.2:1': 5}}}": "1: snowflake.worker.local_map " +
			"gives the worker ID 5 to 10.0.0.1:1 and to 10.0.0.2:1",
		"snowflake: {worker: {local_map: {'10.0.0.1:1': -1}}}":      "1: snowflake.worker.local_map gives 10.0.0.1:1 ",
		"uid:\n  seq_bits: 14\n":                                    "2: uid.time_bits, uid.worker_bits and uid.",
		"uid:\n  seq_bits: 24\n  worker_bits: 11\n  boost_power: 7": "4: the ring has 2^(uid.boost_power + uid.s",
		"region: {id: 4, bits: 2}\n":                                "1: region.id 4 does not fit into region.bi",
		"snowflake: {worker_bits: 2}\nregion:\n  bits: 2":           "3: region.bits 2 leaves no worker IDs of s",
	} {
		wantProblem(t, file, "config.yaml:"+want)
	}
}

// A setting of the command line or a variable is refused in the same words as a line of the file.
func TestConfigFlagAndEnvErrors(t *testing.T) {
	for given, want := range map[string]string{
		"SHARDID_QUEUE_PREFETCH_MAX=0": "environment SHARDID_QUEUE_PREFETCH_MAX: queue.prefetch_max: 0 is not in " +
			"1…10000: choose a value in this range, the default is 1000",
		"SHARDID_URL=x": "environment SHARDID_URL: " + unknownKey,
		"SHARDID_DATABASE_TLS=": `environment SHARDID_DATABASE_TLS: database.tls: "" is not a boolean: write true or ` +
			"false",
		"SHARDID_REGION_ID=1": "environment SHARDID_REGION_ID: region.id 1 does not fit into region.bits 0: there " +
			"are the regions 0…0",
		"--set=log.level=":     "flag --set: log.level: is empty: set it, the default is info",
		"--set=database.tls":   "flag --set: database.tls: has no value: write --set database.tls=VALUE",
		"--set=log.levle=info": "flag --set: log.levle: " + unknownKey,
		"--set=log=info":       "flag --set: log: " + unknownKey,
		"--set=server.admin_token=hunter": "flag --set: server.admin_token: is a secret, which every user of the " +
			"machine could read here: set SHARDID_SERVER_ADMIN_TOKEN instead",
		"--config=none.yaml": "none.yaml: cannot be read: no such file or directory: name a file that " +
			"this user may read",
	} {
		t.Chdir(t.TempDir())
		environ, args := []string{given}, []string(nil)
		if strings.HasPrefix(given, "--") {
			environ, args = nil, []string{given}
		}
		if _, err := loadArgs(t, environ, args...); err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", given, err, want)
		}
	}
}

// All problems are named, of every source, a line each, and a value that a later source replaced is none.
func TestConfigAllProblems(t *testing.T) {
	const file = "server:\n  adrr: x\n  addr: nowhere\n  require_token: 7\n" +
		"log: {level: loud}\nsegment: {runway: 100h}\n"
	_, err := loadText(t, file, []string{"SHARDID_SEGMENT_RUNWAY=1m", "SHARDID_X=1"}, "--set=log.access=some")
	check.Equal(t, fmt.Sprint(err), strings.Join([]string{
		"config.yaml:2: server.adrr: " + unknownKey,
		`config.yaml:4: server.require_token: "7" is not a boolean: write true or false`,
		"environment SHARDID_X: " + unknownKey,
		`config.yaml:3: server.addr: "nowhere" is not host:port` + ofPort,
		`config.yaml:5: log.level: "loud" is not one of debug, info, warn, error: choose one, the default is info`,
		`flag --set: log.access: "some" is not one of off, all: choose one, the default is off`,
	}, "\n"))
}

// A secret is in no message, however its line or its variable is broken.
func TestConfigSecretsNeverLeak(t *testing.T) {
	const secret = "hunter2"
	wrongs := []string{
		"hunter2", "hunter2 \u00e9", "\"hunter2", "'hunter2", "[hunter2]", "{hunter2: hunter2}", "{hunter2: ",
		"&hunter2 x", "*hunter2", "!!hunter2 x",
		"|\n hunter2", "hunter2: hunter2: x", "\thunter2", "@hunter2", "%hunter2", "\"\\hunter2\"", "- hunter2",
		"hunter2\n  hunter2", "hunter2\nhunter2",
		"hunter2:hunter2@tcp(h)/x?tls=hunter2", "x@hunter2(h)/x", "x@/%zzhunter2", "x@/hunter2?hunter2",
		"u:hunter2@tcp(h)/", "\"hunter2\\n\"",
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
					if strings.Contains(line, secret) ||
						!regexp.MustCompile(`^(<nil>|config\.yaml:\d+: |environment SHARDID_)`).MatchString(line) {
						t.Errorf("%s %q: %v", k.Path, wrong, err)
					}
				}
			}
		}
	}
}
