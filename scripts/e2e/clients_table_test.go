//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

// tableRow is a row of the table of docs/clients.md: a client with settings, the programs of
// testdata/clients that ask by it, and the words of the table for what comes of it.
type tableRow struct {
	client, settings string
	program          []string
	library, options string
	incr, lpop       string
	multi            string
}

const (
	exactString = "exact, string"
	exactNumber = "exact, integer"
	exactBigInt = "exact, BigInt"
	refusedINCR = "error -6"
	roundedINCR = "**rounded**"
)

func tableRows() []tableRow {
	node := []string{"node", "testdata/clients/node.js"}
	php := []string{"php", "testdata/clients/redisphp.php"}
	python := []string{"/usr/bin/python3", "testdata/clients/redispy.py"}
	return []tableRow{
		{"ioredis 6", "defaults (RESP3)", node, "ioredis6", "{}", exactString, exactString, exactString},
		{"ioredis 6", "`protocol: 2`", node, "ioredis6", `{"protocol":2}`, refusedINCR, exactString, refusedINCR},
		{"ioredis 5", "defaults", node, "ioredis", "{}", refusedINCR, exactString, refusedINCR},
		{"ioredis 5", "`stringNumbers: true, clientInfoTag: \"strings\"`", node, "ioredis", `{"stringNumbers":true,"clientInfoTag":"strings"}`, exactString, exactString, exactString},
		{"ioredis 4", "defaults", node, "ioredis4", "{}", roundedINCR, exactString, roundedINCR},
		{"ioredis 4", "`stringNumbers: true`", node, "ioredis4", `{"stringNumbers":true}`, exactString, exactString, exactString},
		{"node-redis 6", "defaults (RESP3)", node, "redis6", "{}", exactBigInt, exactString, exactBigInt},
		{"node-redis 5", "defaults", node, "redis", "{}", refusedINCR, exactString, refusedINCR},
		{"node-redis 5", "`RESP: 3`", node, "redis", `{"RESP":3}`, exactBigInt, exactString, exactBigInt},
		{"node-redis 5", "`RESP: 3`, `clientSideCache`", node, "redis", `{"RESP":3,"clientSideCache":{"ttl":0,"maxEntries":0}}`, exactBigInt, exactString, exactBigInt},
		{"node-redis 4", "defaults", node, "redis4", "{}", refusedINCR, exactString, refusedINCR},
		{"GLIDE for Node", "defaults (RESP3)", node, "glide", "{}", exactBigInt, exactString, exactBigInt},
		{"GLIDE for Node", "`protocol: ProtocolVersion.RESP2`", node, "glide", `{"protocol":1}`, refusedINCR, exactString, refusedINCR},
		{"iovalkey", "defaults", node, "iovalkey", "{}", roundedINCR, exactString, roundedINCR},
		{"iovalkey", "`stringNumbers: true`", node, "iovalkey", `{"stringNumbers":true}`, exactString, exactString, exactString},
		{"redis-py", "defaults; `pipeline()`", python, "redis", "{}", exactNumber, exactString, exactNumber},
		{"phpredis", "defaults", php, "phpredis", "{}", exactNumber, exactString, exactNumber},
		{"Predis", "defaults", php, "predis", "{}", exactNumber, exactString, exactNumber},
		{"rueidis", "defaults (client-side caching)", []string{"RUEIDIS"}, "rueidis", "{}", exactNumber, exactNumber, exactNumber},
		{"go-redis 9", "defaults (RESP3)", nil, "", "", exactNumber, exactString, exactNumber},
	}
}

// TestE2EClientTable asks 2,000 times by each client that is installed, with the settings of the
// table in docs/clients.md, which must say what came of it; make test-clients installs them.
func TestE2EClientTable(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo", "--set", "resp.addr=127.0.0.1:0")
	d.ready()
	_, port, _ := net.SplitHostPort(d.respAddr())
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range tableRows() {
		want := []string{row.incr, row.multi, row.lpop}
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta("| "+row.client) + `[0-9. ]* ` + regexp.QuoteMeta("| "+row.settings+" | "+strings.Join(want, " | ")+" |") + `$`)
		if !line.Match(page) {
			t.Errorf("docs/clients.md lacks the row %s", line)
		}
		t.Run(row.library+row.options, func(t *testing.T) {
			for i, command := range []string{"INCR", "MULTI", "LPOP"} {
				if got := row.outcome(t, port, command); got != want[i] {
					t.Errorf("%s: %s, want %s", command, got, want[i])
				}
			}
		})
	}
	t.Run("redis-cli", func(t *testing.T) { redisTools(t, port) })
	t.Run("redis_exporter", func(t *testing.T) { exporterReads(t, port) })
}

