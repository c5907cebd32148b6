package deploytest

import (
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	_ "github.com/go-sql-driver/mysql"
)

// pod is a pod of the chart without a cluster: its container's arguments, its variables with those of the
// Secrets that the chart makes, and the config maps that it mounts below a folder of its own.
type pod struct {
	dir string
	box object
	env []string
}

// newPod makes the pod of a StatefulSet, Job or Pod. change replaces texts in config.yaml and variables.
func newPod(t *testing.T, all map[string]object, name string, change ...string) pod {
	t.Helper()
	local := strings.NewReplacer(append(change, "$(POD_IP)", "127.0.0.1")...)
	spec, _ := all[name].at("spec").(map[string]any)
	if template, ok := object(spec).at("template", "spec").(map[string]any); ok {
		spec = template
	}
	boxes, _ := spec["containers"].([]any)
	if len(boxes) != 1 {
		t.Fatalf("%s has %d containers", name, len(boxes))
	}
	p := pod{t.TempDir(), boxes[0].(map[string]any), []string{"PATH=" + os.Getenv("PATH")}}
	for name, path := range p.mounts() {
		dir := filepath.Join(p.dir, path)
		if name == "config" {
			dir = p.dir // the working directory
		}
		files, _ := all["ConfigMap "+configMap(spec, name)].at("data").(map[string]any)
		for key, text := range files {
			text := local.Replace(text.(string))
			for name, path := range p.mounts() {
				if name != "config" && configMap(spec, name) != "" {
					text = strings.ReplaceAll(text, path+"/", filepath.Join(p.dir, path)+"/")
				}
			}
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, key), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if secret := p.box.text("envFrom", "secretRef", "name"); secret != "" {
		data, _ := all["Secret "+secret].at("data").(map[string]any)
		for key, value := range data {
			plain, err := base64.StdEncoding.DecodeString(value.(string))
			if err != nil {
				t.Fatal(err)
			}
			p.env = append(p.env, key+"="+string(plain))
		}
	}
	for key, value := range containerEnv(p.box) {
		p.env = append(p.env, key+"="+local.Replace(value))
	}
	return p
}

// mounts are the volumes of the container by their names, and where it has them.
func (p pod) mounts() map[string]string {
	at := map[string]string{}
	list, _ := p.box["volumeMounts"].([]any)
	for _, each := range list {
		m := object(each.(map[string]any))
		at[m.text("name")] = m.text("mountPath")
	}
	return at
}

// configMap is the name of the config map that a volume of the pod holds, "" for another volume.
func configMap(spec map[string]any, volume string) string {
	list, _ := spec["volumes"].([]any)
	for _, each := range list {
		if v := object(each.(map[string]any)); v.text("name") == volume {
			return v.text("configMap", "name")
		}
	}
	return ""
}

// command is the container's, or another one in its place; further arguments come after it.
func (p pod) command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, builtBinary(t), args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (p pod) args() (args []string) {
	for _, a := range p.box["args"].([]any) {
		args = append(args, a.(string))
	}
	return args
}

// run runs it to its end.
func (p pod) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.command(t.Context(), t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("shardid %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestChartConfig: shardid takes what the chart renders, each value arrives, and a key that is wrong does not
// get past the migration.
func TestChartConfig(t *testing.T) {
	check.Deep(t)
	if testing.Short() {
		t.Skip("builds the binary")
	}
	given := []string{"--set", "existingSecret=,secrets.databaseDSN=shardid:pw@tcp(mysql:3306)/shardid"} // for a Secret that is made by hand
	for values, want := range map[string]map[string]string{
		"kubernetes.yaml": {"server.addr": ":8080", "data_dir": "/data", "redis.addrs": "[redis:6379]", "snowflake.advertise": "127.0.0.1:8080"},
		"embedded.yaml":   {"database.driver": "sqlite", "redis.mode": "embedded", "snowflake.enabled": "true"},
		"secrets.yaml":    {"snowflake.worker.mode": "ordinal", "resp.addr": ":6380", "redis.mode": "cluster"},
		"full.yaml": {
			"segment.enabled": "false", "uid.enabled": "false", "segment.max_rate": "1000000000", "snowflake.epoch_ms": "1288834974657",
			"uid.epoch": "2026-01-01", "uid.schedule_interval": "off", "log.access": "off", "zookeeper.addrs": "[zookeeper:2181]", "snowflake.advertise": "[fd00::1]:8080",
			"server.tokens_file": "/etc/shardid-tokens/tokens.yaml", "server.tls_client_ca_file": "/etc/shardid-tls/ca.crt",
			"tracing.sample_ratio": "0.01", "time_zone": "Asia/Shanghai", "server.require_token": "true",
		},
	} {
		t.Run(values, func(t *testing.T) {
			name, args, change := "shardid", []string(nil), []string(nil)
			switch values {
			case "kubernetes.yaml":
				args = given
			case "full.yaml":
				name, change = "ids", []string{"$(POD_IP)", "fd00::1"}
			}
			all := chart(t, values, args...)
			p := newPod(t, all, "StatefulSet "+name, change...)
			var got map[string]struct{ Value string }
			if err := json.Unmarshal([]byte(p.run(t, "config", "print", "--json")), &got); err != nil {
				t.Fatal(err)
			}
			for key, value := range want {
				if got[key].Value != value {
					t.Errorf("%s is %q, want %q", key, got[key].Value, value)
				}
			}
			if name == "shardid" { // the files of the other one are Secrets
				p.run(t, "config", "check")
				return
			}
			tokens, _ := base64.StdEncoding.DecodeString(all["Secret ids-tokens"].text("data", "tokens.yaml"))
			if err := os.WriteFile(filepath.Join(p.dir, "tokens.yaml"), tokens, 0o600); err != nil {
				t.Fatal(err)
			}
			if out := p.run(t, "token", "check", "--file", "tokens.yaml"); !strings.Contains(out, "orders-service") {
				t.Errorf("the tokens are %s", out)
			}
		})
	}
	all := chart(t, "kubernetes.yaml", append(given, "--set", "config.server.drain_delay=1h")...)
	p := newPod(t, all, "Job shardid-migrate")
	if out, err := p.command(t.Context(), t, p.args()...).CombinedOutput(); err == nil || !strings.Contains(string(out), "server.drain_delay") {
		t.Errorf("the migration takes a wrong setting: %v\n%s", err, out)
	}
}

// TestChartFirstID installs the chart by hand on MySQL 9.7 and Valkey 9.1: its Jobs, twice
// as an upgrade does, then a replica, until it gives the first ID of the app, and the test pod one of its own.
func TestChartFirstID(t *testing.T) {
	check.Deep(t)
	testserver.On(t, "mysql-9.7", "valkey-9.1")
	db, valkey := testserver.MariaDB(t, "--log-bin=binlog", "--server-id=1", "--sync-binlog=1"), testserver.Redis(t)
	const password = "bff4c1e1a9d84e2f"
	if err := valkey.Client().ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
		t.Fatal(err)
	}
	rig.Query(t, db.DSN(""), "CREATE DATABASE shardid", "CREATE USER shardid IDENTIFIED BY '"+password+"'",
		"GRANT ALL ON shardid.* TO shardid")
	addr := rig.FreeAddrs(t, 1)[0]
	all := chart(t, "secrets.yaml", "--set", strings.Join([]string{
		fmt.Sprintf("secrets.databaseDSN=shardid:%s@tcp(127.0.0.1:%d)/shardid", password, db.Port), "secrets.redisPassword=" + password,
		"config.redis.mode=single", "config.redis.addrs={" + valkey.Addr + "}", "config.snowflake.worker.mode=mysql", "resp.enabled=false",
	}, ","))
	for range 2 { // an install and an upgrade
		for _, job := range []string{"Job shardid-migrate", "Job shardid-provision"} {
			p := newPod(t, all, job)
			t.Logf("%s: %s", job, p.run(t, p.args()...))
		}
	}
	p := newPod(t, all, "StatefulSet shardid", "addr: :8080", "addr: "+addr, ":8080", addr[strings.LastIndex(addr, ":"):])
	p.env = append(p.env, "SHARDID_DATA_DIR="+p.dir)
	server := p.command(t.Context(), t, append(p.args(), "--set", "server.drain_delay=0s")...)
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	_, notReady := await("http://" + addr + p.box.text("readinessProbe", "httpGet", "path"))
	_, noWorkerID := await("http://" + addr + "/readyz/snowflake") // what the test pod asks
	answer, err := await("http://" + addr + "/get?appId=1&gatePass=alice")
	first := newPod(t, all, "Pod shardid-first-id")
	args := strings.ReplaceAll(strings.Join(first.args(), " "), "http://shardid:80", "http://"+addr)
	tested, testErr := first.command(t.Context(), t, strings.Fields(args)...).CombinedOutput()
	stopped := server.Process.Signal(syscall.SIGTERM)
	if err := errors.Join(notReady, noWorkerID, err, testErr, stopped, <-ended); err != nil {
		t.Fatalf("%v, test pod %s\n%s", err, tested, &log)
	}
	t.Logf("first ID %s, of the test pod %s", answer, tested)
	if answer != `{"code":0,"id":16385,"idStr":"16385"}` || !regexp.MustCompile(`^[1-9]\d{15,}\n$`).Match(tested) {
		t.Errorf("IDs %q and %q", answer, tested)
	}
}

// TestChartPrivateAuthority runs the Jobs of the chart on stores that speak TLS only, with a certificate of an
// authority that nobody else knows: its file reaches them by extraVolumes. One container provisions 256 apps.
func TestChartPrivateAuthority(t *testing.T) {
	check.Deep(t)
	if testing.Short() {
		t.Skip("builds the binary and starts servers")
	}
	cert, key, authority := certificate(t)
	db := testserver.MariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key)
	rig.Query(t, db.DSN(""), "CREATE DATABASE shardid", "CREATE USER shardid IDENTIFIED BY 'hunter2' REQUIRE SSL", "GRANT ALL ON shardid.* TO shardid")
	addr := rig.FreeAddrs(t, 1)[0]
	testserver.Redis(t, "--tls-port", addr[strings.LastIndex(addr, ":")+1:], "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	var apps strings.Builder
	for id := range 256 {
		fmt.Fprintf(&apps, "  - {id: %d, name: \"%[1]d: a name\", maxLimitId: 9007199254740991}\n", id)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(fmt.Sprintf(`apps:
%ssecrets: {databaseDSN: "shardid:hunter2@tcp(127.0.0.1:%d)/shardid", redisPassword: ""}
tls: {existingSecret: shardid-tls}
config:
  database: {tls: true, tls_ca_file: /etc/authority/ca.crt}
  redis: {mode: single, addrs: [%q], tls: true, tls_ca_file: /etc/authority/ca.crt}
extraVolumes: [{name: authority, configMap: {name: authority}}]
extraVolumeMounts: [{name: authority, mountPath: /etc/authority, readOnly: true}]
`, &apps, db.Port, addr)), 0o600); err != nil {
		t.Fatal(err)
	}
	all := chart(t, "secrets.yaml", "--values", values)
	all["ConfigMap authority"] = object{"data": map[string]any{"ca.crt": authority}}
	if cpu := all["Job shardid-provision"].text("spec", "template", "spec", "containers", "resources", "requests", "cpu"); cpu != "100m" {
		t.Errorf("256 apps ask for %s of CPU", cpu)
	}
	for range 2 { // an install and an upgrade
		for _, job := range []string{"Job shardid-migrate", "Job shardid-provision"} {
			p := newPod(t, all, job)
			begun := time.Now()
			out := p.run(t, p.args()...)
			t.Logf("%s: %v, %d lines", job, time.Since(begun).Round(time.Millisecond), strings.Count(out, "\n"))
		}
	}
	conn, err := sql.Open("mysql", db.DSN("shardid"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var rows int
	if err := conn.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM id_alloc WHERE max_limit_id = 9007199254740991 AND app_name = CONCAT(app_id, ': a name')").Scan(&rows); err != nil || rows != 256*64 {
		t.Errorf("%d shards, %v", rows, err)
	}
}

// certificate gives the files of one for 127.0.0.1, which is its own authority, and its text.
func certificate(t *testing.T) (cert, key, text string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	pair, dir := server.TLS.Certificates[0], t.TempDir()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	text = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	if err := errors.Join(os.WriteFile(cert, []byte(text), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key, text
}

// await asks until the answer is 200.
func await(url string) (body string, err error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		resp, askErr := client.Get(url)
		if err = askErr; err != nil {
			continue
		}
		text, readErr := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // read to its end
		if err = readErr; err == nil && resp.StatusCode == http.StatusOK {
			return strings.TrimSpace(string(text)), nil
		}
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, text)
	}
	return "", err
}
