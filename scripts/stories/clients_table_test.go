//go:build unix

package stories_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// tableRow is a client with settings, the program of testdata/clients that asks by it, and what comes of it.
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
	const node, php = "node $CLIENTS/node.js", "php $CLIENTS/redisphp.php"
	const python = "/usr/bin/python3 $CLIENTS/redispy.py"
	// What go run has to download it says among the answers: it must be there before.
	const golang = "export GOFLAGS= GOWORK=off; go mod download -C $CLIENTS/golang 2>/dev/null; go run -C $CLIENTS/golang ."
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
	clients, err := filepath.Abs("testdata/clients")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "CLIENTS="+clients, "PORT="+port, "METRICS="+rig.FreeAddrs(t, 1)[0])
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

// redisTools are programs for a Redis that meet shardid. redis-cli has help, --pipe ends and counts the errors, and
// redis-benchmark by its defaults takes nothing down; redis_exporter finds a Redis that is up.
func redisTools() []struct {
	name, needs, run string
	says             []string
} {
	const incr, ping = `*2\r\n$4\r\nINCR\r\n$3\r\nuid\r\n`, `*1\r\n$4\r\nPING\r\n`
	const set = `*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n`
	const exporter = `prometheus-redis-exporter -redis.addr 127.0.0.1:$PORT -web.listen-address $METRICS >log 2>&1 `
	const benchmark, isThere = "redis-benchmark -p $PORT -n 1000 -q", " || true; redis-cli -p $PORT PING"
	isServing := []string{"requests per second", "PONG"}
	return []struct {
		name, needs, run string
		says             []string
	}{
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
