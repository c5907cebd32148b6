package config

import (
	"strings"
	"testing"
)

// The names that the unknown key is none of.
const (
	sections     = "server, resp, database, redis, queue, segment, snowflake, zookeeper, uid, sequence, region, log, data_dir, time_zone"
	keysOfServer = "addr, allowed_hosts, admin_token, tokens_file, require_token, protect_monitoring, tls_cert_file, tls_key_file, " +
		"tls_client_ca_file, pprof_addr, max_connections, read_header_timeout, idle_timeout, max_header_bytes, " +
		"max_url_bytes, drain_delay, shutdown_timeout"
)

type fileError struct{ name, file, want string }

// fileErrors are files and the one line that each stops the start with.
func fileErrors() []fileError {
	return append(typeErrors(), valueErrors()...)
}

// typeErrors are about the shape of the file and the type of a value; yamlfile has those of YAML.
func typeErrors() []fileError {
	return []fileError{
		{"unknown key", "server:\n  adrr: x\n",
			"config.yaml:2: server.adrr: unknown key: the keys here are " + keysOfServer},
		{"unknown key, nothing near", "server:\n  colour: x\n",
			"config.yaml:2: server.colour: unknown key: the keys here are " + keysOfServer},
		{"unknown section", "sever:\n  addr: x\n",
			"config.yaml:1: sever: unknown key: the keys here are " + sections},
		{"unknown key that lives elsewhere", "low_watermark: 0.5\n",
			"config.yaml:1: low_watermark: unknown key: the keys here are " + sections},
		{"dotted key", "server.addr: x\n",
			"config.yaml:1: server.addr: unknown key: the keys here are " + sections},
		{"key that is more than a name", "log:\n  \"passwd hunter2\": x\n",
			"config.yaml:2: log.passwd…: unknown key: the keys here are level, format, access"},
		{"key with a line end", "\"a\\nb\": x\n",
			"config.yaml:1: a…: unknown key: the keys here are " + sections},
		{"key with no name", "zookeeper: {\"\": x}\n",
			"config.yaml:1: zookeeper.: unknown key: the keys here are addrs, session_timeout"},
		{"duplicate key", "log:\n  level: info\n  level: warn\n",
			"config.yaml:3: log.level: is there twice: keep one"},
		{"duplicate section", "log: {}\nuid: {}\nlog: {}\n",
			"config.yaml:3: log: is there twice: keep one"},
		{"duplicate map key", "snowflake:\n  worker:\n    local_map: {'10.0.0.1:1': 1, '10.0.0.1:1': 2}\n",
			`config.yaml:3: snowflake.worker.local_map: "10.0.0.1:1" is there twice: keep one`},
		{"number for text", "redis:\n  master_name: 7\n",
			"config.yaml:2: redis.master_name: is a number, not text: write one text, in quotes"},
		{"list for text", "server:\n  addr: [a]\n",
			"config.yaml:2: server.addr: is a list, not text: write one text, in quotes"},
		{"nothing for text", "server:\n  addr:\n",
			"config.yaml:2: server.addr: is empty: write a value, or remove the line for the default"},
		{"text for number", "queue:\n  prefetch_max: many\n",
			`config.yaml:2: queue.prefetch_max: "many" is not a whole number: write decimal digits without a leading 0`},
		{"quoted number", "queue:\n  prefetch_max: '10'\n",
			"config.yaml:2: queue.prefetch_max: is text, not a number: write it like 1000"},
		{"fraction for whole number", "queue:\n  prefetch_max: 1.5\n",
			`config.yaml:2: queue.prefetch_max: "1.5" is not a whole number: write decimal digits without a leading 0`},
		{"hexadecimal", "queue:\n  prefetch_max: 0x10\n",
			`config.yaml:2: queue.prefetch_max: "0x10" is not a whole number: write decimal digits without a leading 0`},
		{"octal", "queue:\n  prefetch_max: 010\n",
			`config.yaml:2: queue.prefetch_max: "010" is not a whole number: write decimal digits without a leading 0`},
		{"number too large", "queue:\n  prefetch_max: 99999999999999999999\n",
			`config.yaml:2: queue.prefetch_max: "99999999999999999999" is not small enough: write a number of fewer digits`},
		{"text for boolean", "redis:\n  tls: yes\n",
			"config.yaml:2: redis.tls: is text, not a boolean: write true or false"},
		{"duration without unit", "queue:\n  timeout: 2\n",
			"config.yaml:2: queue.timeout: is a number, not a duration: write it like 2s"},
		{"duration unreadable", "queue:\n  timeout: 2 seconds\n",
			`config.yaml:2: queue.timeout: "2 seconds" is not a duration: write a number with its unit, such as 500ms, 2s or 5m`},
		{"interval zero", "uid:\n  schedule_interval: 0s\n",
			`config.yaml:2: uid.schedule_interval: "0s" is not an interval: write off, or a number with its unit such as 5m`},
		{"interval boolean", "uid:\n  schedule_interval: false\n",
			"config.yaml:2: uid.schedule_interval: is a boolean, not an interval: write off or a number with its unit such as 5m"},
		{"interval short", "uid:\n  schedule_interval: 1ms\n",
			"config.yaml:2: uid.schedule_interval: 1ms is not in 1s…24h: choose a value in this range, the default is off"},
		{"date", "uid:\n  epoch: 2026-02-30\n",
			`config.yaml:2: uid.epoch: "2026-02-30" is not a date: write it as YYYY-MM-DD, or with time and zone as 2016-05-20T00:00:00+08:00`},
		{"date as number", "uid:\n  epoch: 2026\n",
			"config.yaml:2: uid.epoch: is a number, not a date: write it like 2026-01-01"},
		{"text for list", "redis:\n  addrs: a:1,b:2\n",
			`config.yaml:2: redis.addrs: is text, not a list: write ["host:port", "host:port"]`},
		{"number in list", "redis:\n  addrs: [1]\n",
			`config.yaml:2: redis.addrs: holds a number where text belongs: write ["host:port", "host:port"]`},
		{"text for map", "snowflake: {worker: {local_map: x}}\n",
			`config.yaml:1: snowflake.worker.local_map: is text, not a map: write {"ip:port": number}`},
		{"text in map", "snowflake: {worker: {local_map: {'10.0.0.1:1': x}}}\n",
			`config.yaml:1: snowflake.worker.local_map: holds something else than text with a whole number: write {"ip:port": number}`},
		{"text for section", "server: 8080\n",
			"config.yaml:1: server: is a section: write its keys on the lines below it, indented"},
		{"list for section", "log:\n  - level\n",
			"config.yaml:1: log: is a section: write its keys on the lines below it, indented"},
		{"list at the top", "- server\n",
			"config.yaml:1: has no keys at its top: write sections such as server: with keys indented below"},
		{"text at the top", "server\n",
			"config.yaml:1: has no keys at its top: write sections such as server: with keys indented below"},
		{"anchor", "log:\n  level: &x info\n",
			"config.yaml:2: log.level: is an anchor, alias or tag: write the value itself"},
		{"nothing for list", "redis:\n  addrs:\n",
			"config.yaml:2: redis.addrs: is empty: write a value, or remove the line for the default"},
		{"nothing for secret", "redis:\n  password:\n",
			"config.yaml:2: redis.password: is empty: write a value, or remove the line for the default"},
		{"list for secret", "redis:\n  password: [hunter2]\n",
			"config.yaml:2: redis.password: is a list, not text: write one text, in quotes"},
		{"tag", "log:\n  level: !!str info\n",
			"config.yaml:2: log.level: is an anchor, alias or tag: write the value itself"},
		{"merge", "<<: {a: 1}\n",
			"config.yaml:1: unknown key: the keys here are " + sections},
		{"not YAML", "log:\n  level: \"info\n",
			"config.yaml:2: is not YAML: found unexpected end of stream: check indentation, colons and quotes around this line"},
		{"colon twice", "log:\n  level: a: b\n",
			"config.yaml:2: is not YAML: mapping values are not allowed in this context: check indentation, colons and quotes around this line"},
	}
}

