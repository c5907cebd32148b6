// Command bare is the ceiling that shardid is compared with: Gin, without any
// middleware, that answers every GET /get with the same bytes.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	body := []byte(`{"code":0,"id":16385,"idStr":"16385"}`)
	engine.GET("/get", func(c *gin.Context) { c.Data(http.StatusOK, "application/json; charset=utf-8", body) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf(`{"msg":"listening","addr":%q}`+"\n", l.Addr())
	log.Fatal(http.Serve(l, engine))
}
