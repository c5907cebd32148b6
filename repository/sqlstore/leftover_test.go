package sqlstore

import (
	"slices"
	"testing"

	"shardid/model"
)

func leftovers() []model.Leftover {
	return []model.Leftover{
		{Key: key(1, 0), Segment: model.Segment{First: 11, Last: 20}},
		{Key: key(1, 0), Segment: model.Segment{First: 31, Last: 40}},
		{Key: key(1, 63), Segment: model.Segment{First: 5, Last: 5}},
	}
}

// What was kept is taken out once.
func TestLeftovers(t *testing.T) {
	s := openMigrated(t, Options{Driver: SQLite, DSN: t.TempDir() + "/x.db"})
	provision(t, s, app(1))
	wantLeftovers(t, s, nil)
	if err := s.KeepLeftovers(t.Context(), leftovers()); err != nil {
		t.Fatal(err)
	}
	wantLeftovers(t, s, leftovers())
	wantLeftovers(t, s, nil)
}

// After max_id was raised, higher indices may be in use: the rest is a gap. So it is
// when the app was removed, or another program took a segment.
func TestLeftoversOfARaisedListAreNotUsed(t *testing.T) {
	for name, change := range map[string]string{
		"raised":  "UPDATE id_alloc SET max_id = 1000 WHERE shard_id = 0",
		"removed": "DELETE FROM id_alloc WHERE shard_id = 0",
	} {
		t.Run(name, func(t *testing.T) {
			s := openMigrated(t, Options{Driver: SQLite, DSN: t.TempDir() + "/x.db"})
			provision(t, s, app(1))
			if err := s.KeepLeftovers(t.Context(), leftovers()); err != nil {
				t.Fatal(err)
			}
			run(t, s, change)
			wantLeftovers(t, s, leftovers()[2:])
			wantLeftovers(t, s, nil)
		})
	}
}

// A server may go back in time, so it keeps nothing.
func TestLeftoversAreNotForServers(t *testing.T) {
	s := open(t, Options{Driver: MySQL, DSN: "nobody@tcp(127.0.0.1:1)/x"})
	if err := s.KeepLeftovers(t.Context(), leftovers()); err != nil {
		t.Error(err)
	}
	wantLeftovers(t, s, nil)
}

func wantLeftovers(t *testing.T, s *Store, want []model.Leftover) {
	t.Helper()
	got, err := s.TakeLeftovers(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
