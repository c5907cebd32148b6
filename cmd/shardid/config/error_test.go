package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
)

const (
	ofPort = "write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535"
	noText = "write text in quotes, or what config.yaml of the release shows, or remove the line for the default"
	of03   = "and CHANGELOG.md for those of 0.3: "
	noKeys = "write the keys on the lines below their section, indented"
)

// Each mistake in a file stops the start with one line: what to do, then file, line, key and what is wrong.
func TestConfigFileErrors(t *testing.T) {
	for file, want := range map[string][2]string{
		// The shape of the file.
		"server:\n  adrr: x\n": {"did you mean server.addr", "2: server.adrr: unknown key"},
		"database: {dns: x}\n": {"did you mean database.dsn", "1: database.dns: unknown key"},
		"server.addr: x\n": {"write the key on a line of its own, indented below server",
			"1: server.addr: unknown"},
		"server:\n  port: 1\n": {"use server.addr, server.admin_token, ",
			"2: server.port: unknown key"},
		"foo: 1\n": {"see shardid serve --help for all keys, and", "1: foo: unknown key"},
		"log:\n  \"passwd hunter2\": x\n": {"use log.level, log.format, log.access, or",
			"2: log.passwd…: unknown key"},
		"region: {\"\": x}\n":                  {"did you mean region.id or region.bits", "1: region.: unknown key"},
		"log:\n  level: info\n  level: warn\n": {"keep one", "3: log.level: is there twice"},
		"server: 8080\n":                       {noKeys, "1: server has no keys"},
		"- server\n":                           {noKeys, "1: the file has no keys"},
		"log: {}\n---\nuid: {}\n":              {"keep one, without ---", "2: begins a second document"},
		"log: {}\n---\n":                       {"keep one, without ---", "2: begins a second document"},
		"log: {}\n...\nuid: {}\n":              {"keep one, without ---", "3: begins a second document"},
		"log:\nlevel: info\n":                  {"did you mean log.level", "2: level: unknown key"},
		"\xff\xfes\x00e\x00":                   {"save the file as UTF-8", " is no UTF-8, and perhaps UTF-16"},
		"s\x00e\x00":                           {"save the file as UTF-8", " is no UTF-8, and perhaps UTF-16"},
		"server:\n\taddr: x\n": {"check indentation (by spaces, not tabs), colons and quotes around this line",
			"2: is not YAML: found character … that cannot start any token"},
		// The type of a value.
		"server:\n  addr: [a]\n":                {noText, "2: server.addr: is no value of this key"},
		"server: {admin_token: {hunter2: x}}\n": {noText, "1: server.admin_token: is no value of this key"},
		"server:\n  addr:\n":                    {noText, "2: server.addr: is no value of this key"},
		"log:\n  level: &x info\n":              {noText, "2: log.level: is no value of this key"},
		"zookeeper: {addrs: [[a]]}\n":           {noText, "1: zookeeper.addrs: is no value of this key"},
		"queue: {prefetch_max: 1.5}\n": {"write decimal digits",
			`1: queue.prefetch_max: "1.5" is not a whole number`},
		"database: {tls: yes}\n": {"write true or false", `1: database.tls: "yes" is not a boolean`},
		"segment: {runway: 2}\n": {"write a number with its unit, such as 500ms, 2s or 5m",
			`1: segment.runway: "2" is not a duration`},
		"uid: {epoch: 2026-02-30}\n": {"write YYYY-MM-DD, or with time and zone 2016-05-20T00:00:00+08:00",
			`1: uid.epoch: "2026-02-30" is not a date`},
		"uid: {epoch: '2026-02-03T00:00:00.5Z'}\n": {"write YYYY",
			`1: uid.epoch: "2026-02-03T00:00:00.5Z" is not a date`},
		"snowflake: {worker: {local_map: {'10.0.0.1:1': x}}}\n": {
			`write ip:port=1 in a variable and {"ip:port": 1} in the file`,
			`1: snowflake.worker.local_map: "10.0.0.1:1=x" is not a key with a whole number`},
		// The value itself.
		"# one\nqueue:\n  # two\n  prefetch_max: 0\n": {"choose a value in 1…10000, the default is 1000",
			"4: queue.prefetch_max: is 0"},
		"uid: {schedule_interval: 1ms}\n": {"choose a value in 1s…24h, the default is off",
			"1: uid.schedule_interval: is 1ms"},
		"database: {driver: postgres}\n": {"choose one of sqlite, mysql, the default is sqlite",
			`1: database.driver: is "postgres"`},
		"data_dir: ''\n":              {"set it, the default is data", "1: data_dir: is empty"},
		"server: {addr: localhost}\n": {ofPort, `1: server.addr: "localhost" is not host:port`},
		"zookeeper: {addrs: ['h1:2181', 'h2:2181/leaf/']}\n": {"write an address such as 10.0.0.7:2181, with a port " +
			"from 1 to 65535; a chroot follows the last one, as in 10.0.0.7:2181/leaf",
			`1: zookeeper.addrs: "h2:2181/leaf/" is not host:port`},
		"database: {driver: mysql, hosts: [':3306']}\n": {"write an address such as 10.0.0.5:6379",
			`1: database.hosts: ":3306" is not host:port`},
		"queue: {refill_cron: '*/2 * * * *'}\n": {
			"write six fields (second minute hour day month weekday) such as 0 */2 * * * *",
			`1: queue.refill_cron: "*/2 * * * *" is not a schedule`},
		"snowflake: {name: a/b}\n": {"use 1 to 128 of letters, digits, '.', '_' and '-', a letter or digit first",
			`1: snowflake.name: "a/b" is not a name`},
		"snowflake: {advertise: 'host:80'}\n": {"write an address such as 10.0.0.5:8080",
			`1: snowflake.advertise: "host:80" is not ip:port`},
		"snowflake: {worker: {local_map: {'10.0.0.1': 5}}}\n": {"write an address such as 10.0.0.5:8080",
			`1: snowflake.worker.local_map: "10.0.0.1" is not ip:port`},
		"server: {admin_token: 'hunter 2'}\n": {"use visible ASCII only",
			"1: server.admin_token: the value holds a space, a line end or a character beyond ASCII"},
		"server: {admin_token: CHANGE-ME}\n": {"write your own secret",
			"1: server.admin_token: the value still holds CHANGE-ME of the example"},
	} {
		wantProblem(t, file, want[0], want[1])
	}
}