// valueErrors are about what a value, or several together, may be.
func valueErrors() []fileError {
	return []fileError{
		{"ratio too high", "# one\nqueue:\n  # two\n  low_watermark: 1.5\n",
			"config.yaml:4: queue.low_watermark: 1.5 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2"},
		{"ratio zero", "queue: {low_watermark: 0}\n",
			"config.yaml:1: queue.low_watermark: 0 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.2"},
		{"ratio not a number", "queue: {low_watermark: .nan}\n",
			`config.yaml:1: queue.low_watermark: ".nan" is not a number: write it like 0.2`},
		{"whole number out of range", "queue: {prefetch_max: 0}\n",
			"config.yaml:1: queue.prefetch_max: 0 is not in 1…10000: choose a value in this range, the default is 1000"},
		{"duration out of range", "queue: {timeout: 1ms}\n",
			"config.yaml:1: queue.timeout: 1ms is not in 10ms…1m: choose a value in this range, the default is 2s"},
		{"choice", "database: {driver: postgres}\n",
			`config.yaml:1: database.driver: "postgres" is not one of sqlite, mysql: choose one, the default is sqlite`},
		{"empty choice", "database: {driver: ''}\n",
			"config.yaml:1: database.driver: is empty: set it, the default is sqlite"},
		{"empty text", "data_dir: ''\n",
			"config.yaml:1: data_dir: is empty: set it, the default is data"},
		{"listen address without port", "server: {addr: localhost}\n",
			`config.yaml:1: server.addr: "localhost" is not host:port: write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535`},
		{"listen port", "server: {addr: ':70000'}\n",
			`config.yaml:1: server.addr: ":70000" is not host:port: write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535`},
		{"listen port name", "server: {addr: ':http'}\n",
			`config.yaml:1: server.addr: ":http" is not host:port: write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535`},
		{"address with credentials", "redis: {addrs: ['user:pw@h:1']}\n",
			"config.yaml:1: redis.addrs: the value is not host:port: write an address such as 10.0.0.5:6379, with a port from 1 to 65535"},
		{"ZooKeeper without port", "zookeeper: {addrs: [h1]}\n",
			`config.yaml:1: zookeeper.addrs: "h1" is not host:port: write an address such as 10.0.0.7:2181, with a port from 1 to 65535; ` +
				`a chroot follows the last one, as in 10.0.0.7:2181/leaf`},
		{"chroot that ends in a slash", "zookeeper: {addrs: ['h1:2181', 'h2:2181/leaf/']}\n",
			`config.yaml:1: zookeeper.addrs: "h2:2181/leaf/" is not host:port: write an address such as 10.0.0.7:2181, with a port from 1 to 65535; ` +
				`a chroot follows the last one, as in 10.0.0.7:2181/leaf`},
		{"address without host", "redis: {addrs: [':6379']}\n",
			`config.yaml:1: redis.addrs: ":6379" is not host:port: write an address such as 10.0.0.5:6379, with a port from 1 to 65535`},
		{"schedule of five fields", "queue: {refill_cron: '*/2 * * * *'}\n",
			`config.yaml:1: queue.refill_cron: "*/2 * * * *" is not a schedule: write six fields (second minute hour day month weekday) such as 0 */2 * * * *`},
		{"schedule that never comes", "queue: {reload_cron: '0 0 0 30 2 *'}\n",
			`config.yaml:1: queue.reload_cron: "0 0 0 30 2 *" never comes: choose a day that exists in its month`},
		{"schedule of a zone alone", "queue: {reload_cron: 'TZ=UTC'}\n",
			`config.yaml:1: queue.reload_cron: "TZ=UTC" is not a schedule: write six fields (second minute hour day month weekday) such as 0 */2 * * * *`},
		{"name", "snowflake: {name: a/b}\n",
			`config.yaml:1: snowflake.name: "a/b" is not a name: use 1 to 128 of letters, digits, '.', '_' and '-', a letter or digit first`},
		{"identity", "snowflake: {advertise: 'host:80'}\n",
			`config.yaml:1: snowflake.advertise: "host:80" is not ip:port: write an address such as 10.0.0.5:8080, with a port from 1 to 65535`},
		{"preload", "segment: {preload: 0}\n",
			"config.yaml:1: segment.preload: 0 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.1"},
		{"preload 1", "segment: {preload: 1}\n",
			"config.yaml:1: segment.preload: 1 is not in 0…1 (ends excluded): choose a value in this range, the default is 0.1"},
		{"uid.mode", "uid: {mode: zk}\n",
			`config.yaml:1: uid.mode: "zk" is not one of default, cached: choose one, the default is cached`},
		{"worker ID", "snowflake: {worker: {local_map: {'10.0.0.1:1': 1024}}}\n",
			"config.yaml:1: snowflake.worker.local_map: 1024 is not in 0…1023: choose a value in this range"},
		{"worker twice", "snowflake: {worker: {local_map: {'10.0.0.1:1': 5, '10.0.0.2:1': 5}}}\n",
			"config.yaml:1: snowflake.worker.local_map: gives one worker ID to two instances: give each its own"},
		{"worker identity", "snowflake: {worker: {local_map: {'h:1': 5}}}\n",
			`config.yaml:1: snowflake.worker.local_map: "h:1" is not ip:port: write an address such as 10.0.0.5:8080, with a port from 1 to 65535`},
		{"token", "server: {admin_token: 'hunter 2'}\n",
			"config.yaml:1: server.admin_token: the value holds a space, a line end or a character beyond ASCII: use visible ASCII only"},
		{"long token", "server: {admin_token: '" + strings.Repeat("x", 513) + "'}\n",
			"config.yaml:1: server.admin_token: the value has 513 bytes: choose 16 to 512, best from shardid token new or openssl rand -hex 32"},
		{"short token", "server: {admin_token: hunter2hunter20}\n",
			"config.yaml:1: server.admin_token: the value has 15 bytes: choose 16 to 512, best from shardid token new or openssl rand -hex 32"},
		{"token of the example", "server: {admin_token: CHANGE-ME}\n",
			"config.yaml:1: server.admin_token: the value still holds CHANGE-ME of the example: write your own secret"},
		{"password of the example", "redis: {mode: single, addrs: ['h:1'], password: CHANGE-ME}\n",
			"config.yaml:1: redis.password: the value still holds CHANGE-ME of the example: write your own secret"},
		{"data source name of the example", "database:\n  driver: mysql\n  dsn: shardid:CHANGE-ME@tcp(h:1)/ids\n",
			"config.yaml:3: database.dsn: the value still holds CHANGE-ME of the example: write your own secret"},
		{"token as number", "server: {admin_token: 4711}\n",
			"config.yaml:1: server.admin_token: is a number, not text: write one text, in quotes"},
		{"tokens that are nowhere", "server:\n  require_token: true\n",
			"config.yaml:2: server.require_token is true but server.tokens_file is empty: name the file that has the tokens, see shardid token --help"},
		{"protected by nothing", "server: {protect_monitoring: true}\n",
			"config.yaml:1: server.protect_monitoring is true but there is no token: set server.tokens_file or server.admin_token"},
		{"certificate without key", "server:\n  tls_cert_file: c.pem\n",
			"config.yaml:2: server.tls_cert_file and server.tls_key_file belong together: set both or none"},
		{"clients' certificates without TLS", "server:\n  tls_client_ca_file: ca.pem\n",
			"config.yaml:2: server.tls_client_ca_file is set but server.tls_cert_file is empty: clients show certificates over TLS only"},
		{"TLS to a file", "database: {tls: true}\n",
			"config.yaml:1: database.tls is true but database.driver is sqlite, a file: set database.driver to mysql"},
		{"TLS twice", "database:\n  driver: mysql\n  dsn: a:hunter2@tcp(h:1)/ids?tls=true\n  tls: true\n",
			"config.yaml:3: database.dsn has a parameter tls, and database.tls is true too: remove the parameter"},
		{"database file without TLS", "database: {tls_server_name: x}\n",
			"config.yaml:1: a database.tls_* key is set but database.tls is false: set database.tls to true"},
		{"database certificate without key", "database:\n  driver: mysql\n  dsn: a@tcp(h:1)/ids\n  tls: true\n  tls_key_file: k.pem\n",
			"config.yaml:5: database.tls_cert_file and database.tls_key_file belong together: set both or none"},
		{"drain", "server:\n  drain_delay: 20s\n",
			"config.yaml:2: server.drain_delay 20s leaves nothing of server.shutdown_timeout 15s: raise the timeout or lower the delay"},
		{"a URL for a host", "server: {allowed_hosts: [ids.example, 'https://ids.example']}\n",
			`config.yaml:1: server.allowed_hosts: "https://ids.example" is not the name of a host: write it without scheme and port, such as ids.example.com`},
		{"a host with its port", "server: {allowed_hosts: ['ids.example:8080']}\n",
			`config.yaml:1: server.allowed_hosts: "ids.example:8080" is not the name of a host: write it without scheme and port, such as ids.example.com`},
		{"pprof", "server:\n  pprof_addr: 127.0.0.1:8080\n",
			"config.yaml:2: server.pprof_addr is the same as server.addr: give it a port of its own"},
		{"mysql without dsn", "database:\n  driver: mysql\n",
			"config.yaml:2: database.driver is mysql but database.dsn is empty: write user:password@tcp(host:3306)/shardid, best in SHARDID_DATABASE_DSN"},
		{"dsn", "database:\n  driver: mysql\n  dsn: app:hunter2@db\n",
			"config.yaml:3: database.dsn is not a go-sql-driver data source name: write user:password@tcp(host:3306)/shardid"},
		{"dsn parameter", "database:\n  driver: mysql\n  dsn: app:pw@/ids?timeout=hunter2\n",
			"config.yaml:3: database.dsn is not a go-sql-driver data source name: write user:password@tcp(host:3306)/shardid"},
		{"every file for the server", "database:\n  driver: mysql\n  dsn: app:hunter2@tcp(db:3306)/ids?allowAllFiles=true\n",
			"config.yaml:3: database.dsn has allowAllFiles, by which the server may read every file of this user: remove the parameter"},
		{"password in the clear", "database:\n  driver: mysql\n  dsn: app:hunter2@tcp(db:3306)/ids?allowCleartextPasswords=true\n", cleartext},
		{"password in the clear to anybody", "database:\n  driver: mysql\n  dsn: app:hunter2@tcp(db:3306)/ids?allowCleartextPasswords=true&tls=skip-verify\n", cleartext},
		{"password in the clear, unless TLS is there", "database:\n  driver: mysql\n  dsn: app:hunter2@tcp(db:3306)/ids?tls=preferred&allowCleartextPasswords=1\n", cleartext},
		{"dsn without database", "database:\n  driver: mysql\n  dsn: app:hunter2@tcp(db:3306)/\n",
			"config.yaml:3: database.dsn names no database: write user:password@tcp(host:3306)/shardid"},
		{"dsn of mysql for sqlite", "database:\n  dsn: app:hunter2@tcp(db:3306)/ids\n",
			"config.yaml:2: database.dsn is that of a server but database.driver is sqlite, which takes the path of a file: set database.driver to mysql, the only servers are MySQL and MariaDB, or correct database.dsn"},
		{"dsn of mysql without address for sqlite", "database:\n  dsn: app:hunter2@/ids\n",
			"config.yaml:2: database.dsn is that of a server but database.driver is sqlite, which takes the path of a file: set database.driver to mysql, the only servers are MySQL and MariaDB, or correct database.dsn"},
		{"dsn of postgres for sqlite", "database:\n  dsn: postgres://app:hunter2@db:5432/ids\n",
			"config.yaml:2: database.dsn is that of a server but database.driver is sqlite, which takes the path of a file: set database.driver to mysql, the only servers are MySQL and MariaDB, or correct database.dsn"},
		{"SQLite with hosts", "database:\n  hosts: ['h:1']\n",
			"config.yaml:2: database.hosts is set but database.driver is sqlite, a file: set database.driver to mysql"},
		{"embedded with addrs", "redis:\n  addrs: ['h:1']\n",
			"config.yaml:2: redis.addrs is set but redis.mode is embedded: set redis.mode to single, sentinel or cluster"},
		{"single without addrs", "redis:\n  mode: single\n",
			"config.yaml:2: redis.mode is single but redis.addrs is empty: list host:port of the servers"},
		{"single with two", "redis:\n  mode: single\n  addrs: ['h:1', 'h:2']\n",
			"config.yaml:3: redis.addrs has several but redis.mode is single: keep one, or set redis.mode to sentinel or cluster"},
		{"sentinel without master", "redis:\n  mode: sentinel\n  addrs: ['h:1']\n",
			"config.yaml:2: redis.mode is sentinel but redis.master_name is empty: set the name of the master"},
		{"sentinel password for single", "redis:\n  mode: single\n  addrs: ['h:1']\n  sentinel_password: hunter2\n",
			"config.yaml:4: redis.master_name or a redis.sentinel_* key is set but redis.mode is single: set redis.mode to sentinel or remove them"},
		{"cluster with db", "redis:\n  mode: cluster\n  addrs: ['h:1']\n  db: 1\n",
			"config.yaml:4: redis.db is not 0 but redis.mode is cluster: remove redis.db, a cluster has only database 0"},
		{"tls file without tls", "redis:\n  tls_ca_file: ca.pem\n",
			"config.yaml:2: a redis.tls_* key is set but redis.tls is false: set redis.tls to true"},
		{"tls certificate without key", "redis:\n  tls: true\n  tls_cert_file: c.pem\n",
			"config.yaml:3: redis.tls_cert_file and redis.tls_key_file belong together: set both or none"},
		{"local without map", "snowflake: {worker: {mode: local}}\n",
			"config.yaml:1: snowflake.worker.mode is local but snowflake.worker.local_map is empty: list ip:port with a worker ID for each instance"},
		{"snowflake bits", "snowflake:\n  seq_bits: 13\n",
			"config.yaml:2: snowflake.worker_bits and snowflake.seq_bits add up to 23: make the sum 22 or less, as 41 bits are time"},
		{"sequence start", "snowflake:\n  seq_bits: 6\n",
			"config.yaml:2: snowflake.sequence_start 100 is more than the 64 IDs that snowflake.seq_bits 6 gives a millisecond: lower it, a few leave room for most of them"},
		{"no room for a worker ID", "snowflake:\n  worker_bits: 5\n  worker: {mode: local, local_map: {'10.0.0.1:1': 31, '10.0.0.2:1': 32}}\n",
			"config.yaml:3: snowflake.worker.local_map gives 10.0.0.2:1 the worker ID 32, and snowflake.worker_bits 5 has room for 0…31: give it another one"},
		{"worker bits out of range", "snowflake:\n  worker_bits: 11\n",
			"config.yaml:2: snowflake.worker_bits: 11 is not in 1…10: choose a value in this range, the default is 10"},
		{"zk without servers", "snowflake: {worker: {mode: zk_normal}}\n",
			"config.yaml:1: snowflake.worker.mode is zk but zookeeper.addrs is empty: list host:port of the servers"},
		{"bits", "uid:\n  seq_bits: 14\n",
			"config.yaml:2: uid.time_bits, uid.worker_bits and uid.seq_bits add up to 64: make the sum 63"},
		{"ring too large", "uid:\n  seq_bits: 24\n  worker_bits: 11\n  boost_power: 7",
			"config.yaml:4: the ring has 2^(uid.boost_power + uid.seq_bits) slots and 7 + 24 is more than 30: lower uid.boost_power, or set uid.mode to default"},
		{"worker IDs from an embedded Redis", "snowflake:\n  worker: {mode: redis}",
			"config.yaml:2: snowflake.worker.mode is redis but redis.mode is embedded: set redis.mode and redis.addrs, or another snowflake.worker.mode"},
		{"access log", "log: {access: some}",
			`config.yaml:1: log.access: "some" is not one of off, errors, sampled, all: choose one, the default is off`},
		{"no zone", "time_zone: Mars/Olympus", "config.yaml:1: time_zone: \"Mars/Olympus\" is not a time zone: write a name such as Asia/Shanghai, UTC, or Local for the machine's"},
		{"bits out of range", "uid:\n  seq_bits: 0\n",
			"config.yaml:2: uid.seq_bits: 0 is not in 1…61: choose a value in this range, the default is 13"},
		{"carriage returns", "log:\r\n  level: x\r\n",
			`config.yaml:2: log.level: "x" is not one of debug, info, warn, error: choose one, the default is info`},
	}
}

