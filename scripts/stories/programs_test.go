//go:build unix

package stories_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// Programs of docs/clients.md and of docs/examples/java, and clients that generators make, as far as their languages
// and
// libraries are here: make test-clients installs them.

// program is a block of a page that is written to a file and run. In its environment are the URL of a server, its
// PORT for Redis clients, this FOLDER, and the CLASSES of client/java.
type program struct {
	file, needs, run string            // needs is a command that succeeds where all is installed
	more             map[string]string // other files: their text, or "BLOCK: " and a block
}

// programsPage has those that stand on no page of docs/.
const programsPage = "testdata/programs.md"

// programs are by the marks of their blocks, or by their paths in docs/examples; what has no file stands beside the
// page.
func programs() map[string]program {
	generated := func(file, generator string) program {
		needs := `test -n "$SHARDID_TEST_CLIENTS"` // as the generator is fetched
		return program{file, needs, "sh -eu follow.sh", map[string]string{"follow.sh": "BLOCK: sh " + generator}}
	}
	javac := func(class, jars, statement string) program {
		path := `.:$CLASSES`
		for _, jar := range strings.Fields(jars) {
			path += ":/usr/share/java/" + jar + ".jar"
		}
		return program{
			class + ".java", "javac -version" + strings.ReplaceAll(path[len(".:$CLASSES"):], ":", " && ls "),
			"javac --release 8 -encoding UTF-8 -Xlint:-options -d . -cp " + path + " *.java && " +
				"SHARDID_URLS=$URL java -Dshardid.urls=$URL -cp " + path + " Run $URL",
			map[string]string{"Run.java": "class Run { public static void main(String[] args) { " + statement + " } }"},
		}
	}
	mybatis := javac("ShardidGenerator", "", `System.out.println(new ShardidGenerator(
		shardid.Shardid.connect(args[0], null).snowflakes("demo")).nextId(null));`)
	mybatis.more["IdentifierGenerator.java"] = `package com.baomidou.mybatisplus.core.incrementer;
		public interface IdentifierGenerator { Number nextId(Object entity); }` // Debian lacks it
	const python = "/usr/bin/python3"
	return map[string]program{
		"python redis-py": {"ids.py", python + " -c 'import redis'", python + " ids.py", nil},
		"php phpredis":    {"ids.php", "php -r 'new Redis();'", "php ids.php", nil},
		"js ioredis":      {"ids.js", `node -e "require('ioredis')"`, "node ids.js", nil},
		"js HTTP":         {"ids.js", "node -e fetch", "node ids.js $URL fetch", nil},
		"axios": {"", `node -e "require('axios')"`, "node ids.js $URL axios",
			map[string]string{"ids.js": "BLOCK: js HTTP"}},
		"go client": {"main.go", "go version", "go run -C $FOLDER $PWD/main.go", nil},

		"go oapi-codegen":       generated("main.go", "oapi-codegen"),
		"ts openapi-typescript": generated("ids.mts", "openapi-typescript"),
		"ts orval":              generated("ids.mts", "orval"),
		"ts hey-api":            generated("ids.mts", "hey-api"),

		"java client": javac("Ids", "", "Ids.main(args);"),

		"java/mybatis-plus/ShardidGenerator.java": mybatis,
		"java/hibernate/ShardidGenerator.java": javac("ShardidGenerator", "hibernate-core",
			"System.out.println(new ShardidGenerator().generate(null, null));"),
		"java/spring/Ids.java": javac("Ids",
			"spring3-context spring3-beans spring3-core spring3-expression spring3-aop commons-logging",
			`try (org.springframework.context.annotation.AnnotationConfigApplicationContext c =
				new org.springframework.context.annotation.AnnotationConfigApplicationContext(Ids.class)) {
				System.out.println(c.getBean(shardid.Snowflakes.class).next());
			}`),
	}
}

