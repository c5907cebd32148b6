// Command bare is the ceiling that shardid is compared with: Gin, without any
// middleware, that answers every GET /get with the same bytes and the headers of shardid,
// and has its limits on requests that are slow to come.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	body := []byte(`{"code":0,"id":16385,"idStr":"16385"}`)
	engine.GET("/get", func(c *gin.Context) {
		c.Header("Cache-Control", "no-store")
		c.Data(http.StatusOK, "application/json; charset=utf-8", body)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf(`{"msg":"listening","addr":%q}`+"\n", l.Addr())
	s := &http.Server{Handler: engine, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute}
	log.Fatal(s.Serve(l))
}
