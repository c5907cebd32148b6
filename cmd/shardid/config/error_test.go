package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// The names that the unknown key is none of.
const (
	sections = "server, resp, database, redis, queue, segment, snowflake, zookeeper, uid, sequence, region, " +
		"log, data_dir"
	keysOfServer = "addr, admin_token, tokens_file, require_token, protect_monitoring, tls_cert_file, tls_key_file, " +
		"tls_client_ca_file, max_connections, request_timeout, drain_delay, shutdown_timeout"
	of03   = "; CHANGELOG.md says what is in place of those of 0.3"
	beside = ": write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535"
)

// Each mistake in a file stops the start with one line: file, line, key, what is wrong and what to do.
func TestConfigFileErrors(t *testing.T) {
	for file, want := range map[string]string{
		// The shape of the file; yamlfile has the errors of YAML.
		"server:\n  adrr: x\n":                 "config.yaml:2: server.adrr: unknown key: the keys here are " + keysOfServer + of03,
		"sever:\n  addr: x\n":                  "config.yaml:1: sever: unknown key: the keys here are " + sections + of03,
		"server.addr: x\n":                     "config.yaml:1: server.addr: unknown key: the keys here are " + sections + of03,
		"log:\n  \"passwd hunter2\": x\n":      "config.yaml:2: log.passwd…: unknown key: the keys here are level, format, access" + of03,
		"\"a\\nb\": x\n":                       "config.yaml:1: a…: unknown key: the keys here are " + sections + of03,
		"region: {\"\": x}\n":                  "config.yaml:1: region.: unknown key: the keys here are id, bits" + of03,
		"<<: {a: 1}\n":                         "config.yaml:1: : unknown key: the keys here are " + sections + of03,
		"log:\n  level: info\n  level: warn\n": "config.yaml:3: log.level: is there twice: keep one",
		"log: {}\nuid: {}\nlog: {}\n":          "config.yaml:3: log: is there twice: keep one",
		"server: 8080\n":                       "config.yaml:1: server has no keys: write them on the lines below their section, indented",
		"- server\n":                           "config.yaml:1: the file has no keys: write them on the lines below their section, indented",
		// The type of a value.
		"server:\n  addr: [a]\n":                  "config.yaml:2: server.addr: is a list: write one value",
		"server: {admin_token: {hunter2: x}}\n":   "config.yaml:1: server.admin_token: is a map: write one value, in quotes if it has a colon",
		"server:\n  addr:\n":                      "config.yaml:2: server.addr: is empty: write a value, or remove the line for the default",
		"log:\n  level: &x info\n":                "config.yaml:2: log.level: is an anchor, alias or tag: write the value itself, in quotes",
		"queue: {prefetch_max: many}\n":           `config.yaml:1: queue.prefetch_max: "many" is not a whole number: write decimal digits`,
		"queue: {prefetch_max: 1.5}\n":            `config.yaml:1: queue.prefetch_max: "1.5" is not a whole number: write decimal digits`,
		"queue: {prefetch_max: 0x10}\n":           `config.yaml:1: queue.prefetch_max: "0x10" is not a whole number: write decimal digits`,
		"database: {tls: yes}\n":                  `config.yaml:1: database.tls: "yes" is not a boolean: write true or false`,
		"segment: {runway: 2}\n":                  `config.yaml:1: segment.runway: "2" is not a duration: write a number with its unit, such as 500ms, 2s or 5m`,
		"uid: {schedule_interval: 0s}\n":          `config.yaml:1: uid.schedule_interval: "0s" is not an interval: write off, or a number with its unit such as 5m`,
		"uid: {epoch: 2026-02-30}\n":              `config.yaml:1: uid.epoch: "2026-02-30" is not a date: write it as YYYY-MM-DD, or with time and zone as 2016-05-20T00:00:00+08:00`,
		"zookeeper: {addrs: [[a]]}\n":             "config.yaml:1: zookeeper.addrs: holds something else than text: write [one, two]",
		"snowflake: {worker: {local_map: [a]}}\n": "config.yaml:1: snowflake.worker.local_map: is a list: write one value",
		"snowflake: {worker: {local_map: {'10.0.0.1:1': [1]}}}\n": "config.yaml:1: snowflake.worker.local_map: holds something " +
			`else than numbers: write {"ip:port": 1}`,
		"snowflake: {worker: {local_map: {'10.0.0.1:1': x}}}\n": `config.yaml:1: snowflake.worker.local_map: "10.0.0.1:1=x" is not ` +
			`a key with a whole number: write ip:port=1 in a variable and {"ip:port": 1} in the file`,
		"snowflake: {worker: {local_map: {'10.0.0.1:1': 1, '10.0.0.1:1': 2}}}\n": `config.yaml:1: snowflake.worker.local_map: "10.0.0.1:1" is there twice: keep one`,
		// The value itself.
		"# one\nqueue:\n  # two\n  prefetch_max: 0\n": "config.yaml:4: queue.prefetch_max: 0 is not in 1…10000: choose a value in this range, the default is 1000",
		"segment: {runway: 1ms}\n":                    "config.yaml:1: segment.runway: 1ms is not in 1s…24h: choose a value in this range, the default is 10m0s",
		"uid: {schedule_interval: 1ms}\n":             "config.yaml:1: uid.schedule_interval: 1ms is not in 1s…24h: choose a value in this range, the default is off",
		"database: {driver: postgres}\n":              `config.yaml:1: database.driver: "postgres" is not one of sqlite, mysql: choose one, the default is sqlite`,
		"data_dir: ''\n":                              "config.yaml:1: data_dir: is empty: set it, the default is data",
		"log:\r\n  level: x\r\n":                      `config.yaml:2: log.level: "x" is not one of debug, info, warn, error: choose one, the default is info`,
		"server: {addr: localhost}\n":                 `config.yaml:1: server.addr: "localhost" is not host:port` + beside,
		"server: {addr: ':70000'}\n":                  `config.yaml:1: server.addr: ":70000" is not host:port` + beside,
		"database: {driver: mysql, hosts: [':3306']}\n": `config.yaml:1: database.hosts: ":3306" is not host:port: write an address such as 10.0.0.5:6379, ` +
			`with a port from 1 to 65535`,
		"zookeeper: {addrs: ['h1:2181', 'h2:2181/leaf/']}\n": `config.yaml:1: zookeeper.addrs: "h2:2181/leaf/" is not host:port: write an address ` +
			`such as 10.0.0.7:2181, with a port from 1 to 65535; a chroot follows the last one, as in 10.0.0.7:2181/leaf`,
		"queue: {refill_cron: '*/2 * * * *'}\n": `config.yaml:1: queue.refill_cron: "*/2 * * * *" is not a schedule: ` +
			`write six fields (second minute hour day month weekday) such as 0 */2 * * * *`,
		"snowflake: {name: a/b}\n":                                 `config.yaml:1: snowflake.name: "a/b" is not a name: use 1 to 128 of letters, digits, '.', '_' and '-', a letter or digit first`,
		"snowflake: {advertise: 'host:80'}\n":                      `config.yaml:1: snowflake.advertise: "host:80" is not ip:port: write an address such as 10.0.0.5:8080, with a port from 1 to 65535`,
		"snowflake: {worker: {local_map: {'10.0.0.1:1': 1024}}}\n": "config.yaml:1: snowflake.worker.local_map: 1024 is not in 0…1023: choose a value in this range",
		"snowflake: {worker: {local_map: {'10.0.0.1:1': 5, '10.0.0.2:1': 5}}}\n": "config.yaml:1: snowflake.worker.local_map: " +
			"gives one worker ID to two instances: give each its own",
		"server: {admin_token: 'hunter 2'}\n":      "config.yaml:1: server.admin_token: the value holds a space, a line end or a character beyond ASCII: use visible ASCII only",
		"server: {admin_token: hunter2hunter20}\n": "config.yaml:1: server.admin_token: the value has 15 bytes: choose 16 to 512, best from shardid token new or openssl rand -hex 32",
		"redis: {url: 'redis://:hunter2@h:x'}\n": "config.yaml:1: redis.url: the value is not where a Redis is: " +
			"write redis://USER:PASSWORD@HOST:6379/0, rediss:// for TLS, " +
			"redis://HOST:26379,HOST:26379?master_name=NAME for sentinels, redis://HOST:6379,HOST:6379 for nodes " +
			"of a cluster; in user and password, " +
			"write % and two hex digits for signs such as / and #",
		"server: {admin_token: CHANGE-ME}\n": "config.yaml:1: server.admin_token: the value still holds CHANGE-ME " +
			"of the example: write your own secret",
	} {
		wantProblem(t, file, want)
	}
}

