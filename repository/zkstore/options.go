package zkstore

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// Modes of Options, as in snowflake.worker.mode.
const (
	ModeForever   = "zk"
	ModeRecycle   = "zk_recycle"
	ModeEphemeral = "zk_ephemeral"
)

// Options says where ZooKeeper is and which worker IDs to take there.
type Options struct {
	Mode  string   // ModeForever, ModeRecycle or ModeEphemeral
	Addrs []string // host:port of the servers; names are looked up at each connect
	// Name is the namespace of the worker IDs, Leaf's leaf.name: letters, digits,
	// '.', '_', '-'.
	Name string
	// SessionTimeout is how long ZooKeeper keeps a session that it hears nothing
	// of; 0 means 10 s. The servers may choose another within their own bounds.
	// An instance that crashed blocks its worker ID that long in ModeEphemeral.
	SessionTimeout time.Duration
	// ReclaimMargin is how long after its end a lease is left alone by owners of
	// other addresses in ModeRecycle; 0 means 5 s. It covers the difference
	// between the clocks of two servers, one of which leads after the other.
	ReclaimMargin time.Duration
	// Log gets what the client library says, at level debug; nil: nobody.
	Log *slog.Logger
}

const (
	defaultSession = 10 * time.Second
	maxSession     = time.Hour
	defaultMargin  = 5 * time.Second
)

// validate refuses, with model.ErrInvalidArgument, what cannot work.
func (o Options) validate() error {
	if err := errors.Join(o.validateMode(), o.validateName(), o.validateAddrs(), o.validateTimes()); err != nil {
		return fmt.Errorf("%w: %w", model.ErrInvalidArgument, err)
	}
	return nil
}

func (o Options) validateMode() error {
	switch o.Mode {
	case ModeForever, ModeRecycle, ModeEphemeral:
		return nil
	default:
		return fmt.Errorf("snowflake.worker.mode %q is neither zk, zk_recycle nor zk_ephemeral", o.Mode)
	}
}

// validateName keeps names out that would be another path.
func (o Options) validateName() error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	if strings.Trim(o.Name, ".") == "" || strings.Trim(o.Name, allowed) != "" {
		return fmt.Errorf("snowflake.name %q is not made of letters, digits, '.', '_' and '-'", o.Name)
	}
	return nil
}

func (o Options) validateAddrs() error {
	if len(o.Addrs) == 0 {
		return errors.New("zookeeper.addrs is empty: give at least one host:port")
	}
	for i, addr := range o.Addrs {
		host, port, err := net.SplitHostPort(addr)
		n, portErr := strconv.ParseUint(port, 10, 16)
		if err != nil || portErr != nil || n == 0 || host == "" {
			return fmt.Errorf("zookeeper.addrs[%d]: %q is not host:port", i, addr)
		}
	}
	return nil
}

func (o Options) validateTimes() error {
	switch {
	case o.SessionTimeout < 0 || o.SessionTimeout > maxSession || o.SessionTimeout%time.Millisecond != 0:
		return fmt.Errorf("the session timeout %v is not in whole milliseconds up to %v", o.SessionTimeout, maxSession)
	case o.ReclaimMargin < 0:
		return errors.New("the reclaim margin cannot be negative")
	default:
		return nil
	}
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.SessionTimeout == 0 {
		o.SessionTimeout = defaultSession
	}
	if o.ReclaimMargin == 0 {
		o.ReclaimMargin = defaultMargin
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
