package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/repository/workerfile"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestMain(m *testing.M) {
	time.Local = time.FixedZone("Asia/Shanghai", 8*3600) // answers have UTC all the same
	testserver.Main(m)
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
