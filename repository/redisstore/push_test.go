//go:build unix

package redisstore_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/testserver"
)

// longest is as long as queue.max_step lets a segment become.
const longest = 1_000_000

// Redis serves others between the pieces of a long segment.
func TestALongSegmentGoesInPieces(t *testing.T) {
	at := singleSite(t)
	s := open(t, at.options)
	req := request(t, s, 1, 100_000)
	before := at.fault(false, false)
	if err := s.Push(t.Context(), []model.PushRequest{req})[0]; err != nil {
		t.Fatal(err)
	}
	if n := at.fault(false, false) - before; n < 50 {
		t.Errorf("%d pieces, want at least 50: Redis does nothing else during one", n)
	}
}

// Each piece is judged by itself: what happens to the list between two of them
// ends the push, and the rest of the segment is given up.
func TestAPieceIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		happens []any
		want    error
	}{
		"the meta hash is lost": {[]any{"DEL", metaName}, model.ErrHistoryChanged},
		"another history":       {[]any{"HSET", metaName, "h", "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb"}, model.ErrHistoryChanged},
		"another push":          {[]any{"HSET", metaName, "w", longest}, model.ErrNotAboveHighWater},
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.Redis(t)
			s, c := openAt(t, server.Addr), server.Client()
			err := pushMeanwhile(t, s, c, func() { do(t, c, test.happens...) })
			if !errors.Is(err, test.want) {
				t.Fatalf("push: %v, want %v", err, test.want)
			}
			st := listtest.State(t, s, key())
			if st.Len >= longest || errors.Is(test.want, model.ErrHistoryChanged) && st.Len > 0 {
				t.Errorf("%+v: pieces came after the refusal", st)
			}
		})
	}
}

// pushMeanwhile pushes a long segment; the event happens when some of it is there.
func pushMeanwhile(t *testing.T, s *redisstore.Store, c *redis.Client, event func()) error {
	t.Helper()
	req := request(t, s, 1, longest)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = s.Push(t.Context(), []model.PushRequest{req})[0] })
	eventually(t, "the first piece", func() error {
		if c.LLen(t.Context(), listName).Val() == 0 {
			return errors.New("nothing yet")
		}
		return nil
	})
	event()
	wg.Wait()
	return err
}

// After each piece the mark is the last index of the list, never below it.
func TestEachPieceRaisesTheMark(t *testing.T) {
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	seen := map[string]bool{}
	look := func() {
		tx := c.TxPipeline()
		w, last := tx.HGet(t.Context(), metaName, "w"), tx.LIndex(t.Context(), listName, -1)
		if _, err := tx.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.Val() != last.Val() {
			t.Fatalf("mark %s, last index %s", w.Val(), last.Val())
		}
		seen[w.Val()] = true
	}
	err := pushMeanwhile(t, s, c, func() {
		for !seen["1000000"] {
			look()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 3 {
		t.Errorf("%d marks seen, want some on the way: %v", len(seen), seen)
	}
}