// wantProblem loads a file that stops the start with one line.
func wantProblem(t *testing.T, file, do, wrong string) {
	t.Helper()
	got, err := loadText(t, file, nil)
	if err == nil || !strings.HasPrefix(err.Error(), do) || !strings.Contains(err.Error(), ": config.yaml:"+wrong) ||
		strings.Contains(err.Error(), "\n") || got != nil {
		t.Errorf("%s\ngot  %v\nwant %s: config.yaml:%s", file, err, do, wrong)
	}
}

// Values that are right by themselves and do not fit together are told with the line of the one to blame.
func TestConfigConflicts(t *testing.T) {
	const (
		mysql   = "database:\n  driver: mysql\n  dsn: a:hunter2@tcp(h:1)/"
		write   = "write user:password@tcp(host:3306)/shardid or mysql://user:password@host:3306/shardid"
		toMySQL = "set database.driver to mysql"
		both    = "set both or none"
	)
	for file, want := range map[string][2]string{
		"server:\n  require_token: true\n": {"name the file that has the tokens",
			"2: server.require_token is true but server"},
		"server: {protect_monitoring: true}\n": {"set server.tokens_file or",
			"1: server.protect_monitoring is true but t"},
		"server:\n  tls_cert_file: c.pem\n": {both, "2: server.tls_cert_file and server.tls_key"},
		"server:\n  tls_client_ca_file: c.pem\n": {"set server.tls_cert_file",
			"2: server.tls_client_ca_file is set"},
		"server:\n  drain_delay: 20s\n": {"raise server.shutdown_timeout",
			"2: server.drain_delay 20s leaves nothing o"},
		"database:\n  driver: mysql\n": {write, "2: database.driver is mysql but database.d"},
		"database:\n  dsn: app:hunter2@10.0.0.7:3306/ids\n": {toMySQL,
			"2: database.dsn is that of a server but da"},
		"database:\n  dsn: host=h dbname=ids\n": {toMySQL,
			"2: database.dsn is that of a server but da"},
		"database:\n  driver: mysql\n  dsn: app:hunter2@db\n": {write, "3: database.dsn is no data source name of "},
		mysql + "ids?timeout=hunter2\n":                       {write, "3: database.dsn is no data source name of "},
		mysql + "\n":                                          {write, "3: database.dsn names no database"},
		"database:\n  driver: mysql\n  dsn: mysql://h:70000/i": {write,
			"3: database.dsn has no host with a port in 1"},
		mysql + "ids?tls=true\n  tls: true\n": {"remove the parameter",
			"3: database.dsn has a parameter tls, and d"},
		mysql + "ids\n  tls: true\n  tls_key_file: k.pem": {both, "5: database.tls_cert_file and database.tls"},
		"database: {tls: true}\n": {toMySQL,
			"1: database.tls is true but database.drive"},
		"database: {tls_ca_file: x}\n": {"set database.tls to true",
			"1: database.tls_ca_file, database.tls_cert"},
		"database:\n  hosts: ['h:1']\n": {toMySQL,
			"2: database.hosts is set but database.driv"},
		"database:\n  dsn: app:hunter2@tcp(db:3306)/ids": {toMySQL,
			"2: database.dsn is that of a server but da"},
		"database:\n  dsn: app:hunter2@/ids\n": {toMySQL,
			"2: database.dsn is that of a server but da"},
		"database:\n  dsn: postgres://app:hunter2@db/i": {toMySQL,
			"2: database.dsn is that of a server but da"},
		"redis: {url: 'redis://h', tls_ca_file: x}\n": {"begin redis.url with",
			"1: redis.tls_ca_file, redis.tls_cert_file "},
		"redis: {url: 'rediss://h', tls_key_file: x}\n": {both, "1: redis.tls_cert_file and redis.tls_key_f"},
		"snowflake: {worker: {mode: local}}\n": {"list ip:port",
			"1: snowflake.worker.mode is local but snow"},
		"snowflake: {worker: {mode: zk}}\n": {"list host:port",
			"1: snowflake.worker.mode is zk but zookeep"},
		"snowflake:\n  seq_bits: 13\n": {"make the sum 22",
			"2: snowflake.worker_bits and snowflake.seq"},
		"snowflake:\n  worker_bits: 5\n  worker: {mode: local, " +
			"local_map: {'10.0.0.1:1': 31, '10.0.0.2:1': 32}}\n": {"give the address a worker ID in 0…31",
			"3: snowflake.worker.local_map gives 10.0.0.2:1 the worker ID 32"},
		"snowflake: {worker: {local_map: {'10.0.0.1:1': 5, '10.0.0.2:1': 5}}}": {"give each address a worker ID",
			"1: snowflake.worker.local_map gives the worker ID 5 to 10.0.0.1:1 and to 10.0.0.2:1"},
		"snowflake: {worker: {local_map: {'10.0.0.1:1': -1}}}": {"give the address",
			"1: snowflake.worker.local_map gives 10.0.0.1:1 "},
		"uid:\n  seq_bits: 14\n": {"make the sum 63",
			"2: uid.time_bits, uid.worker_bits and uid."},
		"uid:\n  seq_bits: 24\n  worker_bits: 11\n  boost_power: 7": {"lower uid.boost_power",
			"4: the ring has 2^(uid.boost_power + uid.s"},
		"region: {id: 4, bits: 2}\n": {"choose a region in 0…3",
			"1: region.id 4 does not fit into region.bi"},
		"snowflake: {worker_bits: 2}\nregion:\n  bits: 2": {"lower region.bits, or switch snowflake",
			"3: region.bits 2 leaves no worker IDs of s"},
	} {
		wantProblem(t, file, want[0], want[1])
	}
}