// TestPrograms: each program ends well, and the last that it prints are IDs.
func TestPrograms(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo", "--set", "resp.addr=127.0.0.1:0")
	d.ready()
	_, port, _ := net.SplitHostPort(d.respAddr())
	folder, err := filepath.Abs(".")
	check.Must(t, err)
	env := append(os.Environ(), "URL="+d.url, "PORT="+port, "FOLDER="+folder, "CLASSES="+javaClasses(t))
	// Debian's Hibernate has another name for the session, and its Spring cannot make the subclass of a @Configuration,
	// which the page does not need.
	const session = "SharedSessionContractImplementor"
	here := strings.NewReplacer("http://127.0.0.1:8080", d.url, "6380", port, "@Configuration\n", "",
		"org.hibernate.engine.spi."+session, "org.hibernate.engine.SessionImplementor", session, "SessionImplementor")
	blocks := map[string]string{}
	for _, b := range append(blocksOf(t, docs+"clients.md"), blocksOf(t, programsPage)...) {
		mark := strings.TrimSpace(b.kind + " " + b.name)
		if _, isRun := programs()[mark]; !isRun && b.name != "" && b.name != "table" && b.kind != "sh" {
			t.Errorf("nobody runs the block %s", mark)
		}
		blocks[mark] = here.Replace(b.text)
	}
	for mark := range programs() {
		if strings.HasPrefix(mark, "java/") {
			blocks[mark] = here.Replace(readPage(t, docs+"examples/"+mark))
		}
	}
	for mark, p := range programs() {
		t.Run(mark, func(t *testing.T) {
			t.Parallel()
			dir, files := t.TempDir(), map[string]string{p.file: "BLOCK: " + mark}
			if out, err := shell(t, dir, env, p.needs); err != nil {
				t.Skipf("not installed: %s: %s", p.needs, out)
			}
			maps.Copy(files, p.more)
			delete(files, "")
			for file, text := range files {
				if name, isBlock := strings.CutPrefix(text, "BLOCK: "); isBlock {
					if text = blocks[name]; text == "" {
						t.Fatalf("there is no block %s", name)
					}
				}
				writeFile(t, filepath.Join(dir, file), text)
			}
			out, err := shell(t, dir, env, p.run)
			if err != nil || !regexp.MustCompile(`\d`).MatchString(rig.LastLines(out, 5)) {
				t.Errorf("%v: %s, want IDs at its end", err, out)
			}
		})
	}
}

