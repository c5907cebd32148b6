// Package zkstore gives worker IDs from ZooKeeper 3.5 or newer, in three modes of
// one shape:
//
//	zk            fixed for ever, in the tree of Leaf, whose Java instances may
//	              share it
//	zk_recycle    given back, or taken from a holder whose lease ran out
//	zk_ephemeral  the smallest free one, for as long as the session lasts
//
// Package workerid decides who gets which, and keeps the promise that each time inside the IDs of a
// worker belongs to one lease. Its records lie in persistent nodes. Every change is one transaction that
// names the versions it has seen, so two instances never get one worker ID, however they
// race and whatever the client library does by itself: a request whose answer was
// lost, or that is sent after its caller gave up, changes nothing that was
// changed since.
//
// Whether a lease ran out is decided by the servers' clock alone: each Acquire
// writes a node and takes the time that ZooKeeper gives it. That write also makes
// the reads after it see everything committed before.
//
// These are the nodes:
//
//	/snowflake/<name>/forever/<ip:port>-<N>          zk: worker ID N, Leaf's {"ip","port","timestamp"}
//	/snowflake/<name>/forever/<ip:port>-<N>/shardid  its record as JSON
//	/snowflake/<name>/recycle/inuse/<id>             zk_recycle: the record of its holder
//	/snowflake/<name>/recycle/notuse/<id>            the record of its last holder, unless it never had one
//	/snowflake/<name>/recycle/*/workId:<id>          of NotFound9's fork of Leaf, until the worker ID is taken
//	/snowflake/<name>/<id>                           zk_ephemeral: Leaf's data, ends with the session
//	/lock/<name>/reserved/<id>                       its record, stays
//	/lock/<name>/clock                               written for the time
//	/lock/<name>/registry                            random ID of the registry
//	/lock/<name>/since-<mode>                        written when nothing was found below the name
package zkstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// Store gives worker IDs, see the package documentation. Errors of its methods are those of
// workerid.Registry, *model.StoreError, and in ModeForever model.ErrAddressTaken. Safe for concurrent use.
type Store struct {
	workerid.Registry
	slots slots
}

// New connects to nothing. Errors: model.ErrInvalidArgument for a chroot of another address than the last.
func New(o Options) (*Store, error) {
	last := len(o.Addrs) - 1
	for _, addr := range o.Addrs[:last] {
		if strings.Contains(addr, "/") {
			return nil, fmt.Errorf("%w: write a chroot after the last address of zookeeper.addrs, and not after %s",
				model.ErrInvalidArgument, addr)
		}
	}
	server, chroot, _ := strings.Cut(o.Addrs[last], "/")
	o.Addrs = append(slices.Clone(o.Addrs[:last]), server)
	slots := newSlots(o, newLink(o), chroot)
	return &Store{workerid.NewRegistry(slots, o.ReclaimMargin), slots}, nil
}

// Close ends the session, and waits a second for that. Calls under way fail. In ModeEphemeral the worker ID is free
// then; the others keep theirs. It may be called twice.
func (s *Store) Close() error {
	s.slots.close()
	return nil
}

// Check says whether ZooKeeper answers: a server without a quorum does not. It
// costs one read.
func (s *Store) Check(ctx context.Context) error {
	_, err := s.slots.get(ctx, "/")
	return explain("check", err)
}

// Modes of Options, as in snowflake.worker.mode.
const (
	ModeForever   = "zk"
	ModeRecycle   = "zk_recycle"
	ModeEphemeral = "zk_ephemeral"
)

// Options says where ZooKeeper is and which worker IDs to take there. All are required but Observe.
type Options struct {
	Mode string // ModeForever, ModeRecycle or ModeEphemeral
	// Addrs are host:port of the servers; names are looked up at each connect. The chroot,
	// below which all nodes lie, may follow the last one: /path.
	Addrs []string
	// Name is the namespace of the worker IDs, Leaf's leaf.name: letters, digits,
	// '.', '_', '-', the first one a letter or a digit.
	Name string
	// SessionTimeout is how long ZooKeeper keeps a session that it hears nothing of, in whole ms. The
	// servers may choose another within their own bounds. An instance that crashed blocks its worker ID
	// that long in ModeEphemeral.
	SessionTimeout time.Duration
	// ReclaimMargin is how long after its end a lease is left alone by owners of
	// other addresses in ModeRecycle. It covers the difference between the clocks of
	// two servers, one of which leads after the other.
	ReclaimMargin time.Duration
	// Workers is how many worker IDs there are, 1…model.SnowflakeWorkers: 0…Workers-1.
	Workers int
	// Log gets what the client library says, at level debug.
	Log *slog.Logger
	// Observe watches the requests; nil: nothing does.
	Observe model.Observe
}

// explain makes the error of an operation, with advice for the operator. What the caller must tell apart
// stays what it is.
func explain(op string, err error) error {
	if err == nil {
		return nil
	}
	refusals := []error{model.ErrLeaseLost, model.ErrNoWorkerID, model.ErrAddressTaken, model.ErrInvalidArgument}
	for _, known := range refusals {
		if errors.Is(err, known) {
			return fmt.Errorf("zookeeper: %s: %w", op, err)
		}
	}
	return &model.StoreError{Store: "zookeeper", Op: op, Advice: advice(err), Err: err}
}

// advice is what an operator should do about the errors that happen, the remedy first; "" for others.
func advice(err error) string {
	_, unknownHost := errors.AsType[*net.DNSError](err)
	netErr, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errClosed), errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, errForeign):
		return "give shardid a snowflake.name of its own, as something else writes below /snowflake or /lock"
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		return "allow world:anyone:cdrwa below /snowflake and /lock (setAcl), or use another snowflake.name"
	case errors.Is(err, zk.ErrSessionExpired):
		return "look for pauses of the process, its machine or the network, as ZooKeeper heard nothing of this " +
			"process for a whole session; a new one is opened by itself"
	case errors.Is(err, syscall.ECONNREFUSED), unknownHost:
		return "start ZooKeeper, or correct zookeeper.addrs"
	case errors.Is(err, errNoSession):
		return "ask each server of zookeeper.addrs with srvr, as it opens no session without a quorum, or raise " +
			"maxClientCnxns"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, zk.ErrNoServer), netErr != nil && netErr.Timeout():
		return "look whether ZooKeeper runs, is reachable, has a quorum, and is not waiting for its disk"
	case errors.Is(err, workerid.ErrBusy), errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrSessionMoved),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "wait, as it is tried again, and a connection that broke is opened again"
	}
	return ""
}