// A setting of the command line or a variable is refused in the same words as a line of the file.
func TestConfigFlagAndEnvErrors(t *testing.T) {
	for given, want := range map[string]string{
		"SHARDID_QUEUE_PREFETCH_MAX=0": "choose a value in 1…10000, the default is 1000: environment " +
			"SHARDID_QUEUE_PREFETCH_MAX: queue.prefetch_max: is 0",
		"SHARDID_URL=x": "see shardid serve --help for all keys, " + of03 +
			"environment SHARDID_URL: unknown key",
		"SHARDID_REDIS_ADDRS=x": "use SHARDID_REDIS_URL, SHARDID_REDIS_TLS_CA_FILE, SHARDID_REDIS_TLS_CERT_FILE, " +
			"SHARDID_REDIS_TLS_KEY_FILE, or see CHANGELOG.md for the keys of 0.3: environment SHARDID_REDIS_ADDRS: " +
			"unknown key",
		"SHARDID_LOG_LEVELS=x": "did you mean SHARDID_LOG_LEVEL: environment SHARDID_LOG_LEVELS: unknown key",
		"SHARDID_DATABASE_TLS=": `write true or false: environment SHARDID_DATABASE_TLS: database.tls: "" is not a ` +
			`boolean`,
		"SHARDID_REGION_ID=1": "choose a region in 0…0, or more bits: environment SHARDID_REGION_ID: region.id 1 " +
			"does not fit into region.bits 0",
		"--set=log.level=":     "set it, the default is info: flag --set: log.level: is empty",
		"--set=database.tls":   "write --set database.tls=VALUE: flag --set: database.tls: has no value",
		"--set=log.levle=info": "did you mean log.level: flag --set: log.levle: unknown key",
		"--set=log=info":       "did you mean log.level or log.format or log.access: flag --set: log: unknown key",
		"--set=server.admin_token=hunter": "set SHARDID_SERVER_ADMIN_TOKEN instead: flag --set: server.admin_token: " +
			"is a secret, which every user of the machine could read here",
		"--config=none.yaml": "name a file that this user may read: none.yaml: cannot be read: no such file or " +
			"directory",
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
		"did you mean server.addr: config.yaml:2: server.adrr: unknown key",
		`write true or false: config.yaml:4: server.require_token: "7" is not a boolean`,
		"see shardid serve --help for all keys, " + of03 + "environment SHARDID_X: unknown key",
		ofPort + `: config.yaml:3: server.addr: "nowhere" is not host:port`,
		`choose one of debug, info, warn, error, the default is info: config.yaml:5: log.level: is "loud"`,
		`choose one of off, all, the default is off: flag --set: log.access: is "some"`,
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
						!regexp.MustCompile(`^<nil>|: config\.yaml:\d+: |: environment SHARDID_`).MatchString(line) {
						t.Errorf("%s %q: %v", k.Path, wrong, err)
					}
				}
			}
		}
	}
}
