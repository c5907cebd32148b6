package clienttest_test

import (
	"errors"
	"slices"
	"strings"
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
	for what, source := range map[string]*client.Source{"segment": c.Segment("a/b"), "snowflake": c.Snowflake(),
		"uid": c.UID()} {
		if got, err := source.Take(t.Context(), 20_000); err != nil || got[0] != 1 || got[19_999] != 20_000 ||
			!slices.IsSorted(got) {
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
		if _, err := c.Number("orders").Next(t.Context()); !errors.As(err, &refused) || refused.Code != code ||
			refused.Status != status {
			t.Errorf("%d: %v", code, err)
		}
	}
	ids.Refuse(0, "")
	// more, when a buffer was being filled
	if text, err := c.Number("orders").Next(t.Context()); err != nil || text != "2" || ids.Requests() < before+4 {
		t.Errorf("%q, %v, %d requests", text, err, ids.Requests()-before)
	}
}

// Each key of each space counts on its own, whatever its bytes, and looking issues nothing.
func TestSequence(t *testing.T) {
	ids := clienttest.Start()
	defer ids.Close()
	c, err := client.New(client.Options{Addrs: []string{ids.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for round := range int64(2) {
		for _, space := range []string{"chat", "feed"} {
			for _, key := range []string{"room42", "\x00", "a/b", "a%2Fb", "a b+c&d=e", "群聊"} {
				s := c.Sequence(space)
				before, err := s.Current(t.Context(), key)
				some, err2 := s.Take(t.Context(), key, 3)
				if err != nil || err2 != nil || before != 3*round ||
					!slices.Equal(some, []int64{before + 1, before + 2, before + 3}) {
					t.Errorf("%s %q: %d, %v, %v, %v", space, key, before, err, some, err2)
				}
			}
		}
	}
	var refused *client.Error
	for what, key := range map[string]string{"no key": "", "a long key": strings.Repeat("k", 257)} {
		if n, err := c.Sequence("chat").Next(t.Context(), key); !errors.As(err, &refused) ||
			refused.Code != client.CodeInvalid {
			t.Errorf("%s: %d, %v", what, n, err)
		}
		if n, err := c.Sequence("chat").Current(t.Context(), key); !errors.As(err, &refused) ||
			refused.Code != client.CodeInvalid {
			t.Errorf("current of %s: %d, %v", what, n, err)
		}
	}
}
