package sqlstore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"shardid/model"
)

// Calls are observed under names that hold no app and no tag; a refusal is an answer.
func TestObserve(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		var seen []string
		opts.Observe = func(ctx context.Context, store, op string) (context.Context, func(error)) {
			return ctx, func(failure error) {
				if failure != nil {
					op += " failed"
				}
				seen = append(seen, store+": "+op)
			}
		}
		s := openMigrated(t, opts)
		provision(t, s, app(1))
		seen = nil
		_ = s.Allocate(t.Context(), []model.AllocRequest{{Key: model.ListKey{App: 1}}})
		_, _, unknown := s.ChangeApp(t.Context(), 77, model.AppChange{})
		_, none := s.AllocateTag(t.Context(), model.TagRequest{Tag: "nobody's"})
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, away := s.Load(cancelled)
		if !errors.Is(unknown, model.ErrUnknownApp) || !errors.Is(none, model.ErrUnknownTag) || away == nil {
			t.Errorf("%v, %v, %v", unknown, none, away)
		}
		want := []string{"database: allocate", "database: change app", "database: allocate a segment",
			"database: load the lists failed"}
		for _, call := range want {
			if !slices.Contains(seen, call) {
				t.Errorf("%q lacks %q", seen, call)
			}
		}
	})
}
