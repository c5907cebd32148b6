package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
	"shardid/service/monitor"

	"github.com/redis/go-redis/v9"
)

// What people get wrong on their first days, and what they are told: by the commands as they are typed, by a server
// over HTTP, and by one over the protocol of Redis. Each message is one line, begins with what to do, and shows no
// password.

// wrong is an input, which says names by its kind: a command by its arguments, GET or POST with a path, or RESP with a
// command of Redis. begins is how the message begins that it gets.
type wrong struct{ says, begins string }

// newcomer is somebody in a folder of his own, with an embedded server, and later with a MariaDB and a Redis.
type newcomer struct {
	*testing.T
	url  string
	resp *redis.Client
}

// message is what a wrong input gets.
func (n newcomer) message(input string) string {
	n.Helper()
	kind, rest, _ := strings.Cut(input, " ")
	switch kind {
	case "GET", "POST":
		path, body, _ := strings.Cut(rest, " ")
		token, path, hasToken := strings.Cut(path, "@")
		if !hasToken {
			token, path = "", token
		}
		return n.overHTTP(kind, path, token, body)
	case "RESP":
		var args []any
		for word := range strings.FieldsSeq(rest) {
			args = append(args, word)
		}
		text := fmt.Sprint(n.resp.Do(n.Context(), args...).Err())
		_, text, _ = strings.Cut(text, " ") // SHARDID or its like, and the code
		_, text, _ = strings.Cut(text, " ")
		return text
	}
	exit, _, stderr := try(n.T, strings.Fields(input)...)
	if exit == exitDone {
		n.Errorf("%s: it was done", input)
	}
	stderr, _, _ = strings.Cut(stderr, `{"time":`) // audit lines follow
	return strings.TrimSuffix(strings.TrimPrefix(stderr, "shardid: "), "\n")
}

