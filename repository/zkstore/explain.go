package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// explain makes the error of an operation, with advice for the operator. It is
// the only place that knows what ZooKeeper's and the network's errors mean. What
// the caller must tell apart stays what it is.
func explain(op string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{model.ErrLeaseLost, model.ErrNoWorkerID, model.ErrAddressTaken, model.ErrInvalidArgument} {
		if errors.Is(err, known) {
			return fmt.Errorf("zookeeper: %s: %w", op, err)
		}
	}
	return &model.StoreError{Store: "zookeeper", Op: op, Advice: advice(err), Err: err}
}

// advice is what an operator should do about the error; "" when there is
// nothing to say.
func advice(err error) string {
	switch {
	case errors.Is(err, errClosed) || errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, errForeign):
		return "something else writes below /snowflake or /lock: give shardid a snowflake.name of its own"
	case errors.Is(err, errBusy):
		return "many start at the same time, or the nodes below /snowflake and /lock were changed by hand: it is tried again"
	case errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL):
		return "the nodes below /snowflake and /lock refuse us: allow world:anyone:cdrwa there (setAcl), or use another snowflake.name"
	case errors.Is(err, zk.ErrSessionExpired):
		return "ZooKeeper heard nothing of this process for a whole session: look for pauses of the process, its machine or the network; " +
			"a new session is opened by itself"
	default:
		return networkAdvice(err)
	}
}

// networkAdvice is for errors that are no answer of a server.
func networkAdvice(err error) string {
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start ZooKeeper or correct zookeeper.addrs"
	case errors.As(err, &dns):
		return "the host name is unknown: correct zookeeper.addrs or the DNS"
	case errors.Is(err, errNoSession):
		return "the server takes connections but opens no session: most servers may be down, so that it has no quorum (ask each with srvr), " +
			"maxClientCnxns may be reached, it may hang, or be no ZooKeeper"
	case errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrSessionMoved):
		return "the connection broke during the request: it is opened again by itself"
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, zk.ErrNoServer) || errors.As(err, &netErr) && netErr.Timeout():
		return "no answer in time: look whether ZooKeeper runs, is reachable, has a quorum, and is not waiting for its disk"
	case strings.Contains(err.Error(), "broken pipe") || errors.Is(err, syscall.ECONNRESET):
		return "the server closed the connection: it is opened again by itself"
	default:
		return ""
	}
}
