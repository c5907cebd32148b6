package main

import (
	"syscall"
	"time"

	"shardid/service/guard"
)

// defaultConnections is the bound of server.max_connections 0: three quarters of the
// descriptors, the rest is for stores and files, and what fits into 300 MB of memory.
func defaultConnections() int {
	const fit = 16384
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return fit
	}
	return int(min(limit.Cur/4*3, fit))
}

const (
	// headTimeout is how long a connection may take until the head of its first request has come, or the token that a
	// Redis client needs.
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

// limits bound the connections of both front ends.
func limits(cfg Config) guard.Limits {
	l := guard.Limits{Most: cfg.Server.MaxConnections, New: headTimeout, Idle: idleTimeout, Active: requestTimeout(cfg)}
	if l.Most == 0 {
		l.Most = defaultConnections()
	}
	return l
}
