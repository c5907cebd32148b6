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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// Programs of docs/clients.md, and clients that generators make, as far as their languages and libraries are here: make
// test-clients installs them.

// program is a block of a page that is written to a file and run. In its environment are the URL of a server, its
// PORT for Redis clients, this FOLDER, and the CLASSES of the Java client.
type program struct {
	file, needs, run string            // needs is a command that succeeds where all is installed
	more             map[string]string // other files: their text, or "BLOCK: " and a block
}

// programsPage has those that stand on no page of docs/.
const programsPage = "testdata/programs.md"

// programs are by the marks of their blocks.
func programs() map[string]program {
	generated := func(file, generator string) program {
		needs := `test -n "$SHARDID_TEST_CLIENTS"` // as the generator is fetched
		return program{file, needs, "sh -eu follow.sh", map[string]string{"follow.sh": "BLOCK: sh " + generator}}
	}
	const python = "/usr/bin/python3"
	return map[string]program{
		"python redis-py": {"ids.py", python + " -c 'import redis'", python + " ids.py", nil},
		"php phpredis":    {"ids.php", "php -r 'new Redis();'", "php ids.php", nil},
		"js ioredis":      {"ids.js", `node -e "require('ioredis')"`, "node ids.js", nil},
		"js HTTP":         {"ids.js", "node -e fetch", "node ids.js $URL fetch", nil},
		"axios": {"", `node -e "require('axios')"`, "node ids.js $URL axios",
			map[string]string{"ids.js": "BLOCK: js HTTP"}},
		"python django": {
			"models.py", "$PYTHON -c 'import django, redis'",
			"mkdir shop && mv models.py shop && $PYTHON run.py", map[string]string{"run.py": djangoRun},
		},
		"python sqlalchemy": {
			"orders.py", "$PYTHON -c 'import sqlalchemy, redis'", "$PYTHON run.py",
			map[string]string{"run.py": sqlAlchemyRun},
		},
		"ts typeorm": {
			"order.ts", `node -e "require('typeorm'), require('tsx')"`,
			"ln -s $NODE_PATH node_modules && node_modules/.bin/tsx run.ts",
			map[string]string{
				"run.ts": typeORMRun, "tsconfig.json": `{"compilerOptions": {"experimentalDecorators": true}}`,
			},
		},
		"rust sqlx": {
			"main.rs", "test -d $CARGO_TARGET_DIR",
			"mkdir src && mv main.rs src && cp $FOLDER/testdata/rust/Cargo.toml . && cargo run -q", nil,
		},

		"go client": {"main.go", "go version", "go run -C $FOLDER $PWD/main.go", nil},

		"go oapi-codegen":       generated("main.go", "oapi-codegen"),
		"ts openapi-typescript": generated("ids.mts", "openapi-typescript"),

		"java client": {"Ids.java", "javac -version", "java -cp $CLASSES Ids.java", nil},
	}
}

// What stores a hundred rows by a framework's recipe, and prints an ID when all have the remainders of their keys.
const (
	djangoRun = `import django
from django.conf import settings
memory = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(DATABASES={"default": memory}, INSTALLED_APPS=["shop"])
django.setup()
from django.db import connection
from shop.models import Order
with connection.schema_editor() as schema:
    schema.create_model(Order)
for buyer in range(100):
    Order.objects.create(buyer_id=buyer)
assert all(o.id % 1024 == o.buyer_id for o in Order.objects.all())
print(Order.objects.last().id)
`
	sqlAlchemyRun = `from orders import Base, Order
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add_all(Order(buyer_id=buyer) for buyer in range(100))
    session.commit()
    assert all(o.id % 1024 == o.buyer_id for o in session.query(Order))
    print(session.query(Order).first().id)
`
	typeORMRun = `import "reflect-metadata";
import { DataSource } from "typeorm";
import { Order } from "./order.ts";
(async () => {
  const db = await new DataSource({ type: "sqljs", entities: [Order], synchronize: true }).initialize();
  const orders = db.getRepository(Order);
  for (let buyer = 0; buyer < 100; buyer++) await orders.save(orders.create({ buyerId: String(buyer) }));
  for (const o of await orders.find()) if (BigInt(o.id) % 1024n !== BigInt(o.buyerId)) throw new Error(o.id);
  console.log((await orders.find())[0].id);
  process.exit();
})();
`
)

