package deploytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardid/scripts/check"
)

const composePath = "deploy/compose/compose.yaml"

// composeFile is the part of Compose that is used here.
type composeFile struct {
	Name     string                    `yaml:"name"`
	Shardid  composeService            `yaml:"x-shardid"`
	Replica  composeService            `yaml:"x-replica"`
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Test     []string `yaml:"test"`
		Interval string   `yaml:"interval"`
		Timeout  string   `yaml:"timeout"`
		Retries  int      `yaml:"retries"`
	} `yaml:"healthcheck"`
	Restart     string   `yaml:"restart"`
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	MemLimit    string   `yaml:"mem_limit"`
	StopGrace   string   `yaml:"stop_grace_period"`
}

// TestCompose: the file in deploy/compose is consistent; TestE2ECompose runs it.
func TestCompose(t *testing.T) {
	c := checks{t}
	all, err := decode[composeFile](composePath)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d documents, %v", len(all), err)
	}
	file := all[0]
	file.stores(c)
	file.dependencies(c)
	file.variables(c)
	image, ports := dockerfile(), map[string]bool{}
	http, resp := image.ports()
	for _, name := range []string{"shardid-1", "shardid-2", "migrate", "provision"} {
		s := file.Services[name]
		once := name == "migrate" || name == "provision"
		c.unless(s.Image == "shardid:"+version(), "%s: image %s, the version is %s", name, s.Image, version())
		c.unless(s.Build.Context == "../.." && s.Build.Dockerfile == dockerfilePath, "%s: build %+v", name, s.Build)
		c.unless(s.ReadOnly && slices.Contains(s.CapDrop, "ALL") && slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "%s may do more than it needs", name)
		limit, soft := mebibytes(strings.TrimSuffix(s.MemLimit, "m")), mebibytes(s.Environment["GOMEMLIMIT"])
		c.unless(soft > limit/2 && soft <= limit*9/10, "%s: GOMEMLIMIT is %d MiB, mem_limit %d", name, soft, limit)
		c.unless(once || duration(s.StopGrace) > duration("15s"), "%s: stop_grace_period %s is not above shutdown_timeout", name, s.StopGrace)
		for _, v := range s.Volumes {
			c.unless(v == name+":"+image.last("VOLUME"), "%s: volume %s is not its own, at %s", name, v, image.last("VOLUME"))
		}
		for i, p := range s.Ports {
			host, inside, _ := strings.Cut(strings.TrimPrefix(p, "127.0.0.1:"), ":")
			c.unless(strings.HasPrefix(p, "127.0.0.1:") && inside == []string{http, resp}[i%2] && !ports[host], "%s: port %s", name, p)
			ports[host] = true
		}
		c.unless(once || len(s.Volumes) == 1 && len(s.Ports) == 2, "%s: volumes %v, ports %v", name, s.Volumes, s.Ports)
	}
}

// stores: what never-twice.md asks of them.
func (f composeFile) stores(c checks) {
	db, valkey := f.Services["mysql"], strings.Join(f.Services["valkey"].Command, " ")
	for _, want := range []string{"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"} {
		c.unless(slices.Contains(db.Command, want), "mysql without %s", want)
	}
	for _, want := range []string{"--appendonly yes", "--maxmemory-policy noeviction", "--requirepass "} {
		c.unless(strings.Contains(valkey, want), "valkey without %s", want)
	}
	for _, name := range []string{"mysql", "valkey"} {
		s := f.Services[name]
		c.unless(len(s.Volumes) == 1 && len(s.Ports) == 0, "%s: volumes %v, ports %v", name, s.Volumes, s.Ports)
		c.unless(regexp.MustCompile(`:\d+\.\d+`).MatchString(s.Image), "%s: image %s is not pinned", name, s.Image)
		c.unless(len(s.Healthcheck.Test) > 1 && s.Healthcheck.Retries > 0, "%s has no health check", name)
	}
	_, volume, _ := strings.Cut(strings.Join(db.Volumes, ""), ":")
	c.unless(volume == "/var/lib/mysql", "mysql keeps its data elsewhere than in %s", volume)
}

