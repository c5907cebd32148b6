package client_test

import (
	"context"
	"errors"
	"fmt"

	"shardid/client"
	"shardid/client/clienttest"
)

func Example() {
	shardid := clienttest.Start()
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
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
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
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.Queue(1).Next(context.Background(), "alice")
	fmt.Println(id, err)
	// Output: 16385 <nil>
}

func ExampleClient_Segment() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.Segment("orders").Next(context.Background())
	fmt.Println(id, err)
	// Output: 1 <nil>
}

func ExampleClient_Sequence() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	chat := c.Sequence("chat")
	first, _ := chat.Next(context.Background(), "room42")
	more, _ := chat.Take(context.Background(), "room42", 3)
	other, _ := chat.Next(context.Background(), "room43")
	last, err := chat.Current(context.Background(), "room42")
	fmt.Println(first, more, other, last, err)
	// Output: 1 [2 3 4] 1 4 <nil>
}

func ExampleClient_Snowflake() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.Snowflake().Next(context.Background())
	fmt.Println(id, err)
	// Output: 1 <nil>
}

func ExampleClient_UID() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	id, err := c.UID().Next(context.Background())
	fmt.Println(id, err)
	// Output: 1 <nil>
}

func ExampleSource_Take() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	ids, err := c.Segment("orders").Take(context.Background(), 3)
	fmt.Println(ids, err)
	// Output: [1 2 3] <nil>
}

func ExampleQueue_Take() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	ids, err := c.Queue(1).Take(context.Background(), "alice", 2)
	fmt.Println(ids, err)
	// Output: [16385 32769] <nil>
}

func ExampleError() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})
	defer c.Close()

	shardid.Refuse(client.CodeLimit, "the tag reached its limit")
	_, err := c.Segment("full").Next(context.Background())
	var refused *client.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Code, refused.Message)
	}
	// Output: -5 the tag reached its limit
}

func ExampleClient_Close() {
	shardid := clienttest.Start()
	defer shardid.Close()
	c, _ := client.New(client.Options{Addrs: []string{shardid.URL}})

	_ = c.Close()
	_, err := c.UID().Next(context.Background())
	fmt.Println(errors.Is(err, client.ErrClosed))
	// Output: true
}

func ExampleClient_Generator() {
	c, _ := client.New(client.Options{Addrs: []string{"http://127.0.0.1:8080"}, Instance: "shop-7"})
	defer c.Close()

	orders, err := c.Generator(context.Background(), "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer orders.Close() // lets another process have the worker ID at once
	first, _ := orders.Next()
	second, err := orders.Next()
	fmt.Println("worker ID", orders.WorkerID(), first < second, err)
}
