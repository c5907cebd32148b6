package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestMain(m *testing.M) {
	time.Local = time.FixedZone("Asia/Shanghai", 8*3600) // answers have UTC all the same
	testserver.Main(m)
}

// One process serves with an embedded database, and says that it is to be the only one. Commands reach it through its
// socket, which is for this user alone; one that a killed process left is in nobody's way.
func TestOneProcessServesTheEmbeddedDatabase(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg := config.Defaults().Config
	cfg.Server.Addr = "127.0.0.1:0"
	var lines check.Log
	log := slog.New(slog.NewTextHandler(&lines, nil))
	first, err := NewApp(cfg, log, nil)
	check.Must(t, err)
	check.Equal(t, lines.Count("for more than one replica: with this state"), 1, "warnings")
	check.Must(t, os.WriteFile("data/shardid.db.sock", nil, 0o600))
	check.Must(t, first.Start(t.Context(), false))
	_, err = NewApp(cfg, log, nil)
	check.Is(t, err, sqlstore.ErrHeld)
	if said := fmt.Sprint(err); strings.Contains(said, "\n") || !strings.HasPrefix(said,
		"stop the shardid that serves with data/shardid.db, ") {
		t.Errorf("%q", said)
	}
	types(t, []line{{"tags add --tag orders", 0, `orders is added, now, on every replica (embedded database data/`}})
	line := "msg=audit who=" + operator().Name + ` action=tag.create target="tag orders" asked=`
	check.Equal(t, lines.Count(line), 1, line)
	socket, err := os.Stat("data/shardid.db.sock")
	check.Must(t, err)
	check.Equal(t, socket.Mode(), os.ModeSocket|0o600)
	check.Must(t, first.Stop(0))
	check.Is(t, check.Err(os.Stat("data/shardid.db.sock")), os.ErrNotExist)
	next, err := NewApp(cfg, log, nil)
	check.Must(t, err)
	check.Must(t, next.Stop(0))
}

// The identity of an instance is what the configuration says, and else an address by which others can tell it apart.
func TestInstanceAddress(t *testing.T) {
	for _, c := range []struct{ advertise, listens, want string }{
		{"10.9.9.9:80", "10.0.0.5:8080", "10.9.9.9:80"},
		{"", "10.0.0.5:8080", "10.0.0.5:8080"},
		{"", "[::ffff:10.0.0.5]:8080", "10.0.0.5:8080"},
		{"", "0.0.0.0:8123", ""},
		{"", "[::]:8123", ""},
		{"", "127.0.0.1:8123", ""},
	} {
		var cfg Config
		cfg.Snowflake.Advertise = c.advertise
		got := instanceAddress(cfg, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.listens)))
		at, err := netip.ParseAddrPort(got)
		if err != nil || c.want != "" && got != c.want ||
			c.want == "" && (at.Port() != 8123 || at.Addr().IsUnspecified()) {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

// Hosts of other names are refused where a browser of this machine is all that keeps other sites away.
func TestOwnHosts(t *testing.T) {
	for want, servers := range map[bool][]ServerConfig{
		true: {{Addr: "127.0.0.1:8080"}, {Addr: "localhost:8080"}, {Addr: "[::1]:8080"}},
		false: {{Addr: "0.0.0.0:8080"}, {Addr: ":8080"}, {Addr: "127.0.0.1:8080", RequireToken: true},
			{Addr: "127.0.0.1:8080", TLSCertFile: "cert.pem"}},
	} {
		for _, s := range servers {
			check.Equal(t, ownHosts(s), want, s.Addr)
		}
	}
}

// Connections, however much each has sent, fit into the memory.
func TestConnectionsFitMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(30 << 20))
	check.Equal(t, limits(config.Defaults().Config).Most, 548)
}

