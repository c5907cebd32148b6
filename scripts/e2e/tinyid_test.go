//go:build unix

package e2e_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
)

// tinyidTable is the table as tinyid's users have made it.
const tinyidTable = "CREATE TABLE tiny_id_info (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, biz_type varchar(63) NOT NULL UNIQUE, " +
	"begin_id bigint NOT NULL DEFAULT 0, max_id bigint NOT NULL DEFAULT 0, step int DEFAULT 0, delta int NOT NULL DEFAULT 1, " +
	"remainder int NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0)"

// tinyidClient does what tinyid's Java client does: it counts on its own in two buffers, and
// fetches the second one from any server when the first has come to its loadingId. For one
// goroutine at a time.
type tinyidClient struct {
	servers    []string // URLs
	token, tag string
	http       *http.Client
	current    *tinyidBuffer
	next       chan *tinyidBuffer // of the fetch in the background; nil when none is under way
	fetched    *tinyidBuffer
}

// tinyidBuffer has the IDs above current up to most.
type tinyidBuffer struct{ current, loading, most, delta int64 }

// nextID gives an ID, or why there is none.
func (c *tinyidClient) nextID() (int64, error) {
	for {
		if c.next != nil {
			select {
			case c.fetched = <-c.next:
				c.next = nil
			default:
			}
		}
		switch b := c.current; {
		case b == nil || b.current+b.delta > b.most: // used up
			c.current, c.fetched = c.fetched, nil
			if c.current == nil {
				var err error
				if c.current, err = c.fetch(); err != nil {
					return 0, err
				}
			}
		default:
			b.current += b.delta
			if b.current >= b.loading && c.fetched == nil && c.next == nil {
				next := make(chan *tinyidBuffer, 1)
				c.next = next
				go func() {
					fetched, _ := c.fetch() // it is tried again
					next <- fetched
				}()
			}
			return b.current, nil
		}
	}
}

// fetch asks one of the servers as HttpSegmentIdServiceImpl does.
func (c *tinyidClient) fetch() (*tinyidBuffer, error) {
	server := c.servers[rand.IntN(len(c.servers))]
	target := server + "/tinyid/id/nextSegmentIdSimple?token=" + url.QueryEscape(c.token) + "&bizType=" + url.QueryEscape(c.tag)
	res, err := c.http.Post(target, "application/x-www-form-urlencoded", strings.NewReader(""))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || len(body) == 0 {
		return nil, fmt.Errorf("status %d, %d bytes, %w", res.StatusCode, len(body), cmp.Or(err, io.EOF))
	}
	var n [5]int64
	fields := strings.Split(string(body), ",")
	for i := range n {
		if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return nil, err
		}
	}
	if len(fields) != 5 || n[3] != 1 || n[4] != 0 || n[0] >= n[2] || n[1] < n[0] || n[1] >= n[2] {
		return nil, fmt.Errorf("run %s", body)
	}
	return &tinyidBuffer{n[0], n[1], n[2], n[3]}, nil
}

func newTinyidClient(t *testing.T, token, tag string, servers ...string) *tinyidClient {
	t.Helper()
	c := &tinyidClient{servers: servers, token: token, tag: tag, http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// TestE2ETinyidClients: clients of tinyid, of Leaf and of /v1 draw from one tag, from three
// replicas of which one after the other is killed and comes back. No ID comes twice.
func TestE2ETinyidClients(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "500")
	addrs := rig.FreeAddrs(t, 3)
	start := func(i int) *daemon {
		return serve(t, onlySegments(dsn), "--set", "server.addr="+addrs[i])
	}
	var servers []string
	replicas := make([]*daemon, len(addrs))
	for i, addr := range addrs {
		replicas[i] = start(i)
		servers = append(servers, "http://"+addr)
		eventually(t, startLimit, "ready", func() bool { return replicas[i].get("/readyz").status == 200 })
	}
	books, end := &ledger{}, time.Now().Add(12*time.Second)
	var wg sync.WaitGroup
	var mu sync.Mutex
	drawn := map[string]int{}
	note := func(kind string, ids ...int64) {
		books.Rise(0, ids...)
		mu.Lock()
		defer mu.Unlock()
		drawn[kind] += len(ids)
	}
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(end) { // a client lives for three seconds and takes its buffers with it
				c := newTinyidClient(t, "any", "orders", servers...)
				for died := time.Now().Add(3 * time.Second); time.Now().Before(died); time.Sleep(100 * time.Microsecond) {
					if id, err := c.nextID(); err == nil {
						note("tinyid", id)
					}
				}
				if c.next != nil {
					<-c.next
				}
			}
		})
	}
	direct := func(kind, target string, read func(string) []string) {
		wg.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for time.Now().Before(end) {
				time.Sleep(time.Millisecond)
				res, err := client.Get(servers[rand.IntN(len(servers))] + target)
				if err != nil {
					continue
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK {
					continue
				}
				for _, text := range read(string(body)) {
					id, err := strconv.ParseInt(text, 10, 64)
					if err != nil {
						books.Complain("%s: %s", kind, body)
						return
					}
					note(kind, id)
				}
			}
		})
	}
	digits := regexp.MustCompile(`\d+`)
	direct("leaf", "/api/segment/get/orders?count=7", strings.Fields)
	direct("v1", "/v1/segment/orders/ids?count=40", func(body string) []string { return digits.FindAllString(body, -1)[1:] })
	direct("nextIdSimple", "/tinyid/id/nextIdSimple?bizType=orders&batchSize=30&token=any", func(body string) []string {
		return strings.FieldsFunc(body, func(r rune) bool { return r == ',' })
	})
	for i := 0; time.Now().Before(end.Add(-3 * time.Second)); i++ {
		time.Sleep(2 * time.Second)
		replicas[i%3].Kill()
		time.Sleep(300 * time.Millisecond)
		replicas[i%3] = start(i % 3)
	}
	wg.Wait()
	books.Settle(t, "orders")
	wantTaken(t, dsn, "orders", books)
	for kind, least := range map[string]int{"tinyid": 20_000, "leaf": 2000, "v1": 10_000, "nextIdSimple": 10_000} {
		if drawn[kind] < least {
			t.Errorf("%s: only %d IDs", kind, drawn[kind])
		}
	}
	t.Logf("%v", drawn)
}

