package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"shardid/client"
)

// replica stands for a running shardid: IDs from 1001 on for every source, in the queue
// those of app 1 and the shard of alice, and a refusal for the tag full.
func replica() *httptest.Server {
	var last atomic.Int64
	last.Store(1001)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/segment/full/"):
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprint(w, `{"code":-5,"message":"the tag reached its limit"}`)
		case strings.HasPrefix(r.URL.Path, "/v1/queue/"):
			_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"%d","count":%s,"stride":"16384"}]}`, 1<<14|1, r.FormValue("count"))
		default:
			_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"%d","count":%s,"stride":"1"}]}`, last.Add(100_000)-100_000, r.FormValue("count"))
		}
	}))
}

func Example() {
	shardid := replica()
	defer shardid.Close()

	c, err := client.New(client.Options{Addrs: []string{shardid.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	orders := c.Segment("orders")
	for range 3 {
		id, err := orders.Next(context.Background())
		fmt.Println(id, err)
	}
	// Output:
	// 1001 <nil>
	// 1002 <nil>
	// 1003 <nil>
}

func ExampleNew() {
	_, err := client.New(client.Options{Addrs: []string{"127.0.0.1:8080"}})
	fmt.Println(err)

	c, err := client.New(client.Options{
		Addrs: []string{"https://ids-0.example.com", "https://ids-1.example.com"}, // replicas
		Token: "shardid_…",
	})
	fmt.Println(err)
	_ = c.Close()
	// Output:
	// shardid: the address "127.0.0.1:8080" is not http://host:port or https://host:port
	// <nil>
}

func ExampleClient_Queue() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.Queue(1).Next(context.Background(), "alice")
	fmt.Println(id, err)
	// Output: 16385 <nil>
}

func ExampleClient_Segment() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.Segment("orders").Next(context.Background())
	fmt.Println(id, err)
	// Output: 1001 <nil>
}

func ExampleClient_Snowflake() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.Snowflake().Next(context.Background())
	fmt.Println(id, err)
	// Output: 1001 <nil>
}

func ExampleClient_UID() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.UID().Next(context.Background())
	fmt.Println(id, err)
	// Output: 1001 <nil>
}

func ExampleSource_Take() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	ids, err := c.Segment("orders").Take(context.Background(), 3)
	fmt.Println(ids, err)
	// Output: [1001 1002 1003] <nil>
}

func ExampleQueue_Take() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	ids, err := c.Queue(1).Take(context.Background(), "alice", 2)
	fmt.Println(ids, err)
	// Output: [16385 32769] <nil>
}

func ExampleError() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	_, err := c.Segment("full").Next(context.Background())
	if refused, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refused.Code, refused.Message)
	}
	// Output: -5 the tag reached its limit
}

func ExampleClient_Close() {
	shardid := replica()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})

	_ = c.Close()
	_, err := c.UID().Next(context.Background())
	fmt.Println(errors.Is(err, client.ErrClosed))
	// Output: true
}
