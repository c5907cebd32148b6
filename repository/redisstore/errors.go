package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"shardid/model"
)

// explain makes the error of an operation, with advice for the operator.
func explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if has(err, "FOREIGN") {
		err = fmt.Errorf("%w: %w", model.ErrForeign, err)
	}
	return &model.StoreError{Store: "redis", Op: op, Advice: advice(err), Err: err}
}

// advice is what an operator should do about the errors that happen, the remedy first; "" for others,
// which are told in the words of the server, its driver or the system.
func advice(err error) string {
	if errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, context.Canceled) {
		return ""
	}
	for _, r := range remedies {
		if has(err, strings.Split(r.words, "|")...) {
			return r.advice
		}
	}
	return ""
}

// remedies are found by words of the error, special ones first: the text of a hidden replication ID may
// hold NOPERM, that of a script any code.
var remedies = []struct{ words, advice string }{
	{
		"HISTORYHIDDEN",
		"let scripts read INFO replication (ACL SETUSER <user> +info), do not rename the command, and connect to " +
			"Redis itself instead of a proxy, as IDs could repeat after a failover without master_replid",
	}, {
		"WRONGPASS|NOAUTH|invalid password|without any password configured",
		"correct user and password in redis.url (for sentinels: sentinel_username and sentinel_password)",
	}, {
		"NOPERM|can't run this command",
		"allow the user: ACL SETUSER <user> ~id.gen.* +evalsha +eval +info +hmget +hset +hincrby +hscan +time +llen " +
			"+lindex +lpop +ltrim +rpush +unlink +set +get +del +hget +hgetall +select (+cluster +asking)",
	}, {
		"FOREIGN",
		"give each deployment a Redis database of its own (the number at the end of redis.url, or another server), " +
			"or, if this database takes the other's place, set deployment of shardid_deployment to the other's ID, " +
			"as docs/operations.md says",
	}, {
		"NODEPLOYMENT",
		"wait until the database answers, from which the ID is read",
	}, {
		"WRONGTYPE|" + errMalformed.Error(),
		"give shardid a database or server of its own, as something else writes to keys named id.gen.*",
	}, {
		"READONLY",
		"give the master's address in redis.url, or let it name sentinels or a cluster, which follow it",
	}, {
		"OOM",
		"raise maxmemory, and set maxmemory-policy noeviction",
	}, {
		"CLUSTERDOWN|MASTERDOWN",
		"look at CLUSTER INFO and CLUSTER NODES",
	}, {
		"No such master|sentinel: nil|all sentinels",
		"correct master_name and the addresses of the sentinels in redis.url (port 26379, as a rule)",
	}, {
		"MOVED|CROSSSLOT|cluster support disabled|unknown command|wrong number of arguments|" + errMode.Error(),
		"write redis.url for what the server is: one server, sentinels (master_name=NAME) or a cluster " +
			"(cluster=true); in a cluster whose slots are being moved it passes",
	}, {
		"connection refused|no such host",
		"start Redis, or correct redis.url",
	}, {
		"tls:|x509:|EOF|can't parse|invalid reply|connection reset",
		"correct redis.url, as what listens there does not speak as Redis does, or closed the connection; begin it " +
			"with rediss:// for a server that speaks TLS, and only then, with a CA that is trusted",
	}, {
		"i/o timeout|deadline exceeded|connection pool timeout",
		"look whether Redis runs, is reachable, is not busy (SLOWLOG GET), and speaks TLS just when redis.url begins " +
			"with rediss://",
	},
}

// has reports whether the error's text holds one of the words. The codes stand
// anywhere, as older versions wrap what a script runs into.
func has(err error, words ...string) bool {
	text := err.Error()
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}
