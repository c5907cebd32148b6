//go:build unix

package faults

import (
	"context"
	"database/sql"
	"encoding/json"
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

// plainServer issues IDs by the plain design.
type plainServer struct{ rig.Plain }

func servePlain() {
	db, err := sql.Open("mysql", os.Getenv("SHARDID_DATABASE_DSN"))
	if err != nil {
		panic(err)
	}
	c := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(os.Getenv("SHARDID_REDIS_URL"), "redis://"),
		ReadTimeout: time.Second})
	s := plainServer{rig.Plain{DB: db, Redis: c}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf(`{"msg":"listening","addr":%q}`+"\n", l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /get", s.get)
	mux.HandleFunc("POST /v1/sequence/{space}/ids", s.number)
	mux.HandleFunc("GET /v1/sequence/{space}/current", s.number)
	panic(http.Serve(l, mux))
}

func (s plainServer) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	app, _ := strconv.ParseInt(r.FormValue("appId"), 10, 64)
	in := rig.List{App: app, Shard: rig.ShardOf(r.FormValue("gatePass"))}
	count, _ := strconv.Atoi(r.FormValue("count"))
	var ids []int64
	var err error
	for range count {
		var index int64
		if index, err = s.Take(ctx, in, false); err != nil {
			break
		}
		ids = append(ids, in.ID(index))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, strings.Trim(fmt.Sprint(ids), "[]"))
}

// number counts keys in Redis.
func (s plainServer) number(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	incr := rig.Incr{Redis: s.Redis, Prefix: r.PathValue("space") + ":"}
	count, _ := strconv.Atoi(r.FormValue("count"))
	var numbers []string
	var last int64
	var err error
	if count == 0 {
		last, err = incr.Current(ctx, r.FormValue("key"))
	} else {
		var first int64
		first, last, err = incr.Take(ctx, r.FormValue("key"), count)
		for n := first; n <= last; n++ {
			numbers = append(numbers, strconv.FormatInt(n, 10))
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"code":-4,"message":%q}`, err)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"code": 0, "ids": numbers, "current": strconv.FormatInt(last, 10)})
}
