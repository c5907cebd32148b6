//go:build unix

package nemesis

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"shardid/scripts/rig"

	_ "github.com/go-sql-driver/mysql" // the plain server's database
	"github.com/redis/go-redis/v9"
)

// plain starts this test binary as a server of the plain design.
func plain(env settings) server {
	env[plainSetting] = "1"
	return server{path: os.Args[0], env: env}
}

// plainServer issues IDs as the original article does: one LPOP an ID, refilled
// by RPUSH with the client's own retries under a SETNX lock that everybody
// deletes, from rows that are only ever added to. It believes both stores.
type plainServer struct {
	redis *redis.Client
	db    *sql.DB
}

func servePlain() {
	db, err := sql.Open("mysql", os.Getenv("SHARDID_DATABASE_DSN"))
	if err != nil {
		panic(err)
	}
	s := &plainServer{db: db, redis: redis.NewClient(&redis.Options{Addr: os.Getenv("SHARDID_REDIS_ADDRS"), ReadTimeout: time.Second})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf(`{"msg":"listening","addr":%q}`+"\n", l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /get", s.get)
	mux.HandleFunc("GET /metrics", func(http.ResponseWriter, *http.Request) {})
	panic(http.Serve(l, mux))
}

func (s *plainServer) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	app, _ := strconv.ParseInt(r.FormValue("appId"), 10, 64)
	in := rig.List{App: app, Shard: rig.ShardOf(r.FormValue("gatePass"))}
	single := r.FormValue("count") == ""
	count, _ := strconv.Atoi(r.FormValue("count"))
	ids, err := s.take(ctx, in, max(1, count))
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case single:
		fmt.Fprintf(w, `{"code":0,"id":%d,"idStr":"%[1]d"}`, ids[0])
	default:
		fmt.Fprintf(w, `{"code":0,"ids":[%s]}`, strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]"))
	}
}

func (s *plainServer) take(ctx context.Context, in rig.List, count int) (ids []int64, err error) {
	for len(ids) < count {
		index, err := s.redis.LPop(ctx, keyOf(in)).Int64()
		if err == nil {
			ids = append(ids, in.ID(index))
			continue
		}
		if errors.Is(err, redis.Nil) {
			err = s.refill(ctx, in)
		}
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func keyOf(in rig.List) string { return fmt.Sprintf("id.gen.idList_%d_%d", in.App, in.Shard) }

// refill unlocks although it may not hold the lock, as the article's finally.
func (s *plainServer) refill(ctx context.Context, in rig.List) error {
	lock := fmt.Sprintf("id.gen.lock_%d_%d", in.App, in.Shard)
	defer s.redis.Del(ctx, lock)
	got, err := s.redis.SetNX(ctx, lock, "1", time.Second).Result()
	if err != nil || !got {
		time.Sleep(5 * time.Millisecond)
		return err
	}
	last, step, err := s.allocate(ctx, in)
	if err != nil {
		return err
	}
	values := make([]any, 0, step)
	for index := last - step + 1; index <= last; index++ {
		values = append(values, index)
	}
	return s.redis.RPush(ctx, keyOf(in), values...).Err()
}

func (s *plainServer) allocate(ctx context.Context, in rig.List) (last, step int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "UPDATE id_alloc SET max_id = max_id + step WHERE app_id = ? AND shard_id = ?", in.App, in.Shard)
	if err != nil {
		return 0, 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT max_id, step FROM id_alloc WHERE app_id = ? AND shard_id = ?", in.App, in.Shard).Scan(&last, &step)
	if err != nil {
		return 0, 0, err
	}
	return last, step, tx.Commit()
}