// All problems are named, of every source, a line each.
func TestConfigAllProblems(t *testing.T) {
	const file = "server:\n  adrr: x\n  addr: nowhere\n  require_token: 7\nfoo: 1\nlog: {level: loud}\nredis: {mode: single}\n"
	_, err := loadText(t, file, []string{"SHARDID_QUEUE_TIMEOUT=1h", "SHARDID_X=1"}, "--set=log.access=some", "--set=redis.tls=maybe")
	want := []string{
		"config.yaml:2: server.adrr: unknown key: the keys here are " + keysOfServer,
		"config.yaml:4: server.require_token: is a number, not a boolean: write true or false",
		"config.yaml:5: foo: unknown key: the keys here are " + sections,
		"environment SHARDID_X: unknown variable: unset it, or see config.yaml in the sources for every key",
		`flag --set redis.tls: "maybe" is not a boolean: write true or false`,
		`config.yaml:3: server.addr: "nowhere" is not host:port: write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535`,
		"environment SHARDID_QUEUE_TIMEOUT: 1h0m0s is not in 10ms…1m: choose a value in this range, the default is 2s",
		`config.yaml:6: log.level: "loud" is not one of debug, info, warn, error: choose one, the default is info`,
		`flag --set log.access: "some" is not one of off, errors, sampled, all: choose one, the default is off`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	_, err = loadText(t, "server:\n  require_token: true\n  protect_monitoring: true\nredis:\n  mode: single\nuid:\n  seq_bits: 14\nsnowflake: {seq_bits: 10, sequence_start: 4000}", nil)
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("conflicts: %v", err)
	}
	if _, err = loadText(t, strings.Repeat("k: 1\n", 1000), nil); err == nil || !strings.HasSuffix(err.Error(), "\n980 more problems: correct these first") {
		t.Errorf("many: %v", err)
	}
}

