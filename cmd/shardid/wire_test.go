package main

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"shardid/cmd/shardid/config"
	"shardid/repository/redisstore"
	"shardid/repository/workerfile"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// tlsRedis is a server that speaks TLS only to clients with a certificate.
func tlsRedis(t *testing.T, a *check.Authority) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	addr := listener.Addr().String()
	check.Must(t, listener.Close())
	_, port, _ := strings.Cut(addr, ":")
	cert, key := a.Issue("server", "redis.test")
	testserver.Redis(t, "--tls-port", port, "--tls-ca-cert-file", a.Path("ca.pem"), "--tls-cert-file", cert,
		"--tls-key-file", key)
	return addr
}

func TestRedisOverTLS(t *testing.T) {
	a := check.NewAuthority(t)
	addr := tlsRedis(t, a)
	cert, key := a.Issue("client", "shardid")
	files := config.TLSFiles{TLSCAFile: a.Path("ca.pem"), TLSCertFile: cert, TLSKeyFile: key}
	for name, c := range map[string]struct {
		url   string
		files config.TLSFiles
		want  string // in the error; "" means it works
	}{
		"as it should be": {"rediss://" + addr, files, ""},
		"any certificate": {"rediss://" + addr + "?skip_verify=true",
			config.TLSFiles{TLSCertFile: cert, TLSKeyFile: key}, ""},
		"unknown authority": {"rediss://" + addr, config.TLSFiles{TLSCertFile: cert, TLSKeyFile: key},
			"unknown authority"},
		"no client key": {"rediss://" + addr, config.TLSFiles{TLSCAFile: files.TLSCAFile}, "redis: check"},
		"plain":         {"redis://" + addr, config.TLSFiles{}, "rediss://"},
	} {
		t.Run(name, func(t *testing.T) {
			opts, err := redisOptions(config.Redis{URL: c.url, TLSFiles: c.files})
			check.Must(t, err)
			store := redisstore.New(opts)
			defer func() { check.Must(t, store.Close()) }()
			err = store.Check(t.Context())
			if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
}

// One process serves with an embedded database, and says that it is to be the only one; commands
// change the database meanwhile.
func TestOneProcessServesTheEmbeddedDatabase(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg := config.Defaults().Config
	var lines strings.Builder
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	first, err := NewApp(cfg, log, nil)
	check.Must(t, err)
	if said := lines.String(); strings.Count(said, "\n") != 1 ||
		!strings.Contains(said, "this state is for one replica") {
		t.Errorf("%q", said)
	}
	_, err = NewApp(cfg, log, nil)
	check.Is(t, err, workerfile.ErrLocked)
	if said := fmt.Sprint(err); strings.Contains(said, "\n") || !strings.HasPrefix(said,
		"stop the shardid that serves with data/shardid.db, ") {
		t.Errorf("%q", said)
	}
	if exit, _, stderr := try(t, "tags", "add", "--tag", "orders"); exit != 0 {
		t.Errorf("exit %d, %q", exit, stderr)
	}
	check.Must(t, first.Stop(0))
	next, err := NewApp(cfg, log, nil)
	check.Must(t, err)
	check.Must(t, next.Stop(0))
}
