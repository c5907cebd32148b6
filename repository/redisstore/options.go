package redisstore

import (
	"cmp"
	"crypto/tls"
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
	// topologyAge bounds how long a cluster client trusts its slot map when no
	// error tells it to look again.
	topologyAge = 10 * time.Second
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
