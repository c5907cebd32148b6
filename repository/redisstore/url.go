package redisstore

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The errors of ParseURL. They follow the name of the setting in a message, and show nothing of the URL, which may
// hold a password.
var (
	errURL = errors.New("is not where a Redis is: write redis://USER:PASSWORD@HOST:6379/0, rediss:// for TLS, " +
		"redis://HOST:26379,HOST:26379?master_name=NAME for sentinels, redis://HOST:6379,HOST:6379 for nodes of a " +
		"cluster; " +
		"in user and password, write % and two hex digits for signs such as / and #")
	errParameter = errors.New("has a parameter that is not known or does not fit: there are master_name, " +
		"sentinel_username, " +
		"sentinel_password, cluster, addr, pool_size, dial_timeout, read_timeout, write_timeout and, with " +
		"rediss://, skip_verify")
	errClusterDB = errors.New("has a database number, and a cluster has only database 0: remove the number, or " +
		"name one address")
	errNoSentinel = errors.New("has a sentinel_ parameter but no master_name: add the name by which the sentinels " +
		"know the master")
)

// ParseURL gives the options of a URL. Beside what go-redis takes for one server, it may have several addresses, with
// commas or in parameters addr: those of sentinels with master_name, and else of nodes of a cluster, of which
// cluster=true tells where one address is enough. host:port alone is a URL, too.
func ParseURL(text string) (Options, error) {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	// As net/url takes one address only, the others are taken out first.
	parts := regexp.MustCompile(`^(rediss?://(?:[^/?#]*@)?)([^/?#@,]+)((?:,[^/?#@,]+)*)([/?].*)?$`).FindStringSubmatch(text)
	if parts == nil {
		return Options{}, errURL
	}
	u, err := url.Parse(parts[1] + parts[2] + parts[4])
	if err != nil || u.Hostname() == "" {
		return Options{}, errURL
	}
	q := u.Query()
	o := Options{
		Mode: ModeSingle, MasterName: q.Get("master_name"),
		SentinelUsername: q.Get("sentinel_username"), SentinelPassword: q.Get("sentinel_password"),
	}
	others, cluster := append(strings.Split(parts[3], ",")[1:], q["addr"]...), q.Get("cluster")
	for _, own := range []string{"master_name", "sentinel_username", "sentinel_password", "cluster", "addr"} {
		q.Del(own)
	}
	taken := []string{"db", "pool_size", "dial_timeout", "read_timeout", "write_timeout", "skip_verify"}
	for name := range q { // go-redis knows more, of which nothing would come
		if !slices.Contains(taken, name) {
			return Options{}, errParameter
		}
	}
	u.RawQuery = q.Encode()
	single, err := redis.ParseURL(u.String())
	switch {
	case err != nil || cluster != "" && cluster != "true" && cluster != "false" || single.DB < 0 ||
		single.PoolSize < 0 ||
		min(single.DialTimeout, single.ReadTimeout, single.WriteTimeout) < 0:
		return Options{}, errParameter
	case o.MasterName != "":
		o.Mode = ModeSentinel
	case o.SentinelUsername+o.SentinelPassword != "":
		return Options{}, errNoSentinel
	case cluster == "true" || len(others) > 0:
		o.Mode = ModeCluster
	}
	if o.Mode == ModeCluster && single.DB != 0 {
		return Options{}, errClusterDB
	}
	port := map[string]string{ModeSentinel: "26379"}[o.Mode]
	for _, addr := range append([]string{u.Host}, others...) {
		host, err := url.Parse("redis://" + addr)
		if err != nil || host.Hostname() == "" || host.Host != addr {
			return Options{}, errURL
		}
		o.Addrs = append(o.Addrs, net.JoinHostPort(host.Hostname(), cmp.Or(host.Port(), port, "6379")))
	}
	o.Username, o.Password, o.DB, o.PoolSize = single.Username, single.Password, single.DB, single.PoolSize
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = single.DialTimeout, single.ReadTimeout, single.WriteTimeout
	if o.TLS = single.TLSConfig; o.TLS != nil {
		o.TLS.ServerName = "" // each server shows a certificate of its own name
	}
	return o, nil
}
