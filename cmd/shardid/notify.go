package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
)

// What the service manager is told, as sd_notify(3) has it.
const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
)

// notify tells systemd, for a unit of Type=notify, how far the process is. Without
// systemd it does nothing. That it could not be told stops nobody: systemd then
// ends the start by its own timeout, and the log says why.
func notify(ctx context.Context, log *slog.Logger, state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	if err := send(ctx, socket, state); err != nil {
		log.Warn("systemd could not be told", "state", state, "error", err)
	}
}

// send writes one datagram; a leading "@" is an abstract socket, for Go as for
// systemd.
func send(ctx context.Context, socket, state string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixgram", socket)
	if err != nil {
		return fmt.Errorf("connect to NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("write to NOTIFY_SOCKET: %w", err)
	}
	return nil
}
