//go:build unix

package sqlstore

import (
	"errors"
	"testing"

	"shardid/model"
)

func TestChangeTag(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addTag(t, s, "订单", 10)
		wantTag(t, s, model.TagRequest{Tag: "订单"}, model.TagSegment{First: 1, End: 11, Step: 10})
		before, after, err := s.ChangeTag(t.Context(), "订单", model.TagChange{Step: ptr(int64(20)), MaxID: ptr(int64(500)), Description: ptr("d")})
		if err != nil || before.MaxID != 11 || after.MaxID != 500 || after.Step != 20 || after.Description != "d" || after.Name != "订单" {
			t.Fatalf("from %+v\nto %+v, %v", before, after, err)
		}
		wantTag(t, s, model.TagRequest{Tag: "订单"}, model.TagSegment{First: 500, End: 520, Step: 20})
		for name, c := range map[string]struct {
			change model.TagChange
			want   error
		}{
			"lower":        {model.TagChange{MaxID: ptr(int64(519)), Step: ptr(int64(7))}, model.ErrRefused},
			"step":         {model.TagChange{Step: ptr(int64(0))}, model.ErrInvalidArgument},
			"nothing left": {model.TagChange{MaxID: ptr(int64(model.MaxTagID))}, model.ErrInvalidArgument},
		} {
			if _, _, err := s.ChangeTag(t.Context(), "订单", c.change); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, err := s.Tag(t.Context(), "订单"); err != nil || got.MaxID != 520 || got.Step != 20 {
			t.Errorf("now %+v, %v", got, err)
		}
		if _, _, err := s.ChangeTag(t.Context(), "none", model.TagChange{Step: ptr(int64(7))}); !errors.Is(err, model.ErrUnknownTag) {
			t.Error(err)
		}
	})
}

// A tag that was deleted goes on above what it had handed out, on whatever road it
// comes back; only another name starts anew.
func TestDeletedTagGoesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addTag(t, s, "a", 2000)
		next := int64(1)
		for _, back := range []func(){
			func() { addTag(t, s, "a", 2000) },
			func() { run(t, s, "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('a', 2000)") },
			func() { run(t, s, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 7, 2000)") },
		} {
			wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: next, End: next + 2000, Step: 2000})
			next += 2000
			if deleted, err := s.DeleteTag(t.Context(), "a"); err != nil || deleted.MaxID != next {
				t.Fatalf("deleted %+v, %v", deleted, err)
			}
			if _, err := s.DeleteTag(t.Context(), "a"); !errors.Is(err, model.ErrUnknownTag) {
				t.Error(err)
			}
			back()
		}
		if _, _, err := s.ChangeTag(t.Context(), "a", model.TagChange{MaxID: ptr(next - 1)}); !errors.Is(err, model.ErrRefused) {
			t.Errorf("below what was handed out before the deletion: %v", err)
		}
		wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: next, End: next + 2000, Step: 2000})
		addTag(t, s, "A", 2000)
		wantTag(t, s, model.TagRequest{Tag: "A"}, model.TagSegment{First: 1, End: 2001, Step: 2000})
		made, err := s.CreateTag(t.Context(), model.Tag{Name: "b", MaxID: 50, Step: 1})
		if err != nil || made.MaxID != 50 {
			t.Errorf("made %+v, %v", made, err)
		}
	})
}

// Where the table takes two names for one, so do the tombstones; but only the tag of
// the exact name can be changed or deleted.
func TestDeletedTagWithAnotherCase(t *testing.T) {
	s := open(t, backends()[0].empty(t))
	run(t, s, leafOriginal+" DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci")
	if err := s.Migrate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	addTag(t, s, "orders", 2000)
	wantTag(t, s, model.TagRequest{Tag: "Orders"}, model.TagSegment{First: 1, End: 2001, Step: 2000})
	if _, err := s.DeleteTag(t.Context(), "Orders"); !errors.Is(err, model.ErrUnknownTag) {
		t.Error(err)
	}
	if _, _, err := s.ChangeTag(t.Context(), "ORDERS", model.TagChange{Step: ptr(int64(1))}); !errors.Is(err, model.ErrUnknownTag) {
		t.Error(err)
	}
	if _, err := s.DeleteTag(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	made, err := s.CreateTag(t.Context(), model.Tag{Name: "ORDERS", MaxID: 1, Step: 10})
	if err != nil || made.MaxID != 2001 {
		t.Errorf("made %+v, %v", made, err)
	}
}