// TestPrograms: each program ends well, and the last that it prints are IDs.
func TestPrograms(t *testing.T) {
	check.Deep(t)
	story(t)
	data := t.TempDir()
	for _, args := range [][]string{{"migrate"}, {"tags", "add", "--tag", "carts", "--shard-bits", "10"}} {
		check.Equal(t, shardidIn(t, data, nil, args...).exit, 0, args)
	}
	d := serveIn(t, data, nil, "--demo", "--set", "resp.addr=127.0.0.1:0")
	d.ready()
	_, port, _ := net.SplitHostPort(d.respAddr())
	folder, err := filepath.Abs(".")
	check.Must(t, err)
	env := append(os.Environ(), "URL="+d.url, "PORT="+port, "FOLDER="+folder, "CLASSES="+javaClasses(t))
	here := strings.NewReplacer("http://127.0.0.1:8080", d.url, "6380", port)
	blocks := map[string]string{}
	for _, b := range append(blocksOf(t, docs+"clients.md"), blocksOf(t, programsPage)...) {
		mark := strings.TrimSpace(b.kind + " " + b.name)
		if _, isRun := programs()[mark]; !isRun && b.name != "" && b.name != "table" && b.kind != "sh" {
			t.Errorf("nobody runs the block %s", mark)
		}
		blocks[mark] = here.Replace(b.text)
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

// javaClasses compiles the Java client for Java 8, and gives the folder of the classes, "" without a compiler.
func javaClasses(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("javac"); err != nil {
		return ""
	}
	sources, err := filepath.Glob("../../client/java/shardid-client/src/main/java/shardid/*.java")
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

// What comes of INCR, which is more than 2^53, by clients of Node.
const (
	exactString = "exact, string"
	exactBigInt = "exact, BigInt"
	refusedINCR = "error -6"
	roundedINCR = "rounded"
)

// nodeClient is a client with options, and what comes of INCR, in MULTI as well. What comes of LPOP is exact.
type nodeClient struct{ library, options, incr string }

func nodeClients() []nodeClient {
	return []nodeClient{
		{"ioredis6", `{}`, exactString},
		{"ioredis6", `{"protocol":2}`, refusedINCR},
		{"ioredis", `{}`, refusedINCR},
		{"ioredis", `{"stringNumbers":true,"clientInfoTag":"strings"}`, exactString},
		{"ioredis4", `{}`, roundedINCR},
		{"ioredis4", `{"stringNumbers":true}`, exactString},
		{"redis6", `{}`, exactBigInt},
		{"redis", `{}`, refusedINCR},
		{"redis", `{"RESP":3}`, exactBigInt},
		{"redis", `{"RESP":3,"clientSideCache":{"maxEntries":0}}`, exactBigInt},
		{"redis4", `{}`, refusedINCR},
		{"glide", `{}`, exactBigInt},
		{"glide", `{"protocol":1}`, refusedINCR},
		{"iovalkey", `{}`, roundedINCR},
		{"iovalkey", `{"stringNumbers":true}`, exactString},
	}
}

// TestRedisLibraries asks 2,000 times by each client of Node that is installed: other languages have 64 bits. An ID
// above 2^53 reaches a program as what it reads exactly, or not at all, but for the clients of which docs/api.md warns.
// make test-clients installs them.
func TestRedisLibraries(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo", "--set", "resp.addr=127.0.0.1:0")
	d.ready()
	_, port, _ := net.SplitHostPort(d.respAddr())
	dir, blocks := t.TempDir(), blocksOf(t, programsPage)
	table := slices.IndexFunc(blocks, func(b block) bool { return b.name == "table" })
	writeFile(t, filepath.Join(dir, "table.js"), blocks[table].text)
	for _, c := range nodeClients() {
		t.Run(c.library+" "+c.options, func(t *testing.T) {
			for _, command := range []string{"INCR", "MULTI"} {
				check.Equal(t, c.outcome(t, dir, port, command), c.incr, command)
			}
			check.Has(t, c.outcome(t, dir, port, "LPOP"), "exact, ", "LPOP")
		})
	}
}

// outcome asks and says what came.
func (c nodeClient) outcome(t *testing.T, dir, port, command string) string {
	t.Helper()
	ask := fmt.Sprintf("node table.js %s %s '%s' %s", port, c.library, c.options, command)
	out, err := shell(t, dir, os.Environ(), ask)
	var said struct {
		Type, Error string
		Distinct    int
	}
	if err != nil || json.Unmarshal([]byte(out), &said) != nil {
		if regexp.MustCompile(`Cannot find module|: not found`).MatchString(out) {
			t.Skip("not installed:", c.library)
		}
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s %s: %s", c.library, command, strings.TrimSpace(out))
	word := map[string]string{"string": exactString, "bigint": exactBigInt}[said.Type]
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

// TestExamples runs the programs of docs/examples that make orders. At first a replica answers 503 with Retry-After.
// The IDs are beyond the numbers of JavaScript.
func TestExamples(t *testing.T) {
	check.Deep(t)
	story(t)
	d := prepared(t, nil, []string{"tags", "add", "--tag", "orders", "--max-id", exactLimit})
	d.ready()
	target, err := url.Parse(d.url)
	check.Must(t, err)
	pass := httputil.NewSingleHostReverseProxy(target)
	env := os.Environ()
	examples, err := filepath.Abs(docs + "examples")
	check.Must(t, err)
	for name, c := range map[string]struct{ needs, run string }{
		"python": {"python3 --version", "python3 " + examples + "/python/orders.py"},
		"node":   {"node --version", "node " + examples + "/node/orders.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if out, err := shell(t, dir, env, c.needs); err != nil {
				t.Skipf("not installed: %s: %s", c.needs, out)
			}
			var refused, again atomic.Int64 // when the first two requests came
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !refused.CompareAndSwap(0, time.Now().UnixNano()) {
					again.CompareAndSwap(0, time.Now().UnixNano())
					pass.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Retry-After", "1")
				http.Error(w, `{"code":-4,"message":"no ID in time"}`, http.StatusServiceUnavailable)
			}))
			defer front.Close()
			out, err := shell(t, dir, append(env, "SHARDID_URLS="+front.URL), c.run+" alice bob 张三")
			lines := regexp.MustCompile(`(?m)^(\d+) .*(alice|bob|张三)$`).FindAllStringSubmatch(out, -1)
			if err != nil || len(lines) != 3 {
				t.Fatalf("%v: %s, want three IDs", err, out)
			}
			if waited := time.Duration(again.Load() - refused.Load()); waited < time.Second {
				t.Errorf("it asked again before Retry-After, after %v", waited)
			}
			first := number64(t, lines[0][1])
			for i, line := range lines {
				if id := number64(t, line[1]); id != first+int64(i) || id < 1<<53 {
					t.Errorf("%s: an ID is below 2^53, or digits were lost", out)
				}
			}
		})
	}
}