// shell runs a command in a folder, for five minutes at most.
func shell(t *testing.T, dir string, env []string, command string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", command)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// javaClasses compiles client/java and its test for Java 8, and gives the folder of the classes, "" without a compiler.
func javaClasses(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("javac"); err != nil {
		return ""
	}
	sources, err := filepath.Glob("../../client/java/src/*/java/shardid/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatal("client/java has no sources:", err)
	}
	classes := t.TempDir()
	options := []string{"--release", "8", "-encoding", "UTF-8", "-Xlint:all,-options", "-Werror", "-d", classes}
	out, err := exec.CommandContext(t.Context(), "javac", append(options, sources...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return classes
}

// TestJavaClient runs the test of client/java, against its fakes and against a server.
func TestJavaClient(t *testing.T) {
	check.Deep(t)
	story(t)
	classes := javaClasses(t)
	if classes == "" {
		t.Skip("not installed: javac")
	}
	d := serve(t, nil, "--demo")
	d.ready()
	out, err := exec.CommandContext(t.Context(), "java", "-cp", classes, "shardid.ShardidTest", d.url).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "ok\n") {
		t.Errorf("%v: %s", err, out)
	}
	granted, released := len(d.Lines(`"msg":"lease granted"`)), len(d.Lines(`"msg":"lease released"`))
	if granted != 3 || released != 3 {
		t.Errorf("%d leases were granted and %d released, want 3", granted, released)
	}
}

// tableRow is a client with settings, the program of programs.md that asks by it, and what comes of it.
type tableRow struct {
	client, settings          string
	program, library, options string
	incr, lpop, multi         string
}

const (
	exactString = "exact, string"
	exactNumber = "exact, integer"
	exactBigInt = "exact, BigInt"
	refusedINCR = "error -6"
	roundedINCR = "**rounded**"
)

func tableRows() []tableRow {
	const node, php = "node $CLIENTS/table.js", "php $CLIENTS/table.php"
	const python = "/usr/bin/python3 $CLIENTS/table.python"
	// What go run has to download it says among the answers: it must be there before.
	const golang = "export GOFLAGS= GOWORK=off; go mod download -C $GOLANG 2>/dev/null; go run -C $GOLANG ."
	return []tableRow{
		{"ioredis 6", "defaults (RESP3)", node, "ioredis6", "{}", exactString, exactString, exactString},
		{"ioredis 6", "`protocol: 2`", node, "ioredis6", `{"protocol":2}`, refusedINCR, exactString, refusedINCR},
		{"ioredis 5", "defaults", node, "ioredis", "{}", refusedINCR, exactString, refusedINCR},
		{"ioredis 5", "`stringNumbers: true, clientInfoTag: \"strings\"`",
			node, "ioredis", `{"stringNumbers":true,"clientInfoTag":"strings"}`, exactString, exactString, exactString},
		{"ioredis 4", "defaults", node, "ioredis4", "{}", roundedINCR, exactString, roundedINCR},
		{"ioredis 4", "`stringNumbers: true`",
			node, "ioredis4", `{"stringNumbers":true}`, exactString, exactString, exactString},
		{"node-redis 6", "defaults (RESP3)", node, "redis6", "{}", exactBigInt, exactString, exactBigInt},
		{"node-redis 5", "defaults", node, "redis", "{}", refusedINCR, exactString, refusedINCR},
		{"node-redis 5", "`RESP: 3`", node, "redis", `{"RESP":3}`, exactBigInt, exactString, exactBigInt},
		{"node-redis 5", "`RESP: 3`, `clientSideCache`",
			node, "redis", `{"RESP":3,"clientSideCache":{"maxEntries":0}}`, exactBigInt, exactString, exactBigInt},
		{"node-redis 4", "defaults", node, "redis4", "{}", refusedINCR, exactString, refusedINCR},
		{"GLIDE for Node", "defaults (RESP3)", node, "glide", "{}", exactBigInt, exactString, exactBigInt},
		{"GLIDE for Node", "`protocol: ProtocolVersion.RESP2`",
			node, "glide", `{"protocol":1}`, refusedINCR, exactString, refusedINCR},
		{"iovalkey", "defaults", node, "iovalkey", "{}", roundedINCR, exactString, roundedINCR},
		{"iovalkey", "`stringNumbers: true`",
			node, "iovalkey", `{"stringNumbers":true}`, exactString, exactString, exactString},
		{"redis-py", "defaults; `pipeline()`", python, "redis", "{}", exactNumber, exactString, exactNumber},
		{"phpredis", "defaults", php, "phpredis", "{}", exactNumber, exactString, exactNumber},
		{"Predis", "defaults", php, "predis", "{}", exactNumber, exactString, exactNumber},
		{"rueidis", "defaults (client-side caching)", golang, "rueidis", "{}", exactNumber, exactNumber, exactNumber},
		{"go-redis 9", "defaults (RESP3)", golang, "go-redis", "{}", exactNumber, exactString, exactNumber},
	}
}

// TestClientTable asks 2,000 times by each client that is installed, with the settings of the table. What came must be
// what the table has; make test-clients installs the clients.
func TestClientTable(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo", "--set", "resp.addr=127.0.0.1:0")
	d.ready()
	_, port, _ := net.SplitHostPort(d.respAddr())
	clients := t.TempDir()
	for _, b := range blocksOf(t, programsPage) {
		writeFile(t, filepath.Join(clients, b.name+"."+b.kind), b.text)
	}
	golang, err := filepath.Abs("testdata/golang")
	check.Must(t, err)
	env := append(os.Environ(), "CLIENTS="+clients, "GOLANG="+golang,
		"PORT="+port, "METRICS="+testserver.FreeAddrs(t, 1)[0])
	for _, row := range tableRows() {
		want := []string{row.incr, row.multi, row.lpop}
		t.Run(row.client+", "+row.settings, func(t *testing.T) {
			for i, command := range []string{"INCR", "MULTI", "LPOP"} {
				if got := row.outcome(t, env, command); got != want[i] {
					t.Errorf("%s: %s, want %s", command, got, want[i])
				}
			}
		})
	}
	for _, c := range redisTools() {
		t.Run(c.name, func(t *testing.T) {
			if out, err := shell(t, t.TempDir(), env, "command -v "+c.needs); err != nil {
				t.Skipf("not installed: %s%s", c.needs, out)
			}
			out, _ := shell(t, t.TempDir(), env, c.run) // it may end with an error, but end it must
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("%s says no %q: %s", c.run, want, out)
				}
			}
		})
	}
}

