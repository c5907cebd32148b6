//go:build unix

package stories_test

import (
	"context"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// Programs of docs/clients.md and of docs/examples/java, and clients that generators make, as far as their languages and
// libraries are here: make test-clients installs them.

// program is a block of a page that is written to a file and run. In its environment are the URL of a server, its
// PORT for Redis clients, this FOLDER, and the CLASSES of client/java.
type program struct {
	file, needs, run string            // needs is a command that succeeds where all is installed
	more             map[string]string // other files: their text, or "BLOCK: " and a block
}

// programs are by the marks of their blocks, or by their paths in docs/examples; what has no file stands beside the page.
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
		"fetch":           {"", "node -e fetch", "node $FOLDER/testdata/javascript.js $URL fetch", nil},
		"axios":           {"", `node -e "require('axios')"`, "node $FOLDER/testdata/javascript.js $URL axios", nil},
		"go client":       {"main.go", "go version", "go run -C $FOLDER $PWD/main.go", nil},

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
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "URL="+d.url, "PORT="+port, "FOLDER="+folder, "CLASSES="+javaClasses(t))
	// Debian's Hibernate has another name for the session, and its Spring cannot make the subclass of a @Configuration,
	// which the page does not need.
	const session = "SharedSessionContractImplementor"
	here := strings.NewReplacer("http://127.0.0.1:8080", d.url, "6380", port, "@Configuration\n", "",
		"org.hibernate.engine.spi."+session, "org.hibernate.engine.SessionImplementor", session, "SessionImplementor")
	blocks := map[string]string{}
	for _, b := range append(blocksOf(t, docs+"clients.md"), blocksOf(t, "testdata/generators.md")...) {
		mark := strings.TrimSpace(b.kind + " " + b.name)
		if _, isRun := programs()[mark]; !isRun && b.name != "" && b.kind != "sh" {
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
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
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
