package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"shardid/scripts/check"
)

// A client with IPv6 has a network to itself; the two ways to write IPv4 are one.
func TestClient(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		at, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(addr, "80"))
		check.Must(t, err)
		check.Equal(t, client(at).String(), want, addr)
	}
}

// from is a connection of a client with that address.
type from struct {
	net.Conn
	ip string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 1} }
func (f from) Close() error         { return nil }

func TestConnectionsPerAddress(t *testing.T) {
	c := newConnections(5, 2, slog.New(slog.DiscardHandler))
	var open []*boundConn
	for _, step := range []struct{ ip, beyond string }{
		{"192.0.2.1", ""}, {"192.0.2.1", ""}, {"192.0.2.1", "server.max_connections_per_address"},
		{"2001:db8::1", ""}, {"2001:db8::2", ""}, {"2001:db8::3", "server.max_connections_per_address"},
		{"192.0.2.2", ""}, {"192.0.2.3", "server.max_connections"},
	} {
		admitted, beyond := c.admit(from{nil, step.ip})
		if beyond != step.beyond || (admitted == nil) != (beyond != "") {
			t.Errorf("%s: %v, %q, want %q", step.ip, admitted, beyond, step.beyond)
		}
		if admitted != nil {
			open = append(open, admitted)
		}
	}
	for _, o := range open {
		_, _ = o.Close(), o.Close()
	}
	if c.count() != 0 || len(c.from) != 0 {
		t.Errorf("%d are open, from %v", c.count(), c.from)
	}
}

// Of spare connections one that has sent nothing gives way to a new one, the oldest first; and
// when all have sent a request, the oldest.
func TestSpareConnectionsGiveWay(t *testing.T) {
	l := newSpareListener(nil)
	var clients, servers []net.Conn
	take := func() {
		server, client := net.Pipe()
		l.take(server)
		c, err := l.Accept()
		check.Must(t, err)
		clients, servers = append(clients, client), append(servers, c)
	}
	state := newSpareServer(Config{}, nil, newServer(Config{}, nil, slog.New(slog.DiscardHandler))).ConnState
	ended := func(i int) bool {
		client, server, one := clients[i], servers[i], make(chan error, 1)
		go func() { _, err := client.Read(make([]byte, 1)); one <- err }()
		go func() { _, _ = server.Write([]byte("x")) }()
		return errors.Is(<-one, io.EOF)
	}
	for range spares {
		take()
	}
	state(servers[0], http.StateActive)
	take()
	if ended(0) || !ended(1) || ended(2) {
		t.Error("the second should have given way")
	}
	for _, s := range servers {
		state(s, http.StateActive)
	}
	take()
	if !ended(0) || ended(3) || ended(len(clients)-1) {
		t.Error("the first should have given way")
	}
	for _, s := range servers {
		_ = s.Close()
	}
	check.Must(t, l.Close())
	if _, err := l.Accept(); err == nil || len(l.conns) != 0 {
		t.Errorf("after the close: %v, %d connections", err, len(l.conns))
	}
}

func TestInstanceAddress(t *testing.T) {
	listens := func(text string) net.Addr {
		return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))
	}
	var cfg Config
	cfg.Snowflake.Advertise = "10.9.9.9:80"
	if got, err := instanceAddress(cfg, listens("10.0.0.5:8080")); got != "10.9.9.9:80" || err != nil {
		t.Errorf("configured: %s, %v", got, err)
	}
	cfg.Snowflake.Advertise = ""
	if got, err := instanceAddress(cfg, listens("10.0.0.5:8080")); got != "10.0.0.5:8080" || err != nil {
		t.Errorf("of the listener: %s, %v", got, err)
	}
	if got, err := instanceAddress(cfg, listens("[::ffff:10.0.0.5]:8080")); got != "10.0.0.5:8080" || err != nil {
		t.Errorf("of the listener, mapped: %s, %v", got, err)
	}
	for _, all := range []string{"0.0.0.0:8123", "[::]:8123", "127.0.0.1:8123"} {
		got, err := instanceAddress(cfg, listens(all))
		if at, parseErr := netip.ParseAddrPort(got); err != nil || parseErr != nil || at.Port() != 8123 || at.Addr().IsUnspecified() {
			t.Errorf("%s: %s, %v", all, got, err)
		}
	}
}

func TestUsableIP(t *testing.T) {
	ips := func(texts ...string) (out []netip.Addr) {
		for _, s := range texts {
			out = append(out, netip.MustParseAddr(s))
		}
		return out
	}
	for _, c := range []struct {
		name  string
		cards []card
		want  string
	}{
		{"docker0 comes first", []card{{"lo", ips("127.0.0.1", "::1")}, {"docker0", ips("172.17.0.1")}, {"br-5f", ips("172.18.0.1")}, {"eth0", ips("10.0.0.5")}}, "10.0.0.5"},
		{"IPv4 before IPv6", []card{{"eth0", ips("2001:db8::1")}, {"eth1", ips("192.168.1.4")}}, "192.168.1.4"},
		{"IPv6 only", []card{{"lo", ips("::1")}, {"eth0", ips("fe80::1%eth0", "2001:db8::1")}}, "2001:db8::1"},
		{"link-local is no identity", []card{{"eth0", ips("169.254.1.1")}, {"wlan0", ips("10.1.1.1")}}, "10.1.1.1"},
		{"nothing but the loopback", []card{{"lo", ips("127.0.0.1")}}, "127.0.0.1"},
		{"no card at all", nil, "127.0.0.1"},
	} {
		if got := usableIP(c.cards).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