// outcome asks and says in the words of the table what came.
func (r tableRow) outcome(t *testing.T, env []string, command string) string {
	t.Helper()
	out, err := shell(t, t.TempDir(), env, r.program+" $PORT "+r.library+" '"+r.options+"' "+command)
	var said struct {
		Type, Error string
		Distinct    int
	}
	if err != nil || json.Unmarshal([]byte(out), &said) != nil {
		missing := `Cannot find module|No module named|Failed opening required|Class "Redis" not found|: not found`
		if regexp.MustCompile(missing).MatchString(out) {
			t.Skip("not installed:", r.client)
		}
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s %s: %s", r.client, command, strings.TrimSpace(out))
	word := map[string]string{
		"string": exactString, "bytes": exactString, "bigint": exactBigInt,
		"integer": exactNumber, "int": exactNumber, "int64": exactNumber,
	}[said.Type]
	switch {
	case regexp.MustCompile(`^SHARDID:? -6 .* LPOP`).MatchString(said.Error):
		return refusedINCR
	case said.Type == "number" && said.Distinct < 1000:
		return roundedINCR
	case word != "" && said.Distinct == 2000:
		return word
	}
	return out
}

// redisTool is a program for a Redis, and what it prints.
type redisTool struct {
	name, needs, run string
	says             []string
}

// redisTools are programs for a Redis that meet shardid. redis-cli has help, --pipe ends and counts the errors, and
// redis-benchmark by its defaults takes nothing down; redis_exporter finds a Redis that is up.
func redisTools() []redisTool {
	const incr, ping = `*2\r\n$4\r\nINCR\r\n$3\r\nuid\r\n`, `*1\r\n$4\r\nPING\r\n`
	const set = `*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n`
	const exporter = `prometheus-redis-exporter -redis.addr 127.0.0.1:$PORT -web.listen-address $METRICS >log 2>&1 `
	const benchmark, isThere = "redis-benchmark -p $PORT -n 1000 -q", " || true; redis-cli -p $PORT PING"
	isServing := []string{"requests per second", "PONG"}
	return []redisTool{
		{"a pipe", "redis-cli", "printf '" + incr + set + ping + "' | redis-cli -p $PORT --pipe",
			[]string{"errors: 1, replies: 3"}},
		{"benchmark", "redis-benchmark", benchmark + isThere, isServing},
		{"benchmark of PING", "redis-benchmark", benchmark + " -t ping" + isThere, isServing},
		{"benchmark of INCR", "redis-benchmark", benchmark + " -P 16 INCR snowflake" + isThere, isServing},
		{"exporter", "prometheus-redis-exporter",
			exporter + `& trap "kill $!" EXIT; curl -sS --retry 20 --retry-connrefused http://$METRICS/metrics`,
			[]string{"\nredis_up 1\n", "\nredis_exporter_last_scrape_error{err=\"\"} 0\n"}},
	}
}

// example is a program of docs/examples: what it needs, how it is run, and how to see the IDs that it kept.
type example struct{ needs, run, kept string }

func examples() map[string]example {
	const query = "SELECT id FROM orders ORDER BY id"
	return map[string]example{
		"go-gorm": {"go version", "go run -C $EXAMPLES/go-gorm .", `$MARIADB -N -e "` + query + `"`},
		"python": {"python3 --version", "python3 $EXAMPLES/python/orders.py",
			`python3 -c "import sqlite3; print(*(i for i, in sqlite3.connect('orders.db').execute('` + query + `')))"`},
		"node": {"node --version", "node $EXAMPLES/node/orders.mjs", `grep -oE "[0-9]{16,}" orders.jsonl`},
		"java": {"javac -version", "java -cp $CLASSES $EXAMPLES/java/Orders.java", `grep -oE "[0-9]{16,}" orders.csv`},
	}
}

// TestExamples runs each example twice. At first a replica answers 503 with Retry-After. The IDs are beyond the
// numbers of JavaScript, and what is printed is what is kept.
func TestExamples(t *testing.T) {
	check.Deep(t)
	story(t)
	const first = 1<<53 + 1
	d := prepared(t, nil, []string{"migrate"}, strings.Fields(fmt.Sprint("tags add --tag orders --max-id ", first)))
	d.ready()
	target, err := url.Parse(d.url)
	check.Must(t, err)
	folder, err := filepath.Abs(docs + "examples")
	check.Must(t, err)
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	db, err := mysql.ParseDSN(dsn)
	check.Must(t, err)
	host, port, _ := net.SplitHostPort(db.Addr)
	mariadb := fmt.Sprintf("%s --no-defaults --protocol=tcp -h %s -P %s -u root %s",
		testserver.MariaDBClient(), host, port, db.DBName)
	env := append(os.Environ(), "EXAMPLES="+folder, "CLASSES="+javaClasses(t), "DATABASE_DSN="+dsn, "MARIADB="+mariadb)
	for name, c := range examples() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if out, err := shell(t, dir, env, c.needs); err != nil {
				t.Skipf("not installed: %s: %s", c.needs, out)
			}
			var asked atomic.Int32
			pass := httputil.NewSingleHostReverseProxy(target)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 1 {
					pass.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Retry-After", "1")
				http.Error(w, `{"code":-4,"message":"no ID in time"}`, http.StatusServiceUnavailable)
			}))
			defer front.Close()
			printed, begun := "", time.Now()
			for run := range 2 {
				out, err := shell(t, dir, append(env, "SHARDID_URLS="+front.URL), c.run+" alice bob 张三")
				lines := regexp.MustCompile(`(?m)^(\d{16,}) .*(alice|bob|张三)$`).FindAllStringSubmatch(out, -1)
				if err != nil || len(lines) != 3 {
					t.Fatalf("%v: %s, want three IDs", err, out)
				}
				for _, line := range lines {
					printed += line[1] + " "
				}
				if took := time.Since(begun); run == 0 && took < time.Second {
					t.Errorf("it asked again before Retry-After, after %v", took)
				}
			}
			var ids [6]int64
			if _, err := fmt.Sscan(printed, &ids[0], &ids[1], &ids[2], &ids[3], &ids[4], &ids[5]); err != nil {
				t.Fatal(err)
			}
			for i, id := range ids {
				if id < first || i%3 > 0 && id != ids[i-1]+1 {
					t.Errorf("%v: an ID is below %d, or digits were lost", ids, int64(first))
				}
			}
			kept, err := shell(t, dir, env, c.kept)
			if err != nil || strings.Join(strings.Fields(kept), " ")+" " != printed {
				t.Errorf("%v: kept %s of %s", err, kept, printed)
			}
		})
	}
}