// outcome asks and says in the words of the table what came.
func (r tableRow) outcome(t *testing.T, port, command string) string {
	t.Helper()
	if r.program == nil {
		return byGoRedis(t, port, command)
	}
	program := r.program
	if program[0] == "RUEIDIS" {
		program = []string{buildRueidis(t)}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program[0], append(program[1:len(program):len(program)], port, r.library, r.options, command)...).CombinedOutput()
	var said struct {
		Type, Error string
		Distinct    int
	}
	if err != nil || json.Unmarshal(out, &said) != nil {
		if missing := regexp.MustCompile(`Cannot find module|No module named|Failed opening required|Class "Redis" not found|executable file not found`); missing.Match(out) || err != nil && missing.MatchString(err.Error()) {
			t.Skip("not installed:", r.client)
		}
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s %s: %s", r.client, command, strings.TrimSpace(string(out)))
	switch word, known := map[string]string{"string": exactString, "bytes": exactString, "bigint": exactBigInt,
		"integer": exactNumber, "int": exactNumber, "int64": exactNumber}[said.Type]; {
	case regexp.MustCompile(`^SHARDID:? -6 .* LPOP`).MatchString(said.Error):
		return refusedINCR
	case said.Type == "number" && said.Distinct < 1000:
		return roundedINCR
	case known && said.Distinct == 2000:
		return word
	}
	return string(out)
}

func byGoRedis(t *testing.T, port, command string) string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	defer c.Close()
	pipelined := c.TxPipelined
	if command == "LPOP" {
		pipelined = c.Pipelined
	}
	seen := map[string]bool{}
	answers, err := pipelined(t.Context(), func(p redis.Pipeliner) error {
		for range 2000 {
			if command == "LPOP" {
				p.LPop(t.Context(), "snowflake")
			} else {
				p.Incr(t.Context(), "snowflake")
			}
		}
		return nil
	})
	for _, a := range answers {
		switch a := a.(type) {
		case *redis.IntCmd:
			seen[fmt.Sprint(a.Val())] = true
		case *redis.StringCmd:
			seen[a.Val()] = true
		}
	}
	if err != nil || len(seen) != 2000 {
		return fmt.Sprintf("%d distinct, %v", len(seen), err)
	}
	return map[string]string{"LPOP": exactString}[command] + map[string]string{"INCR": exactNumber, "MULTI": exactNumber}[command]
}

// buildRueidis makes a program of a module that is not ours; make test-clients asks for it.
func buildRueidis(t *testing.T) string {
	t.Helper()
	if os.Getenv("SHARDID_TEST_CLIENTS") == "" {
		t.Skip("make test-clients runs this")
	}
	dir := t.TempDir()
	source, err := os.ReadFile("testdata/clients/rueidis.go")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/ids\n\ngo 1.26\n\nrequire github.com/redis/rueidis v1.0.79\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "sh", "-eu", "-c", "go mod tidy && go build -o ids .")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "ids")
}

// redisTools: redis-cli has help, --pipe ends and counts the errors, and redis-benchmark by its
// defaults takes nothing down.
func redisTools(t *testing.T, port string) {
	ask := func(stdin, program string, args ...string) string {
		t.Helper()
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("not installed:", program)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, append([]string{"-p", port}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, _ := cmd.CombinedOutput() // it may end with an error, but end it must
		if ctx.Err() != nil {
			t.Errorf("%s %v does not end: %s", program, args, out)
		}
		return string(out)
	}
	if help := ask("help lpop\n", "redis-cli"); !strings.Contains(help, "key [count]") || !strings.Contains(help, "One ID") {
		t.Errorf("help: %s", help)
	}
	piped := "*2\r\n$4\r\nINCR\r\n$3\r\nuid\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$4\r\nPING\r\n"
	if said := ask(piped, "redis-cli", "--pipe"); !strings.Contains(said, "errors: 1, replies: 3") {
		t.Errorf("--pipe: %s", said)
	}
	for _, args := range [][]string{{"-n", "1000", "-q"}, {"-n", "1000", "-q", "-t", "ping"}, {"-n", "1000", "-q", "-P", "16", "INCR", "snowflake"}} {
		if said := ask("", "redis-benchmark", args...); !strings.Contains(said, "requests per second") {
			t.Errorf("redis-benchmark %v: %s", args, said)
		}
	}
	if said := ask("", "redis-cli", "PING"); said != "PONG\n" {
		t.Errorf("after all: %s", said)
	}
}

// exporterReads: redis_exporter finds a Redis that is up, without an error.
func exporterReads(t *testing.T, port string) {
	program, err := exec.LookPath("prometheus-redis-exporter")
	if err != nil {
		t.Skip("not installed: prometheus-redis-exporter")
	}
	addr := rig.FreeAddrs(t, 1)[0]
	exporter := exec.CommandContext(t.Context(), program, "-redis.addr", "redis://127.0.0.1:"+port, "-web.listen-address", addr)
	if err := exporter.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = exporter.Process.Kill(); _ = exporter.Wait() }()
	var text string
	eventually(t, startLimit, "redis_exporter answers", func() bool {
		res, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		text = string(all)
		return err == nil
	})
	for _, line := range []string{"\nredis_up 1\n", "\nredis_exporter_last_scrape_error{err=\"\"} 0\n", "\nredis_connected_clients ", "\nredis_uptime_in_seconds ", "\nredis_commands_processed_total "} {
		if !strings.Contains(text, line) {
			t.Errorf("redis_exporter says no %q", line)
		}
	}
}
