package redisstore

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"shardid/model"
)

// Modes of Options.
const (
	ModeSingle   = "single"
	ModeSentinel = "sentinel"
	ModeCluster  = "cluster"
)

// Options says where Redis is and how to talk to it.
type Options struct {
	Mode       string   // ModeSingle, ModeSentinel or ModeCluster
	Addrs      []string // host:port of the server, the sentinels, or some cluster nodes
	MasterName string   // sentinel only: the name the sentinels know the master by

	Username, Password                 string
	SentinelUsername, SentinelPassword string

	DB  int         // database number; a cluster has only 0
	TLS *tls.Config // nil: plain TCP

	// PoolSize is the number of connections per server; 0 means 10 per CPU.
	PoolSize int
	// Timeouts of one attempt; 0 means 1 s. A context may end it earlier.
	DialTimeout, ReadTimeout, WriteTimeout time.Duration
	// Observe watches the calls; nil: nothing does.
	Observe model.Observe
}

const (
	defaultTimeout = time.Second
	serverRetries  = 1 // attempts after the first at one server, which go-redis does not count in a cluster
	clusterHops    = 2 // redirects and attempts after the first in a cluster
	// topologyAge is how old the slot map of a cluster client may become: a master that has taken over from one
	// that is gone is found by it. A redirect has the client look again at once.
	topologyAge = time.Second
)

// connect makes a client. It may repeat a command, see the package documentation.
func (o Options) connect() redis.UniversalClient {
	u := o.universal()
	u.PoolSize = o.PoolSize
	u.MinRetryBackoff, u.MaxRetryBackoff = 8*time.Millisecond, 64*time.Millisecond
	switch o.Mode {
	case ModeCluster:
		u.MaxRetries, u.MaxRedirects = -1, clusterHops
		c := u.Cluster()
		c.ClusterStateReloadInterval = topologyAge
		return redis.NewClusterClient(c)
	case ModeSentinel:
		u.MaxRetries = serverRetries
		return redis.NewFailoverClient(u.Failover())
	default:
		u.MaxRetries = serverRetries
		return redis.NewClient(u.Simple())
	}
}

func (o Options) universal() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: append([]string(nil), o.Addrs...), MasterName: o.MasterName, DB: o.DB, TLSConfig: o.TLS,
		Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		DialTimeout:              cmp.Or(o.DialTimeout, defaultTimeout),
		ReadTimeout:              cmp.Or(o.ReadTimeout, defaultTimeout),
		WriteTimeout:             cmp.Or(o.WriteTimeout, defaultTimeout),
		ContextTimeoutEnabled:    true,
		DialerRetries:            1, // a retry belongs to the caller, who has a deadline
		Protocol:                 2, // no server pushes to look for before each command
		DisableIdentity:          true,
		PipelinePoolSize:         -1, // a second pool would double the connections
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// The errors of ParseURL. They follow the name of the setting in a message, and show nothing of the URL, which may
// hold a password.
var (
	errURL = wrongURL("is not where a Redis is", "write redis://USER:PASSWORD@HOST:6379/0, rediss:// for TLS, "+
		"redis://HOST:26379,HOST:26379?master_name=NAME for sentinels, redis://HOST:6379,HOST:6379 for nodes of a "+
		"cluster; in user and password, write % and two hex digits for signs such as / and #")
	errPort      = wrongURL("has another port", "write a port in 1…65535")
	errParameter = wrongURL("has a parameter that is not known or does not fit", "use master_name, "+
		"sentinel_username, sentinel_password, cluster, addr, pool_size, dial_timeout, read_timeout, write_timeout "+
		"and, with rediss://, skip_verify")
	errClusterDB = wrongURL("has a database number, and a cluster has only database 0", "remove the database number, "+
		"or name one address")
	errNoSentinel = wrongURL("has a sentinel_ parameter but no master_name", "add the name by which the sentinels "+
		"know the master, master_name")
)

func wrongURL(what string, do model.Remedy) error { return fmt.Errorf("%w: %s", do, what) }

// ParseURL gives the options of a URL. Beside what go-redis takes for one server, it may have several addresses, with
// commas or in parameters addr: those of sentinels with master_name, and else of nodes of a cluster, of which
// cluster=true tells where one address is enough. host:port alone is a URL, too.
func ParseURL(text string) (Options, error) {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	// As net/url takes one address only, the others are taken out first.
	const form = `^(rediss?://(?:[^/?#]*@)?)([^/?#@,]+)((?:,[^/?#@,]+)*)([/?].*)?$`
	parts := regexp.MustCompile(form).FindStringSubmatch(text)
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
	case err != nil || cluster != "" && cluster != "true" && cluster != "false" ||
		min(single.DB, single.PoolSize) < 0 ||
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
		at := cmp.Or(host.Port(), port, "6379")
		if n, err := strconv.ParseUint(at, 10, 16); err != nil || n == 0 {
			return Options{}, errPort
		}
		o.Addrs = append(o.Addrs, net.JoinHostPort(host.Hostname(), at))
	}
	o.Username, o.Password, o.DB, o.PoolSize = single.Username, single.Password, single.DB, single.PoolSize
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = single.DialTimeout, single.ReadTimeout, single.WriteTimeout
	if o.TLS = single.TLSConfig; o.TLS != nil {
		o.TLS.ServerName = "" // each server shows a certificate of its own name
	}
	return o, nil
}
