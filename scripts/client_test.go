// Package scripts tests the client as programs of other modules use it.
package scripts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// outside is a program's module elsewhere, which no network helps.
type outside struct {
	t                 *testing.T
	dir, repository   string
	program, commands string // of docs/clients.md: the program, and the commands that come after it
}

func newOutside(t *testing.T) outside {
	t.Helper()
	repository, err := filepath.Abs("..")
	check.Must(t, err)
	page, err := os.ReadFile(filepath.Join(repository, "docs/clients.md"))
	check.Must(t, err)
	found := regexp.MustCompile("(?s)```go client\n(.*?)```.*?```sh\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/clients.md has no program with the Go client, or no commands after it")
	}
	o := outside{t, t.TempDir(), repository, string(found[1]), string(found[2])}
	o.run("go mod init example.com/app")
	return o
}

// run runs commands, one a line, and gives what they printed.
func (o outside) run(commands string) (said string) {
	o.t.Helper()
	for command := range strings.Lines(commands) {
		words := strings.Fields(strings.ReplaceAll(command, "/path/to/shardid", o.repository))
		cmd := exec.CommandContext(o.t.Context(), words[0], words[1:]...)
		cmd.Dir, cmd.Env = o.dir, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=", "GOFLAGS=-mod=mod")
		if _, err := os.Stat(filepath.Join(o.dir, "go.work")); err == nil {
			cmd.Env = append(cmd.Env, "GOFLAGS=") // which excludes -mod=mod
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			o.t.Fatalf("%s: %v\n%s", command, err, out)
		}
		said += string(out)
	}
	return strings.TrimSpace(said)
}

// TestClientFromOutside: a program of another module uses the client as docs/clients.md says, by replace and in a
// workspace.
func TestClientFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"7001","count":%s,"stride":"1"}]}`, r.FormValue("count"))
	}))
	defer service.Close()
	for _, way := range []string{"replace", "workspace"} {
		t.Run(way, func(t *testing.T) {
			o := newOutside(t)
			program := strings.ReplaceAll(o.program, "http://127.0.0.1:8080", service.URL)
			check.Must(t, os.WriteFile(filepath.Join(o.dir, "main.go"), []byte(program), 0o600))
			if way == "replace" {
				o.run(o.commands)
			} else {
				o.run("go work init . /path/to/shardid/client")
			}
			check.Equal(t, o.run("go run ."), "7001 1ov [7001 7002 7003]")
		})
	}
}

// TestClientLiftsNothing: the client requires no module, and gormid nothing but gorm with what gorm needs; so a
// program keeps its gin and its go-redis.
func TestClientLiftsNothing(t *testing.T) {
	for file, want := range map[string]string{
		"../client/go.mod":        "[]",
		"../client/gormid/go.mod": "[gorm.io/gorm shardid/client github.com/jinzhu/inflection github.com/jinzhu/now]",
	} {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		var requires []string
		for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+) v\d`).FindAllStringSubmatch(string(text), -1) {
			requires = append(requires, m[1])
		}
		check.Equal(t, fmt.Sprint(requires), want, file)
	}
}