// wantProblem loads a file that stops the start with one line.
func wantProblem(t *testing.T, file, want string) {
	t.Helper()
	got, err := loadText(t, file, nil)
	if err == nil || err.Error() != want || got != nil {
		t.Errorf("%s\ngot  %v\nwant %s", file, err, want)
	}
}

// Values that are right by themselves and do not fit together are told with the line of the one to blame.
func TestConfigConflicts(t *testing.T) {
	const mysql = "database:\n  driver: mysql\n  dsn: a:hunter2@tcp(h:1)/"
	for file, want := range map[string]string{
		"server:\n  require_token: true\n":       "2: server.require_token is true but server.tokens_file is empty: name the file that has the tokens, see shardid token --help",
		"server: {protect_monitoring: true}\n":   "1: server.protect_monitoring is true but there is no token: set server.tokens_file or server.admin_token",
		"server:\n  tls_cert_file: c.pem\n":      "2: server.tls_cert_file and server.tls_key_file belong together: set both or none",
		"server:\n  tls_client_ca_file: c.pem\n": "2: server.tls_client_ca_file is set but server.tls_cert_file is empty: clients show certificates over TLS only",
		"server:\n  drain_delay: 20s\n":          "2: server.drain_delay 20s leaves nothing of server.shutdown_timeout 15s: raise the timeout or lower the delay",
		"database:\n  driver: mysql\n": "2: database.driver is mysql but database.dsn is empty: " +
			writeDSN + ", best in SHARDID_DATABASE_DSN",
		"database:\n  driver: mysql\n  dsn: app:hunter2@db\n": "3: database.dsn is no data source name of " +
			"MySQL: " + writeDSN,
		mysql + "ids?timeout=hunter2\n": "3: database.dsn is no data source name of " +
			"MySQL: " + writeDSN,
		mysql + "\n":                                                 "3: database.dsn names no database: " + writeDSN,
		mysql + "ids?tls=true\n  tls: true\n":                        "3: database.dsn has a parameter tls, and database.tls is true too: remove the parameter",
		mysql + "ids?allowAllFiles=true\n":                           "3: database.dsn has allowAllFiles, by which the server may read every file of this user: remove the parameter",
		mysql + "ids?allowCleartextPasswords=true\n":                 "3: " + cleartext,
		mysql + "ids?allowCleartextPasswords=true&tls=skip-verify\n": "3: " + cleartext,
		mysql + "ids\n  tls: true\n  tls_key_file: k.pem\n":          "5: database.tls_cert_file and database.tls_key_file belong together: set both or none",
		"database: {tls: true}\n":                                    "1: database.tls is true but database.driver is sqlite, a file: set database.driver to mysql",
		"database: {tls_ca_file: x}\n": "1: a database.tls_* key is set, and the " +
			"connections are not encrypted: set database.tls to true",
		"redis: {url: 'redis://h', tls_ca_file: x}\n": "1: a redis.tls_* key is set, and the " +
			"connections are not encrypted: begin redis.url with rediss://",
		"redis: {url: 'rediss://h', tls_key_file: x}\n": "1: redis.tls_cert_file and " +
			"redis.tls_key_file belong together: set both or none",
		"snowflake: {worker: {mode: redis}}\n": "1: snowflake.worker.mode is redis but " +
			"redis.url is empty: set it, or another snowflake.worker.mode",
		"database:\n  hosts: ['h:1']\n":                          "2: database.hosts is set but database.driver is sqlite, a file: set database.driver to mysql",
		"database:\n  dsn: app:hunter2@tcp(db:3306)/ids\n":       "2: " + serverForFile,
		"database:\n  dsn: app:hunter2@/ids\n":                   "2: " + serverForFile,
		"database:\n  dsn: postgres://app:hunter2@db:5432/ids\n": "2: " + serverForFile,
		"snowflake: {worker: {mode: local}}\n":                   "1: snowflake.worker.mode is local but snowflake.worker.local_map is empty: list ip:port with a worker ID for each instance",
		"snowflake: {worker: {mode: zk_normal}}\n":               "1: snowflake.worker.mode is zk but zookeeper.addrs is empty: list host:port of the servers",
		"snowflake:\n  seq_bits: 13\n":                           "2: snowflake.worker_bits and snowflake.seq_bits add up to 23: make the sum 22 or less, as 41 bits are time",
		"snowflake:\n  worker_bits: 5\n  worker: {mode: local, local_map: {'10.0.0.1:1': 31, '10.0.0.2:1': 32}}\n": "3: snowflake.worker.local_map gives " +
			"10.0.0.2:1 the worker ID 32, and snowflake.worker_bits 5 has room for 0…31: give it another one",
		"uid:\n  seq_bits: 14\n": "2: uid.time_bits, uid.worker_bits and uid.seq_bits add up to 64: make the sum 63",
		"uid:\n  seq_bits: 24\n  worker_bits: 11\n  boost_power: 7": "4: the ring has 2^(uid.boost_power + uid.seq_bits) slots and 7 + 24 is more than 30: " +
			"lower uid.boost_power, or set uid.mode to default",
		"region: {id: 4, bits: 2}\n": "1: region.id 4 does not fit into region.bits 2: there are the regions 0…3",
	} {
		wantProblem(t, file, "config.yaml:"+want)
	}
}

