package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/sqlstore"
	"shardid/service/access"
	"shardid/service/clockid"
	"shardid/service/guard"
	"shardid/service/httpapi"
	"shardid/service/issuer"
	"shardid/service/monitor"
	"shardid/service/observe"
	"shardid/service/queue"
	"shardid/service/resp"
	"shardid/service/segment"
	"shardid/service/sequence"
	"shardid/service/uid"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
)

// App is the running service. NewApp validates, Start runs, Stop tears down what Start built, in reverse.
type App struct {
	cfg   Config
	log   *slog.Logger
	level *httpapi.LogLevel // of log
	services
	watching
	fronts
	changes int64     // of the database server, that the queue knows of; of the database's probe
	checked time.Time // when the tables of the database were looked at last; of the same probe

	failed   chan error // what the service cannot continue after
	teardown []step     // what Stop does, the last first
}

// services are the modes with what they share. A mode that is disabled is nil.
type services struct {
	db        *sqlstore.Store
	redis     *redisstore.Store // nil for lists in the process
	queue     *queue.Service
	segment   *segment.Service
	sequence  *sequence.Service
	snowflake *clockid.Service
	keeper    *worker.Keeper // of the snowflakes' worker ID
	uid       *uid.Service
	modes     []mode // those that are enabled, the queue first
	// forgetSpace drops what is kept of a space outside the database; nil without sequences.
	forgetSpace func(context.Context, model.Space) error
}

// watching is what tells how the service is doing.
type watching struct {
	registry *prometheus.Registry // of the metrics
	tracer   *observe.Tracer      // nil without tracing
	stores   *observe.Stores      // watches their calls
	monitor  *monitor.Monitor
	watch    *settingsWatch // of the stores' settings
	replicas *monitor.Replicas
}

// fronts are the servers of callers.
type fronts struct {
	issuer       *issuer.Issuer // of the modes
	access       *access.Guard
	certificates *access.Certificates // nil without TLS
	guard        *guard.Guard         // of the connections of both servers
	api          *httpapi.API
	server       *http.Server
	url          string // of the console, once the listener is open
}

// step is one named part of the teardown.
type step struct {
	name string
	run  func(context.Context) error
}

// NewApp builds the service and starts nothing but the sending of spans; stores may be
// away. level is that of log.
func NewApp(cfg Config, log *slog.Logger, level *httpapi.LogLevel) (*App, error) {
	a := &App{cfg: cfg, log: log, level: level, failed: make(chan error, 3),
		watching: watching{registry: prometheus.NewRegistry()}}
	a.guard = guard.New(limits(cfg), log, a.registry)
	if err := a.wire(); err != nil {
		return nil, errors.Join(err, a.Stop(0))
	}
	a.server = newServer(cfg, a.api, a.guard.ConnState, log)
	return a, nil
}

const (
	// headTimeout is how long a connection may take until the head of its first request has come, or the token that a
	// Redis client needs; and then until the rest of a request that has begun has come.
	headTimeout = 5 * time.Second
	// idleTimeout is how long a connection is kept between two requests.
	idleTimeout = time.Minute
	// slack is for what should take no time: to read a request, to write an answer.
	slack = 10 * time.Second
)

// requestTimeout is for a whole request and its answer. Its end would cancel one that waits.
func requestTimeout(cfg Config) time.Duration {
	return headTimeout + cfg.Server.RequestTimeout + slack
}

// limits bound the connections of both front ends. By default there are three quarters of the descriptors, as the rest
// is for stores and files, and at most what takes 300 MB of memory when all are idle, and most of GOMEMLIMIT when each
// has sent a body of the greatest length.
func limits(cfg Config) guard.Limits {
	l := guard.Limits{Most: cfg.Server.MaxConnections, New: headTimeout, Idle: idleTimeout, Active: requestTimeout(cfg)}
	if l.Most == 0 {
		const (
			idle   = 16384
			asking = 56 << 10 // bytes
			least  = 64
		)
		l.Most = int(max(least, min(idle, debug.SetMemoryLimit(-1)/asking)))
		var descriptors syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &descriptors) == nil {
			l.Most = int(min(descriptors.Cur/4*3, uint64(l.Most)))
		}
	}
	return l
}

// newServer makes the server of the HTTP front end. The guard closes what is slow. With TLS comes HTTP/2, of whose
// streams a connection knows nothing, so the server has timeouts there; they cost little beside TLS.
func newServer(cfg Config, h http.Handler, state func(net.Conn, http.ConnState), log *slog.Logger) *http.Server {
	s := &http.Server{ //nolint:gosec // the guard has the timeouts
		Handler:        h,
		ConnState:      state,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if cfg.Server.TLSCertFile != "" {
		s.ReadHeaderTimeout, s.IdleTimeout = headTimeout, idleTimeout
		s.ReadTimeout, s.WriteTimeout = requestTimeout(cfg), requestTimeout(cfg)
		s.Handler = boundStreams(h)
		s.HTTP2 = &http.HTTP2Config{
			MaxConcurrentStreams: 100, // the least that RFC 9113 recommends
			WriteByteTimeout:     slack,
		}
	}
	return s
}

// maxStreams is how many requests of HTTP/2 there may be: with their connections they take 100 MB of memory.
const maxStreams = 4096

// boundStreams refuses further streams of HTTP/2. One ends when its client has taken the answer, or at the write
// timeout: a client that takes none does not hold more by having more connections.
func boundStreams(h http.Handler) http.Handler {
	var open atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			h.ServeHTTP(w, r)
			return
		}
		defer open.Add(-1)
		if open.Add(1) > maxStreams {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
		_ = http.NewResponseController(w).Flush() // waits for the client; it fails when that has gone
	})
}