// dependencies: what is waited for exists and can come about.
func (f composeFile) dependencies(c checks) {
	for name, s := range f.Services {
		for other, d := range s.DependsOn {
			o, ok := f.Services[other]
			c.unless(ok, "%s waits for %s, which is not there", name, other)
			c.unless(d.Condition == "service_healthy" || d.Condition == "service_completed_successfully", "%s: no such condition %s", name, d.Condition)
			c.unless(d.Condition != "service_healthy" || len(o.Healthcheck.Test) > 0, "%s waits for the health of %s, which has none", name, other)
			c.unless(d.Condition != "service_completed_successfully" || o.Restart == "no", "%s waits for the end of %s, which restarts", name, other)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, ok := f.Volumes[source]
			c.unless(ok, "%s: volume %s is not there", name, source)
		}
	}
	const healthy, done = "service_healthy", "service_completed_successfully"
	for _, w := range []struct{ who, whom, condition string }{
		{"migrate", "mysql", healthy}, {"provision", "migrate", done},
		{"shardid-1", "provision", done}, {"shardid-1", "valkey", healthy},
		{"shardid-2", "provision", done}, {"shardid-2", "valkey", healthy},
	} {
		got := f.Services[w.who].DependsOn[w.whom].Condition
		c.unless(got == w.condition, "%s waits for %s: %q, want %s", w.who, w.whom, got, w.condition)
	}
	// `up --wait` takes the end of a service for a failure unless another one waits for it.
	provision := strings.Join(f.Services["provision"].Command, " ")
	c.unless(strings.HasPrefix(provision, "provision --if-missing "), "a second up fails: %s", provision)
}

// variables: the example names those that are asked for, and both sides of a store
// get the same.
func (f composeFile) variables(c checks) {
	example := read("deploy/compose/.env.example")
	used := regexp.MustCompile(`\$\{(\w+)[:}]`).FindAllStringSubmatch(read(composePath), -1)
	c.unless(len(used) > 0, "no variable is used")
	for _, u := range used {
		c.unless(strings.Contains(example, "\n"+u[1]+"=\n"), ".env.example does not name %s", u[1])
	}
	env, db := f.Services["shardid-1"].Environment, f.Services["mysql"].Environment
	want := fmt.Sprintf("%s:%s@tcp(mysql:3306)/%s", db["MYSQL_USER"], db["MYSQL_PASSWORD"], db["MYSQL_DATABASE"])
	c.unless(env["SHARDID_DATABASE_DSN"] == want, "the DSN is %s, the database says %s", env["SHARDID_DATABASE_DSN"], want)
	c.unless(slices.Contains(f.Services["valkey"].Command, env["SHARDID_REDIS_PASSWORD"]), "valkey has another password")
	host, _, _ := strings.Cut(env["SHARDID_REDIS_ADDRS"], ":")
	_, ok := f.Services[host]
	c.unless(ok, "redis.addrs: no service %s", host)
}

// TestComposeSchema: what docker compose reads its file with takes it, and says what it does not take.
func TestComposeSchema(t *testing.T) {
	check.Deep(t)
	tool, path := deployTool(t, "compose-go-v2.16.2"), filepath.Join(t.TempDir(), "compose.yaml")
	filled := regexp.MustCompile(`\$\{\w+[^}]*\}`).ReplaceAllString(read(composePath), "password")
	read := func(text string) (string, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(tool, path).CombinedOutput()
		return string(out), err
	}
	if out, err := read(filled); err != nil || !strings.Contains(out, "image: mysql:9.7") {
		t.Errorf("%v\n%s", err, out)
	}
	for from, to := range map[string]string{"read_only:": "readonly:", "retries: 60": "retries: many", "8081:8080": "8081:http"} {
		if out, err := read(strings.Replace(filled, from, to, 1)); err == nil {
			t.Errorf("%s is taken: %s", to, out)
		}
	}
}
