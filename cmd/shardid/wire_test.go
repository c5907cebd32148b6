package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
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