// TestHAProxy: with the configuration of docs/api.md a Redis client continues when one of two
// replicas is killed, and no ID comes twice.
func TestHAProxy(t *testing.T) {
	check.Deep(t)
	story(t)
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/haproxy"); err != nil {
			t.Skip("not installed: haproxy")
		}
	}
	s := privateStores(t)
	proxy := testserver.FreeAddrs(t, 1)[0]
	shown := []string{"127.0.0.1:6379", proxy}
	var replicas []*daemon
	for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
		d := serve(t, s.settings().With(settings{"RESP_ADDR": "127.0.0.1:0"}))
		replicas = append(replicas, d)
		_, health, _ := net.SplitHostPort(d.Listens())
		shown = append(shown, host+":6380 port 8080", d.respAddr()+" port "+health)
	}
	for _, d := range replicas {
		d.ready()
	}
	blocks := blocksOf(t, docs+"api.md")
	at := slices.IndexFunc(blocks, func(b block) bool { return b.kind == "haproxy" })
	if at < 0 {
		t.Fatal("docs/api.md has no configuration of HAProxy")
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	writeFile(t, file, strings.NewReplacer(shown...).Replace(blocks[at].text))
	rig.Start(t, exec.Command(program, "-db", "-f", file), filepath.Join(t.TempDir(), "log"))

	c := redis.NewClient(&redis.Options{Addr: proxy, MaxRetries: -1, PoolSize: 8})
	defer c.Close()
	l := &ledger{}
	ask := func() error {
		id, err := c.Incr(t.Context(), "snowflake").Result()
		if err == nil {
			l.Add("", plain, id)
		}
		return err
	}
	rig.Until(t, startLimit, "HAProxy serves", ask)
	half := func() {
		for range 500 {
			rig.Until(t, startLimit, "an ID", ask)
		}
	}
	half()
	replicas[0].Kill()
	half() // ends only when the other one is used
	l.Settle(t)
	if text, err := c.Info(t.Context()).Result(); err != nil || !strings.Contains(text, "role:master") {
		t.Errorf("%v: %s", err, text)
	}
}

