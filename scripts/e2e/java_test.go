//go:build unix

package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// runIn runs a program and gives its output; it must succeed.
func runIn(t *testing.T, dir string, env settings, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", words, err, out)
	}
	return string(out)
}

// javaClient compiles client/java and its test for Java 8, and gives the folder of the classes.
func javaClient(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skip("not installed: javac")
	}
	sources, err := filepath.Glob("../../client/java/src/*/java/shardid/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatal("client/java has no sources:", err)
	}
	classes := t.TempDir()
	runIn(t, "", nil, append([]string{"javac", "--release", "8", "-encoding", "UTF-8", "-Xlint:all,-options", "-Werror", "-d", classes}, sources...)...)
	return classes
}

// TestE2EJavaClient runs the test of client/java, against its fakes and against a server.
func TestE2EJavaClient(t *testing.T) {
	check.Deep(t)
	story(t)
	classes := javaClient(t)
	d := serve(t, nil, "--demo")
	d.ready()
	if out := runIn(t, "", nil, "java", "-cp", classes, "shardid.ShardidTest", d.url); !strings.HasSuffix(out, "ok\n") {
		t.Error(out)
	}
	if granted, released := d.Lines(`"msg":"lease granted"`), d.Lines(`"msg":"lease released"`); len(granted) != 3 || len(released) != 3 {
		t.Errorf("%d leases were granted, %d released", len(granted), len(released))
	}
}

// javaPrograms use what docs/clients.md shows, by the name of its block: they print an ID.
var javaPrograms = map[string]struct{ file, jars, program string }{
	"client":       {file: "Ids"},
	"mybatis-plus": {file: "ShardidGenerator", program: `System.out.println(new ShardidGenerator(shardid.Shardid.connect(args[0], null).snowflakes("demo")).nextId(null));`},
	"hibernate":    {file: "ShardidGenerator", jars: "hibernate-core", program: `System.out.println(new ShardidGenerator().generate(null, null));`},
	"spring": {file: "Ids", jars: "spring3-context spring3-beans spring3-core spring3-expression spring3-aop commons-logging", program: `
		try (org.springframework.context.annotation.AnnotationConfigApplicationContext c = new org.springframework.context.annotation.AnnotationConfigApplicationContext(Ids.class)) {
			System.out.println(c.getBean(shardid.Snowflakes.class).next());
		}`},
}

// TestE2EJavaPage compiles and runs the Java programs of docs/clients.md that use the client, as
// far as Debian has their libraries. Its Hibernate has another name for the session; its Spring
// cannot make the subclass of a @Configuration, which the page does not need; for MyBatis-Plus,
// which it lacks, the interface has the one method that is implemented.
func TestE2EJavaPage(t *testing.T) {
	check.Deep(t)
	story(t)
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	classes := javaClient(t)
	d := serve(t, nil, "--demo")
	d.ready()
	replace := strings.NewReplacer("http://127.0.0.1:8080", d.url, "@Configuration\n", "",
		"org.hibernate.engine.spi.SharedSessionContractImplementor", "org.hibernate.engine.SessionImplementor", "SharedSessionContractImplementor", "SessionImplementor")
	released := 0
	for name, p := range javaPrograms {
		t.Run(name, func(t *testing.T) {
			block := regexp.MustCompile("(?s)```java " + name + "\n(.*?)```").FindSubmatch(page)
			if block == nil {
				t.Fatal("the page lacks it")
			}
			dir, path := t.TempDir(), classes
			for _, jar := range strings.Fields(p.jars) {
				file := "/usr/share/java/" + jar + ".jar"
				if _, err := os.Stat(file); err != nil {
					t.Skip("not installed:", file)
				}
				path += ":" + file
			}
			sources := map[string]string{p.file: replace.Replace(string(block[1]))}
			main := p.file
			if p.program != "" {
				main = "Run"
				sources[main] = "public class Run { public static void main(String[] args) { " + p.program + " } }"
			}
			if name == "mybatis-plus" {
				sources["IdentifierGenerator"] = "package com.baomidou.mybatisplus.core.incrementer; public interface IdentifierGenerator { Number nextId(Object entity); }"
			}
			compile := []string{"javac", "--release", "8", "-encoding", "UTF-8", "-Xlint:-options", "-cp", path, "-d", dir}
			for class, text := range sources {
				file := filepath.Join(dir, class+".java")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				compile = append(compile, file)
			}
			runIn(t, dir, nil, compile...)
			out := runIn(t, dir, settings{"SHARDID_URLS": d.url}, "java", "-Dshardid.urls="+d.url, "-cp", dir+":"+path, main, d.url)
			if lines := strings.Fields(out); len(lines) == 0 || !regexp.MustCompile(`^\d+$`).MatchString(lines[len(lines)-1]) {
				t.Error(out)
			}
			if name != "mybatis-plus" { // whose program ends without
				released++
			}
			if got := len(d.Lines(`"msg":"lease released"`)); got != released {
				t.Errorf("%d leases were released, not %d", got, released)
			}
		})
	}
}
