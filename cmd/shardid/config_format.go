package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shardid/service/access"

	"github.com/robfig/cron/v3"
)

// The check functions answer what is wrong with a text and what to write
// instead, or "" for a good one.

func checkListen(text string) string {
	if _, _, ok := splitAddr(text); !ok {
		return "is not host:port: write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port from 0 to 65535"
	}
	return ""
}

func checkHostPort(text string) string {
	if host, port, ok := splitAddr(text); !ok || host == "" || port == 0 {
		return "is not host:port: write an address such as 10.0.0.5:6379, with a port from 1 to 65535"
	}
	return ""
}

func splitAddr(text string) (host string, port uint64, ok bool) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " \t\r\n/@\"',;=") {
		return "", 0, false
	}
	port, err = strconv.ParseUint(digits, 10, 16)
	return host, port, err == nil
}

func checkIPPort(text string) string {
	if a, err := netip.ParseAddrPort(text); err != nil || a.Port() == 0 {
		return "is not ip:port: write an address such as 10.0.0.5:8080, with a port from 1 to 65535"
	}
	return ""
}

// checkName keeps the name usable as one folder and one ZooKeeper node.
func checkName(text string) string {
	rest := strings.TrimLeftFunc(text, func(r rune) bool {
		return isAlnum(r) || strings.ContainsRune("._-", r)
	})
	if rest != "" || len(text) > 128 || !isAlnum(rune(text[0])) {
		return "is not a name: use 1 to 128 of letters, digits, '.', '_' and '-', a letter or digit first"
	}
	return ""
}

func checkZone(text string) string {
	if _, err := time.LoadLocation(text); err != nil {
		return "is not a time zone: write a name such as Asia/Shanghai, UTC, or Local for the machine's"
	}
	return ""
}

// checkToken keeps out what an Authorization header cannot carry, such as the line end
// of a file that the token was read from, and what can be guessed.
func checkToken(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "holds a space, a line end or a character beyond ASCII: use visible ASCII only"
	}
	if n := len(text); n < access.MinToken || n > access.MaxToken {
		return fmt.Sprintf("has %d bytes: choose %d to %d, best from shardid token new or openssl rand -hex 32", n, access.MinToken, access.MaxToken)
	}
	return ""
}

// checkURL keeps out what a receiver of spans cannot have: a user and password would
// be in messages about it.
func checkURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery+u.Fragment != "":
		return "is not a URL: write it like http://127.0.0.1:4318"
	case u.User != nil:
		return "holds a user: give the password by OTEL_EXPORTER_OTLP_HEADERS"
	}
	return ""
}

// cronParser reads six fields, seconds first, and descriptors such as @hourly.
func cronParser() cron.Parser {
	return cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
}

func checkCron(text string) string {
	const advice = "is not a schedule: write six fields (second minute hour day month weekday) such as 0 */2 * * * *"
	// cron v3.0.1 panics on a time zone with no schedule behind it.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		if zone, rest, _ := strings.Cut(text, " "); zone == text || strings.TrimSpace(rest) == "" {
			return advice
		}
	}
	schedule, err := cronParser().Parse(text)
	if err != nil {
		return advice
	}
	if schedule.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return "never comes: choose a day that exists in its month"
	}
	return ""
}