// buildHolders builds the program, a module of its own with the libraries.
func buildHolders(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holders")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Dir, build.Env = "testdata/golang", append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// madeBy are the IDs that a program has printed whole.
func madeBy(p *rig.Process) (ids []int64) {
	for line := range strings.Lines(p.Output()) {
		if digits, whole := strings.CutSuffix(line, "\n"); whole {
			if id, err := strconv.ParseInt(digits, 10, 64); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// TestLeaseRecipes: each library of docs/leases.md makes IDs of its name's layout, two processes of it none twice.
// They know nothing of shardid: `shardid lease` starts them, and ends with them.
func TestLeaseRecipes(t *testing.T) {
	check.Deep(t)
	story(t)
	program := buildHolders(t)
	d := prepared(t, nil,
		strings.Fields("names add --name bwmarrin --worker-bits 10 --seq-bits 12"),
		strings.Fields("names add --name sonyflake --worker-bits 16 --seq-bits 8 --epoch 1409529600000"),
		strings.Fields("names add --name yitter --worker-bits 6 --seq-bits 6 --epoch 1582136402000"))
	d.ready()
	for _, library := range []string{"bwmarrin", "sonyflake", "yitter"} {
		var both []*rig.Process
		for range 2 {
			lease := []string{"lease", "--name", library, "--url", d.url, "--", program, library}
			both = append(both, rig.Start(t, command(t, t.TempDir(), nil, lease...), filepath.Join(t.TempDir(), "log")))
		}
		for _, p := range both {
			eventually(t, startLimit, library+" makes IDs", func() bool { return len(madeBy(p)) > 100 })
		}
		books := &ledger{}
		for i, p := range both {
			p.Signal(syscall.SIGTERM)
			if code := p.Exit(startLimit); code != 128+int(syscall.SIGTERM) {
				t.Errorf("%s ended with %d: %s", library, code, rig.LastLines(p.Output(), 3))
			}
			books.Add(fmt.Sprint("process ", i), rig.List{App: -5}, madeBy(p)...)
		}
		books.Settle(t, library)
	}
}