func TestConfigFileErrors(t *testing.T) {
	for _, c := range fileErrors() {
		t.Run(c.name, func(t *testing.T) {
			got, err := loadText(t, c.file, nil)
			if err == nil || err.Error() != c.want || got != nil {
				t.Errorf("got  %v, %v\nwant %s", got, err, c.want)
			}
			if strings.Contains(c.want, "hunter") {
				t.Error("the message leaks")
			}
		})
	}
}

// A password in the clear goes over TLS to a server whose certificate is checked, and what
// takes any certificate is warned of.
func TestWarnings(t *testing.T) {
	const dsn = "database:\n  driver: mysql\n  dsn: 'app:hunter2@tcp(db:3306)/ids?"
	for file, want := range map[string]string{
		"{}": "",
		dsn + "allowCleartextPasswords=true&tls=true'\n":                                     "",
		dsn + "allowCleartextPasswords=true'\n  tls: true\n":                                 "",
		dsn + "tls=skip-verify'\n":                                                           "database.dsn has tls=skip-verify, which checks no certificate",
		dsn + "tls=preferred'\n":                                                             "database.dsn has tls=preferred, which checks no certificate",
		dsn + "'\n  tls: true\n  tls_insecure_skip_verify: true\n":                           "database.tls_insecure_skip_verify is true",
		"redis: {mode: single, addrs: ['h:1'], tls: true, tls_insecure_skip_verify: true}\n": "redis.tls_insecure_skip_verify is true",
		"database: {dsn: tls}\n":                                                             "",
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

const cleartext = "config.yaml:3: database.dsn has allowCleartextPasswords, and whoever answers at its address gets the password, " +
	"as its certificate is not checked: set database.tls to true, or remove the parameter"
