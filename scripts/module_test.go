// Package scripts tests that programs of other modules can use the client.
package scripts

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// goIn runs the go command, or another, in a folder, without the network.
func goIn(dir string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=")
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil { // which -mod=mod excludes
		cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), err
}

// page is the part of docs/clients.md that tells how to use the Go client from outside: its
// program, and the commands that come after it.
func page(t *testing.T, repository string) (program string, commands []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "docs/clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```go client\n(.*?)```.*?```sh\n(.*?)```").FindStringSubmatch(string(raw))
	if found == nil {
		t.Fatal("docs/clients.md has no program with the Go client, or no commands after it")
	}
	return found[1], strings.Split(strings.TrimSpace(found[2]), "\n")
}

// runs checks that the program of the page works in a module of its own, which prepare makes
// depend on the client.
func runs(t *testing.T, repository string, prepare func(dir string, commands []string) error) {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"7001","count":%s,"stride":"1"}]}`, r.FormValue("count"))
	}))
	defer service.Close()
	program, commands := page(t, repository)
	dir := t.TempDir()
	_, err := goIn(dir, "go", "mod", "init", "example.com/app")
	if err == nil {
		program = strings.ReplaceAll(program, "http://127.0.0.1:8080", service.URL)
		err = os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600)
	}
	if err == nil {
		err = prepare(dir, commands)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := goIn(dir, "go", "run", ".")
	if err != nil || strings.TrimSpace(out) != "7001 1ov [7001 7002 7003]" {
		t.Errorf("%q, %v", out, err)
	}
}

// follow runs the commands of the page.
func follow(repository string) func(string, []string) error {
	return func(dir string, commands []string) error {
		for _, command := range commands {
			words := strings.Fields(strings.ReplaceAll(command, "/path/to/shardid", repository))
			if _, err := goIn(dir, words...); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestClientFromOutside: a program of another module uses the client as docs/clients.md
// says, by replace and in a workspace.
func TestClientFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("replace", func(t *testing.T) { runs(t, repository, follow(repository)) })
	t.Run("workspace", func(t *testing.T) {
		runs(t, repository, func(dir string, _ []string) error {
			_, err := goIn(dir, "go", "work", "init", ".", repository+"/client")
			return err
		})
	})
}

// TestClientLiftsNothing: a program that adds the client and gormid by replace, as
// docs/clients.md says, requires nothing but gorm with what gorm needs; so it keeps its gin
// and its go-redis. That needs no network: versions that nobody requires are not looked for.
func TestClientLiftsNothing(t *testing.T) {
	check.Deep(t)
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	fetch := exec.CommandContext(t.Context(), "go", "list", "-m", "all") // what gormid requires, on a machine that never built it
	fetch.Dir = filepath.Join(repository, "client/gormid")
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := t.TempDir()
	for _, words := range [][]string{
		{"go", "mod", "init", "example.com/app"},
		{"go", "mod", "edit", "-require=shardid/client@v0.0.0", "-replace=shardid/client=" + repository + "/client"},
	} {
		if _, err := goIn(dir, words...); err != nil {
			t.Fatal(err)
		}
	}
	modules := func() string {
		t.Helper()
		out, err := goIn(dir, "go", "list", "-m", "-f", "{{.Path}}", "all")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	if got := modules(); got != "example.com/app shardid/client" {
		t.Errorf("the client brings %s", got)
	}
	if _, err := goIn(dir, "go", "mod", "edit", "-require=shardid/client/gormid@v0.0.0", "-replace=shardid/client/gormid="+repository+"/client/gormid"); err != nil {
		t.Fatal(err)
	}
	if got := modules(); got != "example.com/app github.com/jinzhu/inflection github.com/jinzhu/now gorm.io/gorm shardid/client shardid/client/gormid" {
		t.Errorf("gormid brings %s", got)
	}
}
