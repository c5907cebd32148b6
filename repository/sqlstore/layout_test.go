//go:build unix

package sqlstore

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

func TestCheckLayout(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		one := model.LayoutRecord{Kind: "uid", Layout: "28/22/13 from 2026-01-01"}
		for range 2 { // it records nothing
			check.OK(t, s.CheckLayout(t.Context(), one))
			check.OK(t, s.CheckLayout(t.Context(), model.LayoutRecord{Kind: "uid", Layout: "another"}))
		}
		check.Must(t, check.Err(s.LayoutOnce(t.Context(), one)))
		check.OK(t, s.CheckLayout(t.Context(), one))
		if err := s.CheckLayout(t.Context(), model.LayoutRecord{Kind: "uid", Layout: "another"}); !errors.Is(err, model.ErrLayoutChanged) {
			t.Errorf("another layout: %v", err)
		}
		run(t, s, "DROP TABLE id_layout")
		wantAdvice(t, s.CheckLayout(t.Context(), one), "shardid migrate")
	})
}

func TestLayoutAge(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		age := func() time.Duration {
			t.Helper()
			d, err := s.LayoutAge(t.Context(), "uid")
			check.Must(t, err)
			return d
		}
		check.Equal(t, age(), 0, "none is recorded, age")
		check.Must(t, check.Err(s.LayoutOnce(t.Context(), model.LayoutRecord{Kind: "uid", Layout: "x"})))
		first := age()
		time.Sleep(20 * time.Millisecond)
		if later := age(); first < 0 || later < first+15*time.Millisecond || later > time.Minute {
			t.Errorf("recorded now: %v, then %v", first, later)
		}
		if s.server == nil {
			run(t, s, "UPDATE id_layout SET recorded_at = datetime('now', '-1 hour')")
		} else {
			run(t, s, "UPDATE id_layout SET recorded_at = CURRENT_TIMESTAMP - INTERVAL 1 HOUR")
		}
		if d := age(); d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("recorded an hour ago, age %v", d)
		}
		run(t, s, "DROP TABLE id_layout")
		_, err := s.LayoutAge(t.Context(), "uid")
		wantAdvice(t, err, "shardid migrate")
	})
}