// Start listens and serves. With demo it provisions app 1 in an embedded
// database without apps.
func (a *App) Start(ctx context.Context, demo bool) error {
	listener, err := listen(ctx, "server.addr", a.cfg.Server.Addr)
	if err != nil {
		return err
	}
	a.onStop("http", a.stopHTTP)
	err = ownSchema(ctx, a.cfg, a.db)
	if err == nil {
		err = a.checkLayouts(ctx)
	}
	if err == nil && demo {
		err = provisionDemo(ctx, a.cfg, a.db, a.log)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	a.url = consoleURL(a.cfg, listener.Addr())
	a.serveCommands() // before anything else makes files, as it sets the mask of their permissions for an instant
	a.monitor.Start()
	a.access.Start()
	if a.certificates != nil {
		a.certificates.Start()
	}
	a.watch.Start()
	for _, m := range a.modes {
		m.start(listener.Addr())
	}
	if err := a.startRESP(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	a.replicas.Start()
	a.serveOn(listener, "HTTP", a.server.Serve)
	a.log.Info("listening", "addr", listener.Addr().String(), "version", versionString(),
		"try", fmt.Sprintf("curl '%s://%s/v1/queue/1/ids?gatePass=alice'", a.cfg.Server.Scheme(), listener.Addr()))
	return nil
}

// listen takes the address of a setting.
func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %w", model.Do("end the other program that listens there, or choose another %s",
			setting), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", model.Do("choose another %s", setting), err)
	}
	return listener, nil
}

// startRESP serves Redis clients when an address is configured.
func (a *App) startRESP(ctx context.Context) error {
	c := a.cfg
	if c.RESP.Addr == "" {
		return nil
	}
	o := resp.Options{
		Issuer: a.issuer, Access: a.access, RequireToken: c.Server.RequireToken, Log: a.log,
		ConnState: a.guard.SetState, Version: versionString(), PublicText: a.api.PublicText,
	}
	listener, err := listen(ctx, "resp.addr", c.RESP.Addr)
	if err != nil {
		return err
	}
	server := resp.New(o)
	a.onStop("resp", func(ctx context.Context) error {
		ctx, cancel := a.drainTime(ctx)
		defer cancel()
		return server.Stop(ctx)
	})
	a.serveOn(listener, "RESP", server.Serve)
	a.log.Info("listening for Redis clients", "addr", listener.Addr().String(),
		"try", fmt.Sprintf("redis-cli -p %d INCR queue:1:alice", listener.Addr().(*net.TCPAddr).Port))
	return nil
}

// serveOn has a front end serve what comes to a listener, within the bounds on connections and with TLS where it is
// configured, until the front end is stopped.
func (a *App) serveOn(l net.Listener, name string, serve func(net.Listener) error) {
	l = a.guard.Listen(l)
	if a.certificates != nil {
		l = tls.NewListener(l, a.certificates.Server())
	}
	go func() {
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.failed <- fmt.Errorf("serve %s: %w", name, err)
		}
	}()
}

// drainTime is how long a front end may take to answer what has come: as long as a
// request may wait, and half of what is left for the stop.
func (a *App) drainTime(ctx context.Context) (context.Context, context.CancelFunc) {
	last, _ := ctx.Deadline() // see Stop
	return context.WithTimeout(ctx, min(a.cfg.Server.RequestTimeout+time.Second, time.Until(last)/2))
}

// stopHTTP lets the requests in flight end, for as long as one may wait. A client that
// does not end its own is cut then: the steps that follow have half of the time.
func (a *App) stopHTTP(ctx context.Context) error {
	ctx, cancel := a.drainTime(ctx)
	defer cancel()
	err := a.server.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	a.log.Warn("clients did not end their requests: their connections are closed", "connections", a.guard.Open())
	return a.server.Close()
}

func (a *App) onStop(name string, run func(context.Context) error) {
	a.teardown = append(a.teardown, step{name, run})
}

// Stop says not ready, waits for delay so that load balancers notice, lets the
// requests in flight end, and stops the rest. It is to be called once and is
// bounded by server.shutdown_timeout.
func (a *App) Stop(delay time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.Server.ShutdownTimeout)
	defer cancel()
	if a.monitor != nil {
		a.monitor.Draining.Store(true)
	}
	if delay > 0 {
		a.log.Info("draining: /readyz answers not ready", "for", delay.String())
		time.Sleep(delay)
	}
	var errs []error
	for i := len(a.teardown) - 1; i >= 0; i-- {
		if err := a.teardown[i].run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", a.teardown[i].name, err))
		}
	}
	return errors.Join(errs...)
}