// tinyidDatabase is a database of tinyid with these rows.
func tinyidDatabase(t *testing.T, rows ...string) (dsn string) {
	t.Helper()
	dsn = testserver.SharedMariaDB(t).NewDatabase(t)
	query(t, dsn, tinyidTable, "INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder) VALUES "+strings.Join(rows, ", "))
	return dsn
}

// dumpCommand is mysql --batch of docs/tinyid.md as a shell here runs it.
func dumpCommand(t *testing.T, dsn, command string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(cfg.Addr, ":")
	client := fmt.Sprintf("%s --no-defaults --protocol=tcp --default-character-set=utf8mb4 -h %s -P %s -u %s --batch",
		testserver.MariaDBClient(), host, port, cfg.User)
	return strings.NewReplacer("mysql --batch", client, `" tinyid >`, `" `+cfg.DBName+" >").Replace(command)
}

// TestE2ETinyidPage: each command of docs/tinyid.md does what the page says, and its token
// lets a client of tinyid in.
func TestE2ETinyidPage(t *testing.T) {
	check.Deep(t)
	story(t)
	if testserver.MariaDBClient() == "" {
		t.Fatal("no mariadb client: install the Debian package mariadb-client")
	}
	theirs := tinyidDatabase(t, "('test', 1, 100001, 100000, 1, 0)", "('orders', 1, 5000000, 2000, 1, 0)")
	r := reader{t: t, run: &daemon{}, dir: t.TempDir(), env: settings{"SNOWFLAKE_ENABLED": "false", "UID_ENABLED": "false", "LOG_LEVEL": "warn"}.Environ(t.TempDir())}
	compared := 0
	for _, s := range pageSteps(t, "../../docs/tinyid.md") {
		switch {
		case strings.HasPrefix(s.command, "mysql "):
			r.shell(s, dumpCommand(t, theirs, s.command))
		case strings.HasSuffix(s.command, "tags.sh"):
			s.prints = strings.ReplaceAll(s.prints, "bin/shardid", rig.Binary(t))
			r.shell(s, s.command)
		case strings.HasPrefix(s.command, "bin/shardid serve"):
			r.run = serveIn(t, t.TempDir(), r.settings().With(settings{"LOG_LEVEL": "info"}))
			eventually(t, startLimit, "ready", func() bool { return r.run.get("/readyz").status == 200 })
		default:
			r.follow(s)
		}
		if s.prints != "" {
			compared++
		}
	}
	if compared != 4 {
		t.Errorf("%d outputs were compared", compared)
	}
	r.run.Kill()

	page, err := os.ReadFile("../../docs/tinyid.md")
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	token := regexp.MustCompile(`tinyid\.token=(\w+)`).FindSubmatch(page)
	if entry == nil || token == nil {
		t.Fatal("the page has no token")
	}
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, entry[1], 0o600); err != nil {
		t.Fatal(err)
	}
	d := serveIn(t, t.TempDir(), r.settings().With(settings{"SERVER_TOKENS_FILE": tokens, "SERVER_REQUIRE_TOKEN": "true", "LOG_ACCESS": "errors", "LOG_LEVEL": "info"}))
	d.ready()
	c := newTinyidClient(t, string(token[1]), "orders", d.url)
	books := &ledger{}
	for range 10_000 {
		id, err := c.nextID()
		if err != nil {
			t.Fatal(err)
		}
		books.Rise(5_000_000, id)
	}
	if c.next != nil {
		<-c.next
	}
	books.Settle(t, "orders")
	if first := books.IDs()[0]; first != 5_000_001 {
		t.Errorf("the first ID is %d", first)
	}
	for what, bad := range map[string]*tinyidClient{
		"a wrong token": newTinyidClient(t, "wrong", "orders", d.url), "another tag": newTinyidClient(t, c.token, "others", d.url),
	} {
		if id, err := bad.nextID(); err == nil {
			t.Errorf("%s: ID %d", what, id)
		}
	}
	if lines := d.Lines(`"msg":"request"`, `"path":"/tinyid/id/nextSegmentIdSimple"`, `"status":200`, `"code":-7`); len(lines) != 2 {
		t.Errorf("the log has %d lines of the refusals", len(lines))
	}
	if m := d.get("/metrics").body; !strings.Contains(m, `shardid_refused_total{code="-7",mode="segment"} 2`) {
		t.Error("the metrics do not count the refusals")
	}
	if a, err := d.do(http.MethodGet, "/tinyid/id/nextId?bizType=orders"); err != nil || a.status != 200 || a.body != `{"data":null,"code":5,"message":"token is error"}` {
		t.Errorf("%d %s, %v", a.status, a.body, err)
	}
}
