package client_test

import (
	"context"
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
	id, err := c.Segment("orders").Next(context.Background())
	fmt.Println(id, err)
	ids, err := c.Segment("orders").Take(context.Background(), 3)
	fmt.Println(ids, err)
	id, err = c.Queue(1).Next(context.Background(), "alice") // the first ID of app 1 in the shard of alice
	fmt.Println(id, err)
	// Output:
	// 1 <nil>
	// [2 3 4] <nil>
	// 16385 <nil>
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
