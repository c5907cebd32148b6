package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/repository/workerfile"
	"shardid/repository/zkstore"
	"shardid/service/clockid"
	"shardid/service/monitor"
	"shardid/service/worker"
)

// workerMySQL is the snowflake.worker.mode whose registry is the database, MySQL or not.
const workerMySQL = "mysql"

// registryLease is how long the ensemble keeps the session of an instance that says nothing.
const registryLease = 10 * time.Second

// snowflakeLayout is the layout of the configuration.
func snowflakeLayout(cfg Config) idgen.Layout {
	s := cfg.Snowflake
	return model.SnowflakeLayout(s.EpochMS, uint(s.WorkerBits), uint(s.SeqBits))
}

// registryLayout has the worker IDs that the registry gives out, from 0 on; IDs have them within
// those of the region.
func registryLayout(cfg Config) idgen.Layout {
	l := snowflakeLayout(cfg)
	l.WorkerBits -= region(cfg).Bits
	return l
}

// regional is a generator that takes up the worker IDs of a region, the first of which is from.
type regional struct {
	*idgen.Generator
	from int
}

func (r regional) Begin(workerID int, after int64) { r.Generator.Begin(r.from+workerID, after) }

// databaseWorkers is the registry of the snowflakes' worker IDs in the database.
func databaseWorkers(db *sqlstore.Store, cfg Config) *sqlstore.Workers {
	return db.Workers(cfg.Snowflake.MaxClockOffset, int(registryLayout(cfg).Workers()))
}

// openZooKeeper prepares the ensemble when worker IDs come from it and the snowflake mode is on; nil and no probe
// otherwise.
func (a *App) openZooKeeper() (*zkstore.Store, []monitor.Probe, error) {
	s := a.cfg.Snowflake
	if !s.Enabled || !strings.HasPrefix(s.Worker.Mode, "zk") {
		return nil, nil, nil
	}
	store, err := zkstore.New(zkstore.Options{
		Mode: s.Worker.Mode, Addrs: a.cfg.ZooKeeper.Addrs, Name: s.Name,
		SessionTimeout: registryLease, ReclaimMargin: s.MaxClockOffset,
		Workers: int(registryLayout(a.cfg).Workers()), Log: a.log, Observe: a.stores.Observe,
	})
	if err != nil {
		return nil, nil, err
	}
	a.onStop("zookeeper", func(context.Context) error { return store.Close() })
	return store, []monitor.Probe{{Name: conditionZooKeeper, Check: store.Check}}, nil
}

// wireSnowflake builds the generator and the keeper of its worker ID; the keeper is
// started once the address is known.
func (a *App) wireSnowflake(zoo *zkstore.Store) (err error) {
	s := a.cfg.Snowflake
	if !s.Enabled {
		return nil
	}
	now := idgen.SystemClock() // one for both, as they compare its readings
	layout := snowflakeLayout(a.cfg)
	generator, err := idgen.New(idgen.Snowflakes(layout, now))
	if err != nil {
		return err
	}
	from, _ := region(a.cfg).Workers(layout.WorkerBits)
	opts := worker.Options{
		Generator: regional{generator, int(from)}, Layout: a.snowflakeLayoutKnown, Claim: a.db.ClaimWorker, Now: now,
	}
	if a.keeper, err = a.newKeeper(opts, zoo); err != nil {
		return err
	}
	a.snowflake = clockid.NewSnowflakes(generator, a.cfg.Server.RequestTimeout, a.keeper, a.registry)
	a.issuer.Snowflake = a.snowflake
	ready := func() error {
		if err := generator.Ready(); errors.Is(err, idgen.ErrTimeExhausted) {
			return err
		}
		return a.keeper.Ready()
	}
	a.addMode(model.ModeSnowflake, ready, func(listens net.Addr) {
		a.keeper.Start(instanceAddress(a.cfg, listens), rand.Text())
	}, a.keeper.Stop)
	return nil
}

// newKeeper completes the options with what snowflake.worker says: the registry, and the
// worker file where its kind has one.
func (a *App) newKeeper(opts worker.Options, zoo *zkstore.Store) (*worker.Keeper, error) {
	s, layout := a.cfg.Snowflake, registryLayout(a.cfg)
	opts.Condition, opts.Mode, opts.Reporter, opts.Log = worker.Condition, s.Worker.Mode, a.monitor, a.log
	opts.Expiry, opts.TTL, opts.MaxClockOffset = s.Worker.Expiry, registryLease, s.MaxClockOffset
	open := workerfile.Open
	switch s.Worker.Mode {
	case workerMySQL:
		opts.Mode = a.cfg.Database.Driver // the embedded database is not MySQL
		opts.Registry = databaseWorkers(a.db, a.cfg)
	case workerfile.ModeOrdinal:
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		ordinal := workerfile.Ordinal(host, int(layout.Workers()))
		opts.Registry = ordinal
		open = ordinal.Open
	case workerfile.ModeLocal:
		opts.Registry = workerfile.Local(s.Worker.LocalMap)
	default:
		opts.Registry = zoo
	}
	if s.Worker.Mode != zkstore.ModeEphemeral {
		opts.OpenFile = func(address string) (worker.File, error) {
			_, port, _ := net.SplitHostPort(address) // instanceAddress and the configuration have checked it
			dir := filepath.Join(a.cfg.DataDir, s.Name, port)
			return open(workerfile.Options{Dir: dir, Registry: s.Worker.Mode, Address: address, Layout: layout})
		}
	}
	return worker.New(opts), nil
}

// instanceAddress is this instance's identity among the others, ip:port: the configured one; else the address that it
// listens on or, when it listens on all or on the loopback, that from which this machine asks others.
func instanceAddress(cfg Config, listens net.Addr) string {
	at, err := netip.ParseAddrPort(listens.String())
	if cfg.Snowflake.Advertise != "" || err != nil { // a listener of TCP has such an address
		return cfg.Snowflake.Advertise
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.IsUnspecified() || ip.IsLoopback() {
		ip = ownIP()
	}
	return netip.AddrPortFrom(ip, at.Port()).String()
}

// ownIP is the address from which this machine asks others: of IPv4 if it has one, as in Leaf's tables. The system's
// routes say which, and nothing is sent. Without a route it is the first address of the machine that is for others, and
// without one the loopback's, which is an identity on one machine only.
func ownIP() netip.Addr {
	for _, documentation := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "udp", documentation)
		if err != nil {
			continue
		}
		at, err := netip.ParseAddrPort(conn.LocalAddr().String())
		if _ = conn.Close(); err == nil { // nothing was written
			return at.Addr().Unmap().WithZone("")
		}
	}
	all, _ := net.InterfaceAddrs()
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Unmap().IsGlobalUnicast() {
			return p.Addr().Unmap()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
