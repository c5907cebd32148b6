package main

import (
	"net"
	"net/netip"
	"testing"
)

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
