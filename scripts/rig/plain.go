package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Plain hands indices out as the original article's service does: it pops one at a time, and
// refills a list by one UPDATE and one RPUSH with the client's own retries, under a SETNX lock
// that everybody deletes, from rows that are only ever added to. It believes both stores.
type Plain struct {
	Redis *redis.Client
	DB    *sql.DB
}

// Key is the name of a list of the queue in Redis.
func (l List) Key() string { return fmt.Sprintf("id.gen.idList_%d_%d", l.App, l.Shard) }

// Take pops an index, by default from the left end.
func (p Plain) Take(ctx context.Context, in List, right bool) (index int64, err error) {
	pop := p.Redis.LPop
	if right {
		pop = p.Redis.RPop
	}
	for range 1000 {
		if index, err = pop(ctx, in.Key()).Int64(); errors.Is(err, redis.Nil) {
			err = p.Refill(ctx, in)
		} else if err == nil {
			return index, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, errors.New("a list stays empty")
}

// Refill deletes the lock although it may not hold it, as the article's finally.
func (p Plain) Refill(ctx context.Context, in List) error {
	lock := fmt.Sprintf("id.gen.lock_%d_%d", in.App, in.Shard)
	defer p.Redis.Del(ctx, lock)
	got, err := p.Redis.SetNX(ctx, lock, "1", time.Second).Result()
	if err != nil || !got {
		time.Sleep(5 * time.Millisecond)
		return err
	}
	last, step, err := p.allocate(ctx, in)
	if err != nil {
		return err
	}
	values := make([]any, 0, step)
	for index := last - step + 1; index <= last; index++ {
		values = append(values, index)
	}
	return p.Redis.RPush(ctx, in.Key(), values...).Err()
}

func (p Plain) allocate(ctx context.Context, in List) (last, step int64, err error) {
	tx, err := p.DB.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	const where = " WHERE app_id = ? AND shard_id = ?"
	if _, err = tx.ExecContext(ctx, "UPDATE id_alloc SET max_id = max_id + step"+where, in.App, in.Shard); err != nil {
		return 0, 0, err
	}
	row := tx.QueryRowContext(ctx, "SELECT max_id, step FROM id_alloc"+where, in.App, in.Shard)
	if err = row.Scan(&last, &step); err != nil {
		return 0, 0, err
	}
	return last, step, tx.Commit()
}
