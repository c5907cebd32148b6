// Package resp is the front end for Redis clients: it looks like a Redis whose lists never
// end. docs/api.md has its commands and keys.
//
// Only commands that Redis clients treat as writes issue IDs, so that no replica read,
// client-side cache or automatic GET takes any. An answer is exactly the IDs that were
// asked for, or an error; a connection that ends before its answer has been written has
// lost IDs, and repeats none.
package resp

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"shardid/service/access"
	"shardid/service/background"
	"shardid/service/issuer"
)

// Options of a Server. Issuer, Log and Version are required.
type Options struct {
	Issuer *issuer.Issuer
	// Access knows the tokens; it is required with RequireToken, which closes the
	// commands that issue IDs to connections without AUTH.
	Access       *access.Guard
	RequireToken bool
	// ConnState is told when a connection waits for a command and when one has come, as http.Server tells
	// it. A connection is new where a token is required and has not come, and while the rest of a command is waited
	// for. nil for none.
	ConnState func(net.Conn, http.ConnState)
	Log       *slog.Logger
	Version   string // of shardid, for INFO and HELLO
	// PublicText is an error as clients may see it; nil shows all of it.
	PublicText func(error) string
}

// Server serves RESP2 and RESP3. Make one with New. Safe for concurrent use.
type Server struct {
	opts     Options
	base     context.Context // of every command; Stop ends it at its deadline
	cancel   context.CancelFunc
	draining atomic.Bool
	nextID   atomic.Int64
	queued   atomic.Int64 // bytes of commands after MULTI, of all clients
	faults   background.RateLimitedLog
	handlers sync.WaitGroup
	scratch  sync.Pool // of *scratch
	large    sync.Pool // of *scratch that have grown in the turn of a large batch
	begun    time.Time
	commands map[string]command

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
}

// scratch is what a connection needs while it has something to do.
type scratch struct {
	ids      []int64
	out      []byte
	gathered gathered
	ended    time.Duration // when the last command for IDs did, since the server's begun; 0 before
}

// New makes a server that Serve starts.
func New(opts Options) *Server {
	s := &Server{opts: opts, begun: time.Now(), commands: newCommands(), conns: map[*conn]struct{}{},
		faults: background.RateLimitedLog{Logger: opts.Log}}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.scratch.New = func() any { return new(scratch) }
	s.large.New = s.scratch.New
	if s.opts.PublicText == nil {
		s.opts.PublicText = issuer.Message
	}
	return s
}

// Serve takes connections until Stop, and ends with http.ErrServerClosed then. Whoever made the listener
// bounds how many there are and, by Options.ConnState, how long one may be new, idle or active.
func (s *Server) Serve(listener net.Listener) error {
	s.mu.Lock()
	s.listener = listener
	if s.draining.Load() { // Stop came first, and saw no listener
		_ = listener.Close()
	}
	s.mu.Unlock()
	for {
		inner, err := listener.Accept()
		switch {
		case err == nil:
			s.begin(inner)
		case s.draining.Load():
			return http.ErrServerClosed
		default:
			return err
		}
	}
}

// begin serves a connection, unless Stop came first.
func (s *Server) begin(inner net.Conn) {
	c := &conn{Conn: inner, server: s, id: s.nextID.Add(1)}
	c.in.from, c.in.beforeRead = inner, c.beforeRead
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		_ = inner.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.handlers.Go(func() {
		defer s.end(c)
		c.serve()
	})
}

func (s *Server) end(c *conn) {
	if fault := recover(); fault != nil {
		s.opts.Issuer.Traffic.Fault()
		s.opts.Log.Error("a RESP command panicked", "panic", fault, "stack", string(debug.Stack()))
	}
	_ = c.Close()
	c.endTransaction()
	c.release()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Stop takes no more connections and answers the commands that have come. A connection is
// closed once it waits for the next one, and at the end of ctx in any case.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	for c := range s.conns {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // wakes those that wait
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.handlers.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.cancel()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		<-done
	}
	s.cancel()
	return err
}
