package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shardid/model"
)

const (
	// mostReplicas bounds the records of a deployment, and so the time and the answer of
	// each call.
	mostReplicas = 256
	// maxRecord bounds a record, in bytes.
	maxRecord = 4096
)

// errFull says that there are too many records for another one.
var errFull = fmt.Errorf("%d replicas have a record already", mostReplicas)

// Replicas keeps a short-lived record of each replica of the deployment, in one hash.
// Safe for concurrent use.
type Replicas struct {
	store  *Store
	script script
}

// Replicas gives the records of the deployment, over the connections of the store.
func (s *Store) Replicas() *Replicas { return &Replicas{s, newScript(s.opts.Observe, "replicas")} }

// Put stores the record of a replica, one line of at most 4096 bytes, in place of an
// earlier one. It counts for the time that lasts says, in whole ms. Errors:
// *model.StoreError, also when 256 others have a record.
func (r *Replicas) Put(ctx context.Context, replica, record string, lasts time.Duration) error {
	const op = "write a replica's record"
	if replica == "" || record == "" || len(replica)+len(record) > maxRecord || strings.Contains(record, "\n") {
		return explain(op, fmt.Errorf("%w: a record is one line of at most %d bytes, this one has %d",
			model.ErrInvalidArgument, maxRecord, len(record)))
	}
	reply, err := r.run(ctx, op, replica, record, lasts)
	if err == nil && reply == "FULL" {
		err = explain(op, errFull)
	}
	return err
}

// Remove drops the record of a replica, and those that are older than lasts. Errors:
// *model.StoreError.
func (r *Replicas) Remove(ctx context.Context, replica string, lasts time.Duration) error {
	_, err := r.run(ctx, "remove a replica's record", replica, "", lasts)
	return err
}

// All gives how old each record is that counts, given for how long records do; at most
// 256, in no order. Errors: *model.StoreError.
func (r *Replicas) All(ctx context.Context, lasts time.Duration) (map[string]time.Duration, error) {
	reply, err := r.run(ctx, "read the replicas' records", "", "", lasts)
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(reply, "\n")
	ages := map[string]time.Duration{}
	for line := range strings.Lines(rest) {
		f := fields{rest: strings.TrimSuffix(line, "\n")}
		age := time.Duration(f.number()) * time.Millisecond
		if f.bad {
			return nil, explain("read the replicas' records", fmt.Errorf("%w: %.80q", errMalformed, line))
		}
		ages[f.rest] = age
	}
	return ages, nil
}

func (r *Replicas) run(ctx context.Context, op, replica, record string, lasts time.Duration) (string, error) {
	deployment := r.store.deploymentID()
	if deployment == "" {
		return "", explain(op, errors.New("NODEPLOYMENT the ID of the deployment is not known yet"))
	}
	reply, err := r.script.run(ctx, r.store.client, []string{"id.gen.replicas_{" + deployment + "}"},
		replica, record, lasts.Milliseconds(), mostReplicas)
	return reply, r.store.fail(op, err)
}
