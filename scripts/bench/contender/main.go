// Command contender is what shardid is compared with.
//
//	contender gin          answers /get with a constant: the ceiling of what Gin can do
//	contender redis ADDR   is what one would write first: an LPOP or an INCR for each request
//
// Both answer the bytes and, where it matters, the headers of shardid. The plain service guards against nothing: its
// indices come from a counter of the process, so that no database slows it down.
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

	"shardid/client/idtext"
	"shardid/model"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	switch args := os.Args[1:]; {
	case len(args) == 1 && args[0] == "gin":
		engine.GET("/get", constant)
	case len(args) == 2 && args[0] == "redis":
		s := &service{redis: redis.NewClient(&redis.Options{Addr: args[1], Protocol: 2, // as shardid's
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})}
		engine.GET("/get", s.get)
		engine.GET("/v1/sequence/:space/ids", s.number)
	default:
		log.Fatal("usage: contender gin | contender redis ADDR")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf(`{"msg":"listening","addr":%q}`+"\n", l.Addr())
	log.Fatal((&http.Server{Handler: engine, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		IdleTimeout: time.Minute}).Serve(l))
}

func constant(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	c.Data(http.StatusOK, "application/json; charset=utf-8", []byte(`{"code":0,"id":16385,"idStr":"16385"}`))
}

// service is the plain one, for one app.
type service struct {
	redis *redis.Client
	last  atomic.Int64 // the highest index that was pushed to any list
}

// get pops one index from the list of a gatePass.
func (s *service) get(c *gin.Context) {
	key := model.ListKey{App: 1, Shard: idtext.ShardOf(c.Query("gatePass"))}
	index, err := s.pop(c.Request.Context(), "plain.idList_"+key.String())
	if err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"code": -4, "message": err.Error()})
		return
	}
	id := key.Compose(index)
	c.JSON(http.StatusOK, struct {
		Code  int    `json:"code"`
		ID    int64  `json:"id"`
		IDStr string `json:"idStr"`
	}{ID: id, IDStr: strconv.FormatInt(id, 10)})
}

// pop takes an index, and fills the list first when it is empty.
func (s *service) pop(ctx context.Context, list string) (int64, error) {
	index, err := s.redis.LPop(ctx, list).Int64()
	if !errors.Is(err, redis.Nil) {
		return index, err
	}
	const step = 5000
	last, values := s.last.Add(step), make([]any, step)
	for i := range values {
		values[i] = last - step + 1 + int64(i)
	}
	if err := s.redis.RPush(ctx, list, values...).Err(); err != nil {
		return 0, err
	}
	return s.redis.LPop(ctx, list).Int64()
}

// number counts for a key.
func (s *service) number(c *gin.Context) {
	n, err := s.redis.Incr(c.Request.Context(), c.Param("space")+":"+c.Query("key")).Result()
	if err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"code": -4, "message": err.Error()})
		return
	}
	c.JSON(http.StatusOK, struct {
		Code int      `json:"code"`
		IDs  []string `json:"ids"`
	}{IDs: []string{strconv.FormatInt(n, 10)}})
}
