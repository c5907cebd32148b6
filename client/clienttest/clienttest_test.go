package clienttest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"shardid/client"
	"shardid/client/clienttest"
)

func TestClient(t *testing.T) {
	ids := clienttest.Start()
	defer ids.Close()
	c, err := client.New(client.Options{Addrs: []string{ids.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	alice, err := c.Queue(7).Take(t.Context(), "alice", 2)
	if err != nil || alice[0]&255 != 7 || alice[1] != alice[0]+1<<14 {
		t.Errorf("%v, %v", alice, err)
	}
	for what, source := range map[string]*client.Source{"segment": c.Segment("a/b"), "snowflake": c.Snowflake(), "uid": c.UID()} {
		if got, err := source.Take(t.Context(), 20_000); err != nil || got[0] != 1 || got[19_999] != 20_000 || !slices.IsSorted(got) {
			t.Errorf("%s: %d IDs, %v", what, len(got), err)
		}
	}
	if text, err := c.Number("orders").Next(t.Context()); err != nil || text != "1" {
		t.Errorf("%q, %v", text, err)
	}
	before := ids.Requests()
	var refused *client.Error
	for code, status := range map[int]int{client.CodeLimit: 409, client.CodeToken: 401, client.CodeUnknown: 404} {
		ids.Refuse(code, "for a test")
		if _, err := c.Number("orders").Next(t.Context()); !errors.As(err, &refused) || refused.Code != code || refused.Status != status {
			t.Errorf("%d: %v", code, err)
		}
	}
	ids.Refuse(0, "")
	if text, err := c.Number("orders").Next(t.Context()); err != nil || text != "2" || ids.Requests() < before+4 { // more, when a buffer was being filled
		t.Errorf("%q, %v, %d requests", text, err, ids.Requests()-before)
	}
}

func ExampleServer_Refuse() {
	ids := clienttest.Start()
	defer ids.Close()
	fmt.Println(ids.Requests())
	// Output: 0
}
