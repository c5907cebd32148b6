package main

import (
	"net"
	"net/netip"
	"testing"
)

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
