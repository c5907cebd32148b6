// Command plain is the design that shardid is compared with: what one would write
// first. Gin and go-redis, one LPOP a request, or one INCR for a number of a key, c.JSON. It
// guards against nothing.
//
// SHARDID_REDIS_ADDR is its Redis. The indices come from a counter of the process and no
// database is asked, so that all it costs is what it shares with shardid.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"shardid/model"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	app = 1
	// step is how many indices a refill pushes; full lists hold at least as many.
	step = 5000
	// refillEvery is between two looks at the lengths of the lists: at 70 000
	// requests a second a list needs 550 indices meanwhile.
	refillEvery = 500 * time.Millisecond
)

// server issues IDs from the lists of one app.
type server struct {
	redis *redis.Client
	next  atomic.Int64 // the highest index that was pushed, of all lists
}

func main() {
	s := &server{redis: redis.NewClient(&redis.Options{
		Addr:                     os.Getenv("SHARDID_REDIS_ADDR"),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	ctx := context.Background()
	if err := s.refillAll(ctx); err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go s.keepFilled(ctx) // until the process is killed
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.GET("/get", s.get)
	engine.GET("/v1/sequence/:space/ids", s.number)
	fmt.Printf(`{"msg":"listening","addr":%q}`+"\n", l.Addr())
	log.Fatal(http.Serve(l, engine))
}

// answer is the same JSON as shardid's.
type answer struct {
	Code  int    `json:"code"`
	ID    int64  `json:"id"`
	IDStr string `json:"idStr"`
}

func (s *server) get(c *gin.Context) {
	key := model.ListKey{App: app, Shard: model.ShardOf(c.Query("gatePass"))}
	if count, err := strconv.Atoi(c.Query("count")); err == nil {
		s.batch(c, key, count)
		return
	}
	index, err := s.pop(c.Request.Context(), key)
	if err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"code": -4, "message": err.Error()})
		return
	}
	id := key.Compose(index)
	c.JSON(http.StatusOK, answer{ID: id, IDStr: strconv.FormatInt(id, 10)})
}

// batch pushes as many indices as it pops, of a list beside the others: the least that a
// server asks of Redis for them.
func (s *server) batch(c *gin.Context, key model.ListKey, count int) {
	last, indices := s.next.Add(int64(count)), make([]any, count)
	for i := range indices {
		indices[i] = last - int64(count-i) + 1
	}
	pipe, list := s.redis.Pipeline(), nameOf(key)+"_batch"
	pipe.RPush(c.Request.Context(), list, indices...)
	popped := pipe.LPopCount(c.Request.Context(), list, count)
	if _, err := pipe.Exec(c.Request.Context()); err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"code": -4, "message": err.Error()})
		return
	}
	ids := make([]int64, count)
	for i, text := range popped.Val() {
		index, _ := strconv.ParseInt(text, 10, 64)
		ids[i] = key.Compose(index)
	}
	c.JSON(http.StatusOK, gin.H{"code": 0, "ids": ids})
}

// number is the next of a key.
func (s *server) number(c *gin.Context) {
	n, err := s.redis.Incr(c.Request.Context(), c.Param("space")+":"+c.Query("key")).Result()
	if err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"code": -4, "message": err.Error()})
		return
	}
	c.JSON(http.StatusOK, numbers{IDs: []string{strconv.FormatInt(n, 10)}})
}

// numbers is the same JSON as shardid's.
type numbers struct {
	Code int      `json:"code"`
	IDs  []string `json:"ids"`
}

// pop takes one index, and refills the list first when it is empty.
func (s *server) pop(ctx context.Context, key model.ListKey) (int64, error) {
	index, err := s.redis.LPop(ctx, nameOf(key)).Int64()
	if !errors.Is(err, redis.Nil) {
		return index, err
	}
	if err := s.refill(ctx, key); err != nil {
		return 0, err
	}
	return s.redis.LPop(ctx, nameOf(key)).Int64()
}

func (s *server) keepFilled(ctx context.Context) {
	for range time.Tick(refillEvery) {
		if err := s.refillAll(ctx); err != nil {
			log.Print(err)
		}
	}
}

// refillAll pushes to the lists that hold less than a step.
func (s *server) refillAll(ctx context.Context) error {
	for shard := range uint8(model.Shards) {
		key := model.ListKey{App: app, Shard: shard}
		n, err := s.redis.LLen(ctx, nameOf(key)).Result()
		if err == nil && n < step {
			err = s.refill(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *server) refill(ctx context.Context, key model.ListKey) error {
	first := s.next.Add(step) - step
	values := make([]any, step)
	for i := range values {
		values[i] = first + int64(i) + 1
	}
	return s.redis.RPush(ctx, nameOf(key), values...).Err()
}

func nameOf(key model.ListKey) string { return "plain.idList_" + key.String() }
