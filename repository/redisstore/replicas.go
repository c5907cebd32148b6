package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// Replicas keeps a short-lived record of each replica of the deployment, in one hash.
// Safe for concurrent use.
type Replicas struct{ store *Store }

// Replicas gives the records of the deployment, over the connections of the store.
func (s *Store) Replicas() *Replicas { return &Replicas{s} }

// Put stores the record of a replica, one line, in place of an earlier one, and gives those of the others as All does.
// It counts for the time that lasts says, in whole ms. Errors: *model.StoreError.
func (r *Replicas) Put(
	ctx context.Context, replica, record string, lasts time.Duration,
) (map[string]time.Duration, error) {
	return r.run(ctx, "write a replica's record", replica, record, lasts)
}

// Remove drops the record of a replica, and those that are older than lasts. Errors:
// *model.StoreError.
func (r *Replicas) Remove(ctx context.Context, replica string, lasts time.Duration) error {
	_, err := r.run(ctx, "remove a replica's record", replica, "", lasts)
	return err
}

// All gives how old each record is that counts, given for how long records do, in no order. Errors:
// *model.StoreError.
func (r *Replicas) All(ctx context.Context, lasts time.Duration) (map[string]time.Duration, error) {
	return r.run(ctx, "read the replicas' records", "", "", lasts)
}

func (r *Replicas) run(
	ctx context.Context, op, replica, record string, lasts time.Duration,
) (map[string]time.Duration, error) {
	deployment := r.store.deploymentID()
	if deployment == "" {
		return nil, explain(op, errors.New("NODEPLOYMENT the ID of the deployment is not known yet"))
	}
	answer, err := r.store.run(ctx, r.store.client, replicasScript, []string{"id.gen.replicas_{" + deployment + "}"},
		replica, record, lasts.Milliseconds()).StringSlice()
	if err != nil {
		return nil, explain(op, err)
	}
	ages := map[string]time.Duration{}
	for pair := range slices.Chunk(answer, 2) {
		ms, _ := strconv.ParseInt(pair[0], 10, 64)
		ages[pair[1]] = time.Duration(ms) * time.Millisecond
	}
	return ages, nil
}