func (n newcomer) overHTTP(method, path, token, body string) string {
	n.Helper()
	request, err := http.NewRequestWithContext(n.Context(), method, n.url+path, strings.NewReader(body))
	check.Must(n, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d has it
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	check.Must(n, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check.Must(n, err)
	var said struct {
		Code    int
		Message string
	}
	check.Must(n, json.Unmarshal(text, &said))
	if answer.StatusCode < 400 || said.Code == 0 {
		n.Errorf("%s %s: %s", method, path, text)
	}
	return said.Message
}

// are holds the messages of one kind of mistake against how they are to begin.
func (n newcomer) are(mistake string, all ...wrong) {
	n.Run(mistake, func(t *testing.T) {
		n.T = t
		for _, w := range all {
			got := n.message(w.says)
			if !strings.HasPrefix(got, w.begins) || strings.Contains(got, "\n") || strings.Contains(got, "hunter2") {
				t.Errorf("%s\n got  %s\n want %s", w.says, got, w.begins)
			}
		}
	})
}

// files writes files into the folder.
func (n newcomer) files(all map[string]string) {
	for name, text := range all {
		check.Must(n, os.WriteFile(name, []byte(text), 0o600))
	}
}

const writeDSN = "write user:password@tcp(host:3306)/shardid or mysql://user:password@host:3306/shardid"

// TestWrongInputs has those that need no other server.
func TestWrongInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOGC", "100") // serve would space out the collections of this process
	n := newcomer{T: t}
	addr := testserver.FreeAddrs(t, 1)[0]
	url, _ := served(t, "--set=resp.addr="+addr, "--set=server.tokens_file="+n.tokens())
	n.url, n.resp = url, redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	defer n.resp.Close()
	host := strings.TrimPrefix(url, "http://")
	utf16le := []byte{0xFF, 0xFE}
	for _, unit := range utf16.Encode([]rune("server:\r\n  addr: :8080\r\n")) {
		utf16le = append(utf16le, byte(unit), byte(unit>>8))
	}
	n.files(map[string]string{
		"key.yaml":      "database:\n  dns: x\n",
		"section.yaml":  "server:\n  port: 80\n",
		"tab.yaml":      "log:\n\tlevel: info\n",
		"indent.yaml":   "log:\nlevel: info\n",
		"utf16.yaml":    string(utf16le),
		"jdbc.yaml":     "database: {driver: mysql, dsn: 'jdbc:mysql://hunter2@db:3306/ids'}\n",
		"bare.yaml":     "database: {driver: mysql, dsn: 'app:hunter2@db:3306/ids'}\n",
		"driver.yaml":   "database: {dsn: 'app:hunter2@tcp(db:3306)/ids'}\n",
		"memory.yaml":   "database: {dsn: ':memory:'}\n",
		"postgres.yaml": "database: {driver: postgres}\n",
		"http.yaml":     "redis: {url: 'http://hunter2@db:6379'}\n",
		"port.yaml":     "database: {driver: mysql, dsn: 'app:hunter2@tcp(127.0.0.1:1)/ids'}\n",
	})
	elsewhere := "serve --set log.level=error --set data_dir=elsewhere --set server.addr="
	for _, m := range []struct {
		mistake string
		all     []wrong
	}{
		{"the port is taken", []wrong{
			{elsewhere + host, "end the other program that listens there, or choose another server.addr: "},
		}},
		{"status asks where nothing is", []wrong{
			{"status --url http://127.0.0.1:1", "start the server, or correct the URL or server.addr: "},
		}},
		{"status asks the port of Redis clients", []wrong{
			{"status --url http://" + addr, "correct the URL or server.addr: what answers there is not the HTTP of "},
		}},
		{"the port of MySQL", []wrong{
			{"migrate --config port.yaml", "start the database server at 127.0.0.1:1, or correct database.dsn: "},
		}},
		{"another form of DSN", []wrong{
			{"migrate --config jdbc.yaml", writeDSN}, {"migrate --config bare.yaml", writeDSN},
			{"migrate --config driver.yaml", "set database.driver to mysql, "},
			{"migrate --config postgres.yaml", "choose one of sqlite, mysql, the default is sqlite: "},
		}},
		{"another form of Redis' URL", []wrong{
			{"serve --config http.yaml", "write redis://USER:PASSWORD@HOST:6379/0, "},
		}},
		{"a key of the file", []wrong{
			{"config check --config key.yaml",
				"did you mean database.dsn or database.tls: key.yaml:2: database.dns: "},
			{"config check --config section.yaml", "use server.addr, "},
			{"config check --config indent.yaml", "did you mean log.level: indent.yaml:2: level: "},
			{"config check --config tab.yaml", "check indentation (by spaces, not tabs), "},
		}},
		{"a file in UTF-16", []wrong{
			{"config check --config utf16.yaml", "save the file as UTF-8: utf16.yaml: "},
		}},
		{"no such file", []wrong{
			{"serve --config nosuch.yaml", "name a file that this user may read: nosuch.yaml: "},
		}},
		{"--set", []wrong{
			{"config check --set server.port=1", "use server.addr, "},
			{"config check --set nonsense=1", "see shardid serve --help for all keys, "},
			{"config check --set queue.prefetch_max=lots",
				`write decimal digits: flag --set: queue.prefetch_max: "lots" `},
			{"config check --set server.admin_token=hunter2", "set SHARDID_SERVER_ADMIN_TOKEN instead: "},
		}},
		{"a flag of 0.3", []wrong{
			{"serve --server.addr=:80", "did you mean --set server.addr=VALUE; see shardid serve --help: "},
			{"apps add --app 9 --name x --max-limit=3", "did you mean --max-limit-id; see shardid apps --help: "},
		}},
		{"a command", []wrong{
			{"srve", "did you mean serve; see shardid --help: "},
			{"token", "write shardid token new --name NAME --may WHAT,WHAT; "},
			{"confirm", "give --app and --name, --tag, --space, --uid or --registry, see shardid confirm --help: "},
			{"apps set --app 1",
				"give some of --name, --description, --step, --max-limit-id, --limit-policy, --min-index: "},
		}},
		{"no such app", []wrong{
			{"GET /get?appId=9&gatePass=alice", "see `shardid apps`, or provision it with `shardid provision --app 9 "},
			{"RESP INCR queue:9:alice", "see `shardid apps`, or provision it with `shardid provision --app 9 "},
			{"apps set --app 9 --step 5", "see `shardid apps`, or provision it with `shardid provision --app 9 "},
		}},
		{"no such tag", []wrong{
			{"GET /v1/segment/none/ids", "see `shardid tags`, or add it with `shardid tags add --tag NAME "},
		}},
		{"no gatePass", []wrong{
			{"GET /v1/queue/1/ids",
				"pass the user name, phone number or e-mail address that the ID is for as gatePass: "},
			{"GET /v1/queue/1/ids?gatepass=alice",
				"use count, ranges, format, padded, gatePass, shard: unknown parameter "},
		}},
		{"provision twice", []wrong{
			{"provision --app 1 --name test",
				"leave it, by --if-missing if it is the same, or change it with `shardid apps set --app 1`: "},
		}},
		{"what nothing could use", []wrong{
			{"apps add --app 9 --name x --max-limit-id 5", "give a --max-limit-id of 32521 or more, or 0 for none: "},
			{"tags add --tag ..", `choose another tag than ".."`},
			{"config check --config memory.yaml", "name the path of a file in database.dsn, "},
			{"config check --set zookeeper.addrs=a:1/x,b:2", "write a chroot after the last address: "},
			{`config check --set snowflake.worker.local_map={"10.0.0.1:1":1,"10.0.0.1:1":2}`, "keep one: "},
			{"bench --mode uid --rate NaN", "give --concurrency, "},
		}},
		{"a file that is not there", []wrong{
			{"doctor --token-file nosuch", "name a file that holds a token of the server by --token-file: "},
			{"status --wait 1h --token-file nosuch", "name a file that holds a token of the server by --token-file: "},
		}},
		{"a token", []wrong{
			{"GET hunter2-is-no-token@/admin/apps", "send another token: "},
			{"GET /admin/apps", "send the header Authorization: Bearer TOKEN: "},
		}},
		{"JSON that is sent as a form", []wrong{
			{`POST /v1/queue/1/ids {"gatePass":"bob"}`,
				"send the header Content-Type: application/json: "},
			{"POST hunter2-of-an-administrator@/admin/apps id=3&name=x",
				"send one JSON object with some of id, name, "},
		}},
		{"a path or a method", []wrong{
			{"GET /nope", "take a path of /openapi.yaml: "},
			{"POST /decode id=5", "use GET, HEAD, OPTIONS: "},
		}},
		{"a folder that cannot be written", []wrong{
			{elsewhere + "127.0.0.1:0 --set data_dir=/sys/kernel",
				"let the user of this process read and write /sys/kernel/shardid.db and its folder, or set another " +
					"data_dir: "},
		}},
		{"an ID", []wrong{
			{"decode abc", "name the format, dec, hex, base36, base62 or crockford, of an ID that is not decimal: "},
			{"decode 18446744073709551616", "write an ID below 2^63: "},
			{"GET /decode?id=abc",
				"name the format, dec, hex, base36, base62 or crockford, of an ID that is not decimal: "},
		}},
		{"a command of Redis", []wrong{
			{"RESP INCR foo", "use queue:<appId>:<gatePass>, list:<appId>:<shard>, "},
			{"RESP INCR queue:1",
				"write queue:<appId>:<gatePass> or list:<appId>:<shard> with an appId of 0…255, not "},
			{"RESP SET a b", "send INCR, LPOP or RPOP for IDs: "},
		}},
	} {
		n.are(m.mistake, m.all...)
	}
	t.Setenv("SHARDID_REDIS_ADDRS", "127.0.0.1:6379")
	n.are("a variable of 0.3", wrong{"config check", "use SHARDID_REDIS_URL, "})
	check.Must(t, os.Unsetenv("SHARDID_REDIS_ADDRS"))
	t.Chdir(t.TempDir())
	n.are("another shell, without the variables", wrong{"provision --app 5 --name forgotten", "set database.driver " +
		"and database.dsn to those of the service, "})
	url, _ = served(t, "--set=snowflake.epoch_ms=4102444800000")
	n.url = url
	n.are("an epoch that is to come", wrong{"health --url " + url + "/readyz/snowflake", "the time does not fit "})
	n.are("administration is closed", wrong{
		"GET any@/admin/apps",
		"set server.admin_token, or add a token that may admin to server.tokens_file, or use the command line",
	})
}

// tokens is a file with that of an administrator.
func (n newcomer) tokens() string {
	n.files(map[string]string{
		"tokens.yaml": "- {name: boss, sha256: " + hash("hunter2-of-an-administrator") + ", may: [admin]}\n",
	})
	return "tokens.yaml"
}

// TestWrongInputsOfStores has those about MySQL and Redis.
func TestWrongInputsOfStores(t *testing.T) {
	t.Chdir(t.TempDir())
	db, store := testserver.MariaDB(t), testserver.Redis(t, "--maxmemory", "1gb")
	check.Must(t, store.Client().ConfigSet(t.Context(), "requirepass", "hunter2").Err())
	authorized := redis.NewClient(&redis.Options{Addr: store.Addr, Password: "hunter2"})
	defer authorized.Close()
	n := newcomer{T: t}
	root, err := sql.Open("mysql", db.DSN(""))
	check.Must(t, err)
	defer root.Close()
	root.SetMaxOpenConns(1)
	do := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			_, err := root.ExecContext(t.Context(), s)
			check.Must(t, err)
		}
	}
	do("CREATE DATABASE ids", "CREATE USER app@'%' IDENTIFIED BY 'hunter2'", "CREATE USER reader@'%'",
		"GRANT ALL ON ids.* TO app@'%'", "GRANT SELECT ON ids.* TO reader@'%'")
	config := func(name, user, database, more string) {
		n.files(map[string]string{name + ".yaml": fmt.Sprintf("server: {addr: '127.0.0.1:0'}\nlog: {level: error}\n"+
			"database: {driver: mysql, dsn: '%s@tcp(%s)/%s'}\n%s", user, db.Addr(), database, more)})
	}
	withRedis := fmt.Sprintf("redis: {url: 'redis://:hunter2@%s'}\n", store.Addr)
	config("right", "app:hunter2", "ids", withRedis)
	config("alone", "app:hunter2", "ids", "")
	config("password", "app:hunter22", "ids", "")
	config("name", "app:hunter2", "idz", "")
	config("rights", "reader", "ids", "")
	config("redis-port", "app:hunter2", "ids", "redis: {url: 'redis://127.0.0.1:1'}\n")
	config("redis-password", "app:hunter2", "ids", fmt.Sprintf("redis: {url: 'redis://:hunter22@%s'}\n", store.Addr))

	n.are("the password", wrong{"migrate --config password.yaml", "correct user and password in database.dsn: "})
	n.are("the name of the database", wrong{
		"migrate --config name.yaml", "correct the name of the database in database.dsn, or grant ",
	})
	n.are("the tables", wrong{"provision --config alone.yaml --app 1 --name test", "run `shardid migrate`: "})
	types(t, []line{{"migrate --config right.yaml", 0, "schema is at version"},
		{"provision --config right.yaml --app 1 --name test", 0, "app 1 is added"}})
	n.are("the rights", wrong{
		"provision --config rights.yaml --app 2 --name b", "grant the user of database.dsn SELECT, INSERT, ",
	})
	n.are("where Redis is", wrong{"doctor --config redis-port.yaml", "start Redis, or correct redis.url: "},
		wrong{"doctor --config redis-password.yaml", "correct user and password in redis.url "})
	check.Must(t, authorized.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	n.are("Redis evicts", wrong{"doctor --config right.yaml", "do what WHY says of maxmemory-policy: "})
	types(t, []line{{"tags add --config right.yaml --tag orders", 0, "tag orders is added"}})
	loaded := func(s monitor.Status) bool {
		segment := s.Modes["segment"]
		return segment.Ready || segment.Error != "" && !strings.HasSuffix(segment.Error, "starting")
	}
	stop := n.serve("right.yaml",
		func(s monitor.Status) bool { return s.Witness != nil && !s.Witness.HeldSince.IsZero() })
	do("CREATE TABLE ids.replicas AS SELECT * FROM ids.shardid_replica",
		"CREATE TABLE ids.deployments AS SELECT * FROM ids.shardid_deployment")
	stop()
	do("REPLACE INTO ids.shardid_replica SELECT * FROM ids.replicas", // as if it had been killed
		"UPDATE ids.shardid_deployment SET witness = (SELECT witness FROM ids.deployments)")
	stop = n.serve("alone.yaml", loaded)
	n.are("no Redis, where others have one", wrong{
		"GET /v1/segment/orders/ids",
		"start Redis, and let redis.url name the same Redis in the configuration of every replica: ",
	})
	stop()

	do("SET max_heap_table_size = 16384", "ALTER TABLE ids.leaf_alloc ENGINE=MEMORY") // as full as a disk
	exit := exitDone
	for i := 0; exit == exitDone && i < 100; i++ {
		exit, _, _ = try(t, "tags", "add", "--config", "right.yaml", "--tag", fmt.Sprint(i))
	}
	n.are("the disk is full", wrong{
		"tags add --config right.yaml --tag more", "free space on the disk of " + db.Addr() + ": ",
	})

	do("SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() + 3600'")
	stop = n.serve("right.yaml", loaded)
	n.are("the clock", wrong{"GET /v1/segment/orders/ids", "set both clocks (NTP): "})
	stop()
}

// serve has n ask a server with a configuration, once its status is as it is to be.
func (n *newcomer) serve(file string, is func(monitor.Status) bool) (stop func()) {
	n.Helper()
	loaded, err := load(n.T, nil, "--config="+file)
	check.Must(n, err)
	app, err := NewApp(loaded.Config, slog.New(slog.DiscardHandler), nil)
	check.Must(n, err)
	check.Must(n, app.Start(n.Context(), false))
	n.url = strings.TrimSuffix(app.url, "/")
	check.Eventually(n, file, func() error {
		status, _, err := asking{url: n.url, timeout: time.Minute}.status(n.Context(), loaded.Config)
		if err == nil && !is(status) {
			err = errors.New("it is not yet")
		}
		return err
	})
	return func() { check.OK(n, app.Stop(0)) }
}
