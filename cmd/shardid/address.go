package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// instanceAddress is this instance's identity among the others, ip:port: the
// configured one; else the address that it listens on, or, when it listens on all
// or on the loopback, the machine's first usable one.
func instanceAddress(cfg Config, listens net.Addr) (string, error) {
	if cfg.Snowflake.Advertise != "" {
		return cfg.Snowflake.Advertise, nil
	}
	at, err := netip.ParseAddrPort(listens.String())
	if err != nil {
		return "", fmt.Errorf("read the listener's address: %w", err)
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.IsUnspecified() || ip.IsLoopback() {
		cards, err := networkCards()
		if err != nil {
			return "", err
		}
		ip = usableIP(cards)
	}
	return netip.AddrPortFrom(ip, at.Port()).String(), nil
}

// card is a network interface that is up.
type card struct {
	name string
	ips  []netip.Addr
}

// networkCards lists them with the addresses that can be read.
func networkCards() (cards []card, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w: set snowflake.advertise", err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of %s: %w: set snowflake.advertise", i.Name, err)
		}
		c := card{name: i.Name}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				c.ips = append(c.ips, p.Addr().Unmap())
			}
		}
		cards = append(cards, c)
	}
	return cards, nil
}

// usableIP prefers IPv4, as Leaf's tables do, and passes over the bridges of
// container engines: their address is the same on every machine. Without any other
// it is the loopback's, which is an identity on one machine only.
func usableIP(cards []card) netip.Addr {
	bridges := []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxc", "lxdbr",
		"kube", "dummy"}
	for _, is := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
		for _, c := range cards {
			if slices.ContainsFunc(bridges, func(prefix string) bool { return strings.HasPrefix(c.name, prefix) }) {
				continue
			}
			for _, ip := range c.ips {
				if is(ip) && ip.IsGlobalUnicast() {
					return ip.WithZone("")
				}
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
