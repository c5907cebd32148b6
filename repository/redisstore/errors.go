package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// explain makes the error of an operation, with advice for the operator. It is
// the only place that knows what Redis' and the network's errors mean.
func explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if has(err, "HISTORYHIDDEN") {
		err = fmt.Errorf("%w: %w", model.ErrHistoryHidden, err)
	}
	if has(err, "FOREIGN") {
		err = fmt.Errorf("%w: %w", model.ErrForeign, err)
	}
	if strings.Contains(err.Error(), "\n") {
		err = oneLineError{err}
	}
	return &model.StoreError{Store: "redis", Op: op, Advice: advice(err), Err: err}
}

// oneLineError is an error whose text was several lines, as those of errors.Join.
type oneLineError struct{ error }

func (e oneLineError) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "; ") }
func (e oneLineError) Unwrap() error { return e.error }

// advice is what an operator should do about the error; "" when there is
// nothing to say.
func advice(err error) string {
	if errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, context.Canceled) {
		return ""
	}
	for _, known := range replyAdvice() {
		if has(err, known.codes...) {
			return known.advice
		}
	}
	return networkAdvice(err)
}

// networkAdvice is for errors that are no reply of a server.
func networkAdvice(err error) string {
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, errMode):
		return "set redis.mode to what the server is: single, sentinel or cluster"
	case errors.Is(err, errMalformed):
		return "something else writes to keys named id.gen.*: give shardid a database or server of its own"
	case errors.Is(err, errTooFewAcks):
		return "bring the replicas back, or lower snowflake.worker.redis_acks if there are permanently fewer; a master without its replicas may have been replaced"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start Redis or correct redis.addrs"
	case errors.As(err, &dns):
		return "the host name is unknown: correct redis.addrs or the DNS"
	case isTLS(err) || strings.Contains(err.Error(), "unknown authority"):
		return "TLS failed: set redis.tls only for a server that speaks TLS, and trust the CA of its certificate"
	case strings.Contains(err.Error(), "can't parse") || strings.Contains(err.Error(), "invalid reply"):
		return "what listens there does not speak as Redis does: it is another server, such as MySQL, or speaks TLS (redis.tls): correct redis.addrs"
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return "the server closed the connection: when it was not restarted, it may speak TLS only, see redis.tls, or not be a Redis"
	case errors.Is(err, redis.ErrPoolTimeout):
		return "all connections were busy: raise the pool size or look why Redis is slow"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout():
		return "no answer in time: look whether Redis runs, is reachable, is not busy (SLOWLOG GET), and speaks TLS just when redis.tls says so"
	default:
		return ""
	}
}

func isTLS(err error) bool {
	var header tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	var host x509.HostnameError
	return errors.As(err, &header) || errors.As(err, &alert) || errors.As(err, &verify) || errors.As(err, &host)
}

// known is a kind of reply and what to do about it.
type known struct {
	codes  []string
	advice string
}

// replyAdvice lists the replies of Redis and Sentinel, special ones first: the
// text of a hidden replication ID may hold NOPERM, that of a script error any code.
func replyAdvice() []known {
	return []known{
		{[]string{"HISTORYHIDDEN"}, "scripts must be able to read master_replid from INFO replication, or IDs could repeat after a failover: " +
			"allow the user INFO (ACL SETUSER <user> +info), do not rename the command, and connect to Redis itself instead of a proxy"},
		{[]string{"WRONGPASS", "NOAUTH", "invalid password", "without any password configured"},
			"correct redis.username and redis.password (for sentinels: their own)"},
		{[]string{"NOPERM", "can't run this command"}, "allow the user: ACL SETUSER <user> ~id.gen.* +evalsha +eval +info +hmget +hset +hincrby +hscan +time +llen +lindex +lpop +ltrim +rpush +unlink +set +get +del +mget +hget +hgetall +wait (+cluster)"},
		{[]string{"NODEPLOYMENT"}, "it is read from the database: wait until that answers"},
		{[]string{"FOREIGN"}, "two deployments share this Redis, or this database took the place of another one: " +
			"give each deployment a Redis database of its own (redis.db, or another server), " +
			"or, if this database takes the other's place, run `shardid confirm --deployment ID --confirm ID` with the IDs of the other and of this one"},
		{[]string{"MALFORMED"}, "something else writes to keys named id.gen.*: give shardid a database or server of its own"},
		{[]string{"READONLY"}, "this is a replica: give the master's address in redis.addrs, or use redis.mode sentinel or cluster to follow it"},
		{[]string{"OOM"}, "Redis is full: raise maxmemory, and set maxmemory-policy noeviction"},
		{[]string{"LOADING"}, "Redis is loading its data: wait, it goes on by itself"},
		{[]string{"MISCONF"}, "Redis cannot save to disk and refuses writes: look at its log, disk space and permissions"},
		{[]string{"CLUSTERDOWN"}, "part of the cluster is down: look at CLUSTER INFO and CLUSTER NODES"},
		{[]string{"MASTERDOWN"}, "a replica lost its master: look at the replication, give the master's address"},
		{[]string{"NOREPLICAS"}, "too few replicas for min-replicas-to-write: bring them back or lower it"},
		{[]string{"MOVED", "CROSSSLOT"}, "the server is part of a cluster (set redis.mode to cluster), or slots are being moved, which passes"},
		{[]string{"ASK", "TRYAGAIN"}, "slots are being moved to another node: it passes"},
		{[]string{"cluster support disabled"}, "the server is no cluster node: set redis.mode to single or sentinel"},
		{[]string{"DB index is out of range", "SELECT is not allowed"}, "correct redis.db"},
		{[]string{"unknown command", "unknown subcommand", "wrong number of arguments"},
			"this is a sentinel while redis.mode is not sentinel (or the reverse), no Redis 6.2 or newer, or the command was renamed"},
		{[]string{"No such master", "sentinel: nil", "all sentinels"}, "the sentinels do not know the master or cannot be reached: correct redis.master_name and redis.addrs (port 26379, as a rule)"},
		{[]string{"WRONGTYPE"}, "a key named id.gen.* holds something else: find it with TYPE and remove it, or use another database"},
		{[]string{"max number of clients"}, "Redis has no connection left: raise maxclients or lower the pool size"},
		{[]string{"BUSY"}, "another script blocks Redis: wait, or SCRIPT KILL"},
	}
}

// has reports whether the error's text holds one of the words. The codes stand
// anywhere, as older versions wrap what a script runs into.
func has(err error, words ...string) bool {
	text := err.Error()
	for _, word := range words {
		if i := strings.Index(text, word); i >= 0 && !inWord(text, i, len(word)) {
			return true
		}
	}
	return false
}

// inWord tells LOADING from RELOADING, and OOM from ROOM.
func inWord(text string, at, n int) bool {
	letter := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= 'A' && text[i] <= 'Z' }
	return letter(at-1) || letter(at+n)
}
