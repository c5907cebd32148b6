package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"shardid/model"
)

// Pushes take turns. Nothing is sent before one's turn, which ends with the round
// trip, whatever became of it.
func TestPushesTakeTurns(t *testing.T) {
	s, err := New(Options{Mode: ModeSingle, Addrs: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	push := func(ctx context.Context) error {
		return s.Push(ctx, []model.PushRequest{{History: "h", Segment: model.Segment{First: 1, Last: 9000}, Cap: 1}})[0]
	}
	for range cap(s.pushing) { // somebody else's
		s.pushing <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := push(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a turn: %v", err)
	}
	for len(s.pushing) > 0 {
		<-s.pushing
	}
	for range cap(s.pushing) + 1 {
		var store *model.StoreError
		if err := push(t.Context()); !errors.As(err, &store) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no server: %v", err)
		}
	}
	if n := len(s.pushing); n != 0 {
		t.Errorf("%d turns were not given back", n)
	}
}