const (
	cleartext = "database.dsn has allowCleartextPasswords, and whoever answers at its address gets the password, " +
		"as its certificate is not checked: set database.tls to true, or remove the parameter"
	writeDSN      = "write user:password@tcp(host:3306)/shardid or mysql://user:password@host:3306/shardid"
	serverForFile = "database.dsn is that of a server but database.driver is sqlite, which takes the path of a file: " +
		"set database.driver to mysql, the only servers are MySQL and MariaDB, or correct database.dsn"
)

// A setting of the command line or a variable is refused in the same words as a line of the file.
func TestConfigFlagAndEnvErrors(t *testing.T) {
	const unknown = ": unknown variable: unset it, or see shardid serve --help for every key, and " +
		"CHANGELOG.md for what is in place of those of 0.3"
	for given, want := range map[string]string{
		"SHARDID_QUEUE_PREFETCH_MAX=0":    `environment SHARDID_QUEUE_PREFETCH_MAX: queue.prefetch_max: 0 is not in 1…10000: choose a value in this range, the default is 1000`,
		"SHARDID_QUEUE_PREFETCH=5":        "environment SHARDID_QUEUE_PREFETCH" + unknown,
		"SHARDID_URL=x":                   "environment SHARDID_URL" + unknown,
		"SHARDID_A\nB=x":                  "environment SHARDID_A…" + unknown,
		"SHARDID_DATABASE_TLS=":           `environment SHARDID_DATABASE_TLS: database.tls: "" is not a boolean: write true or false`,
		"SHARDID_REGION_ID=1":             "environment SHARDID_REGION_ID: region.id 1 does not fit into region.bits 0: there are the regions 0…0",
		"--set=segment.runway=2":          `flag --set: segment.runway: "2" is not a duration: write a number with its unit, such as 500ms, 2s or 5m`,
		"--set=region.id=1":               "flag --set: region.id 1 does not fit into region.bits 0: there are the regions 0…0",
		"--set=log.level=":                "flag --set: log.level: is empty: set it, the default is info",
		"--set=database.tls":              "flag --set: database.tls: has no value: write --set database.tls=VALUE",
		"--set=log.levle=info":            "flag --set: log.levle: unknown key: the keys here are level, format, access" + of03,
		"--set=log=info":                  "flag --set: log: unknown key: the keys here are " + sections + of03,
		"--set=nowhere.at=all":            "flag --set: nowhere.at: unknown key: the keys here are " + sections + of03,
		"--set=server.admin_token=hunter": "flag --set: server.admin_token: is a secret, which every user of the machine could read here: set SHARDID_SERVER_ADMIN_TOKEN instead",
		"--config=none.yaml":              "none.yaml: cannot be read: no such file or directory: name a file that this user may read",
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
	const file = "server:\n  adrr: x\n  addr: nowhere\n  require_token: 7\nfoo: 1\nlog: {level: loud}\nsegment: {runway: 100h}\n"
	_, err := loadText(t, file, []string{"SHARDID_QUEUE_PREFETCH_MAX=0", "SHARDID_SEGMENT_RUNWAY=1m", "SHARDID_X=1"}, "--set=log.access=some")
	want := []string{
		"config.yaml:2: server.adrr: unknown key: the keys here are " + keysOfServer + of03,
		`config.yaml:4: server.require_token: "7" is not a boolean: write true or false`,
		"config.yaml:5: foo: unknown key: the keys here are " + sections + of03,
		"environment SHARDID_X: unknown variable: unset it, or see shardid serve --help for every key, and CHANGELOG.md " +
			"for what is in place of those of 0.3",
		`config.yaml:3: server.addr: "nowhere" is not host:port` + beside,
		"environment SHARDID_QUEUE_PREFETCH_MAX: queue.prefetch_max: 0 is not in 1…10000: choose a value in this range, the default is 1000",
		`config.yaml:6: log.level: "loud" is not one of debug, info, warn, error: choose one, the default is info`,
		`flag --set: log.access: "some" is not one of off, errors, sampled, all: choose one, the default is off`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	many := strings.Builder{}
	for i := range 1000 {
		fmt.Fprintf(&many, "k%d: 1\n", i)
	}
	if _, err = loadText(t, many.String(), nil); err == nil || !strings.HasSuffix(err.Error(), "\n980 more problems: correct these first") {
		t.Errorf("many: %v", err)
	}
}

// A secret is in no message, however its line or its variable is broken.
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

// A password in the clear goes over TLS to a server whose certificate is checked, and what
// takes any certificate is warned of.
func TestWarnings(t *testing.T) {
	const dsn = "database:\n  driver: mysql\n  dsn: 'app:hunter2@tcp(db:3306)/ids?"
	for file, want := range map[string]string{
		"{}": "",
		dsn + "allowCleartextPasswords=true&tls=true'\n":     "",
		dsn + "allowCleartextPasswords=true'\n  tls: true\n": "",
		dsn + "tls=skip-verify'\n":                           "database.dsn has tls=skip-verify, which checks no certificate",
		dsn + "tls=preferred'\n":                             "database.dsn has tls=preferred, which checks no certificate",
		"database: {dsn: tls}\n":                             "",
		"redis: {url: 'rediss://h'}\n":                       "",
		"redis: {url: 'rediss://h?skip_verify=true'}\n":      "redis.url has skip_verify, which checks no certificate",
	} {
		got, err := loadText(t, file, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		warnings := strings.Join(got.Warnings(), "\n")
		if !strings.HasPrefix(warnings, want) || (want == "") != (warnings == "") || strings.Contains(warnings, "hunter") {
			t.Errorf("%s: %q, want %q", file, warnings, want)
		}
	}
}