// TestServerOutlastsItsCallers: a deadline of the connection that ends while a
// request waits would cancel it.
func TestServerOutlastsItsCallers(t *testing.T) {
	cfg := config.Defaults().Config
	cfg.Server.RequestTimeout = time.Minute
	if l := limits(cfg); l.Active <= time.Minute || l.Most < 1 {
		t.Errorf("%+v", l)
	}
	cfg.Server.TLSCertFile = "cert.pem"
	s := newServer(cfg, nil, nil, slog.New(slog.DiscardHandler))
	if s.ReadTimeout <= time.Minute || s.WriteTimeout <= time.Minute || s.IdleTimeout <= 0 {
		t.Errorf("streams: read %v, write %v, idle %v", s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
	}
	if s.HTTP2.MaxConcurrentStreams > 100 || s.HTTP2.WriteByteTimeout <= 0 {
		t.Errorf("streams: %+v", s.HTTP2)
	}
}

// untaken is an answer that its client does not take until held is closed.
type untaken struct {
	*httptest.ResponseRecorder
	held chan struct{}
}

// Flush implements http.Flusher.
func (u untaken) Flush() { <-u.held }

// Streams whose answers are not taken are not more than fit, on however many connections.
func TestBoundStreams(t *testing.T) {
	held := make(chan struct{})
	h := boundStreams(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var waiting sync.WaitGroup
	var refused atomic.Int64
	for range maxStreams + 10 {
		waiting.Go(func() {
			defer func() {
				if err, _ := recover().(error); errors.Is(err, http.ErrAbortHandler) && refused.Add(1) == 10 {
					close(held)
				}
			}()
			h.ServeHTTP(untaken{httptest.NewRecorder(), held}, &http.Request{ProtoMajor: 2})
		})
	}
	waiting.Wait()
	check.Equal(t, refused.Load(), 10, "streams that are refused")
	h.ServeHTTP(httptest.NewRecorder(), &http.Request{ProtoMajor: 2})
}

// The less lives the more the heap may grow, up to its goal; much that lives is collected as often as with GOGC=150.
func TestHeapGoal(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() uint64 { // as it is set
		gogc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(gogc)
		return gogc[0].Value.Uint64()
	}
	runtime.GC() // of what other tests left
	keepHeapGoal()
	if set := percent(); set <= 150 {
		t.Errorf("with little that lives it is %d", set)
	}
	much := make([]byte, 200<<20)
	check.Eventually(t, "a collection sets it", func() error {
		runtime.GC()
		if set := percent(); set != 150 {
			return fmt.Errorf("with 200 MiB that live it is %d", set)
		}
		return nil
	})
	runtime.KeepAlive(much)
}

// Whatever the zone of the machine, lines have UTC.
func TestLogIsInUTC(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 18, 0, 0, time.FixedZone("", 8*3600))
	for _, asText := range []bool{true, false} {
		var out bytes.Buffer
		r := slog.NewRecord(at, slog.LevelInfo, "said", 0)
		r.Add("until", at)
		if err := newLogHandler(&out, asText, slog.LevelInfo).Handle(t.Context(), r); err != nil ||
			strings.Count(out.String(), "2026-11-20T00:18:00") != 2 || strings.Contains(out.String(), "+08") {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

// A line begins with what to do about its error, which has no line end.
func TestLogBeginsWithWhatToDo(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newLogHandler(&out, true, slog.LevelInfo)).With("mode", "queue")
	away := &model.StoreError{Store: "redis", Op: "check", Advice: "start Redis", Err: errors.New("refused")}
	log.Warn("refill fails", "error", fmt.Errorf("list 1_0: %w", away), "n", 1)
	log.Warn("refill fails", "error", errors.New("two\nlines"))
	for _, want := range []string{
		` msg="start Redis: refill fails" mode=queue error="list 1_0: redis: check: refused" n=1` + "\n",
		` msg="refill fails" mode=queue error="two; lines"` + "\n",
	} {
		check.Has(t, out.String(), want)
	}
}

// What the log shows follows the level; who changes it is shown at every level.
func TestLoggerFollowsItsLevel(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check.Must(t, err)
	defer f.Close()
	log, level := newLogger(f, config.Log{Level: "error", Format: "auto"})
	log.Warn("before")
	level.Current.Set(slog.LevelDebug)
	log.Debug("during")
	level.Current.Set(level.Configured)
	log.Warn("after")
	level.Audit.Info("changed")
	raw, err := os.ReadFile(f.Name())
	check.Must(t, err)
	got := string(raw)
	if strings.Contains(got, "before") || strings.Contains(got, "after") || !strings.Contains(got, `"msg":"during"`) ||
		!strings.Contains(got, `"msg":"changed"`) {
		t.Error(got)
	}
}

// Many rows that cannot be used do not fill the disk.
func TestBadRowsAreToldSparsely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tell := tellBadRows(slog.New(slog.NewTextHandler(&log, nil)))
		for i := range 500 {
			tell(fmt.Errorf("app_id 301, shard_id %d", i))
		}
		check.Equal(t, strings.Count(log.String(), "app_id 301"), badRowLines, "lines about many")
		time.Sleep(badRowEvery)
		tell(errors.New("app_id 302"))
		if !strings.Contains(log.String(), `error="app_id 302" more_since_the_last_line=436`) {
			t.Error(log.String())
		}
	})
}
