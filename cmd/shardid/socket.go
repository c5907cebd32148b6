package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/httpapi"
)

// An embedded database is open in one process. While that one serves, commands on apps, tags, names, spaces and workers
// send their requests to it, through a Unix socket beside the file. Both have the same permissions, so the socket asks
// for no token.

// socketPath is where the process listens that serves with the embedded database.
func socketPath(cfg Config) string { return cfg.DatabaseDSN() + ".sock" }

// serveCommands listens on the socket until the stop. A file system may have no sockets, and a path be too long for
// one: then commands need --url.
func (a *App) serveCommands() {
	if a.cfg.Database.Driver != sqlstore.SQLite {
		return
	}
	path := socketPath(a.cfg)
	_ = os.Remove(path) // of a process that was killed: this one has the database
	mask := syscall.Umask(0o177)
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	syscall.Umask(mask)
	if err != nil {
		a.log.Warn("give commands --url while this process serves: they cannot reach it through a socket", "error", err)
		return
	}
	commands := http.NewServeMux()
	commands.Handle("/", httpapi.NewAdministration(a.admin().Resources(), a.log))
	commands.HandleFunc("GET /workers", func(w http.ResponseWriter, r *http.Request) {
		all, err := workersOf(r.Context(), a.db, a.cfg, r.FormValue("name"))
		var answer any = all
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			answer = healthReport{Message: model.Message(err)}
		}
		_ = json.NewEncoder(w).Encode(answer) // or the command has gone
	})
	server := &http.Server{Handler: commands, ReadHeaderTimeout: headTimeout}
	a.onStop("socket", func(ctx context.Context) error {
		ctx, cancel := a.drainTime(ctx)
		defer cancel()
		return server.Shutdown(ctx)
	})
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("give commands --url from now on: the socket failed", "error", err)
		}
	}()
}

// throughSocket is the way to the process that serves with the embedded database; nil while none does.
func throughSocket(ctx context.Context, cfg Config) http.RoundTripper {
	if cfg.Database.Driver != sqlstore.SQLite {
		return nil
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socketPath(cfg))
	}
	conn, err := dial(ctx, "", "")
	if err != nil {
		return nil
	}
	_ = conn.Close() // nothing was sent
	return &http.Transport{DisableKeepAlives: true, DialContext: dial}
}
