// Package scripts tests the client as programs of other modules use it, and client/gormid on a real database, whose
// driver its module does not need.
package scripts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"shardid/client"
	"shardid/client/gormid"
	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
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

func TestMain(m *testing.M) { testserver.Main(m) }

type order struct {
	ID      int64 `gorm:"primaryKey" shardid:"segment:orders"`
	Buyer   string
	Address address
	Items   []item
}

type item struct {
	ID      uint64 `gorm:"primaryKey" shardid:"segment:items"`
	OrderID int64
	Name    string
}

type address struct {
	ID      string `gorm:"primaryKey;size:32" shardid:"uid"`
	OrderID int64
	City    string
}

type account struct {
	ID    int64 `gorm:"primaryKey" shardid:"queue:7:Email"`
	Email string
}

// open is a new database, with a service that issues 1001, 1002… for each path.
func open(t *testing.T) (db *gorm.DB, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	var last atomic.Int64
	last.Store(1000)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if strings.HasPrefix(r.URL.Path, "/v1/queue/") && r.FormValue("gatePass") == "" {
			t.Error("no gatePass")
		}
		n, _ := strconv.ParseInt(r.FormValue("count"), 10, 64)
		_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"%d","count":%d,"stride":"1"}]}`, last.Add(n)-n+1, n)
	}))
	t.Cleanup(service.Close)
	ids, err := client.New(client.Options{Addrs: []string{service.URL}})
	check.Must(t, err)
	t.Cleanup(func() { _ = ids.Close() })
	config := mysql.Config{DSN: testserver.SharedMariaDB(t).NewDatabase(t)}
	db, err = gorm.Open(mysql.New(config), &gorm.Config{Logger: logger.Discard})
	check.Must(t, err)
	pool, err := db.DB()
	check.Must(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	check.Must(t, db.Use(gormid.New(ids)))
	check.Must(t, db.AutoMigrate(&order{}, &item{}, &address{}, &account{}))
	return db, requests
}

// count is how many rows a model has where something holds.
func count(t *testing.T, db *gorm.DB, model any, where string) (n int64) {
	t.Helper()
	check.Must(t, db.Model(model).Where(where).Count(&n).Error)
	return n
}

// TestCreate: each row that a Create inserts gets an ID unless it has one, whatever the row is made of.
func TestCreate(t *testing.T) {
	db, requests := open(t)
	t.Run("with associations", func(t *testing.T) {
		items := []item{{Name: "pen"}, {ID: 7, Name: "ink"}, {Name: "paper"}}
		o := order{ID: 42, Buyer: "alice", Address: address{City: "Ulm"}, Items: items}
		check.Must(t, db.Create(&o).Error)
		check.Equal(t, count(t, db, &order{}, "id = 42"), 1, "an ID that was given")
		check.Equal(t, count(t, db, &item{}, "order_id = 42 AND (id = 7 OR id > 1000)"), 3, "items")
		check.Equal(t, count(t, db, &address{}, "order_id = 42 AND length(id) >= 4"), 1, "addresses with a text")
	})
	t.Run("in batches", func(t *testing.T) {
		before := requests.Load()
		orders := make([]*order, 3000)
		for i := range orders {
			orders[i] = &order{Buyer: "bulk"}
		}
		check.Must(t, db.CreateInBatches(orders, 1000).Error)
		check.Equal(t, count(t, db, &order{}, "buyer = 'bulk' AND id > 1000"), 3000, "rows")
		if got := requests.Load() - before; got > 30 {
			t.Errorf("%d requests for 3000 rows, want 30 at most", got)
		}
	})
	t.Run("by a gatePass twice", func(t *testing.T) {
		accounts := []account{{Email: "a@x"}, {Email: "b@x"}, {Email: "a@x"}}
		check.Must(t, db.Create(&accounts).Error)
		check.Equal(t, count(t, db, &account{}, "id > 1000"), 3, "rows")
	})
}
