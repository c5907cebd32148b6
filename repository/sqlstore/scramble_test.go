//go:build unix

package sqlstore

import (
	"fmt"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

func scrambledApp(id uint8) model.App {
	a := app(id)
	a.Scramble = true
	return a
}

// loadOne gives what Load says about the first list, and what it says of rows that cannot
// be used.
func loadOne(t *testing.T, s *Store) (list model.ListConfig, bad []error) {
	t.Helper()
	s.opts.OnBadRow = func(err error) { bad = append(bad, err) }
	lists, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(lists) > 0 {
		list = lists[0]
	}
	return list, bad
}

// A scrambled app stays one, with one secret, whatever is done to it.
func TestScrambledStays(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, scrambledApp(7))
		provision(t, s, app(8))
		list, _ := loadOne(t, s)
		secret := list.Scramble
		if len(secret) < 50 {
			t.Fatalf("the secret is %q", secret)
		}
		if plain, err := s.App(t.Context(), 8); err != nil || plain.Scramble {
			t.Errorf("%+v, %v", plain, err)
		}
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{MaxLimitID: ptr(int64(1) << 40)})),
			model.ErrInvalidArgument, "a limit")
		if a, err := s.App(t.Context(), 7); err != nil || a.App != scrambledApp(7) {
			t.Errorf("%+v, %v", a, err)
		}
		check.OK(t, s.Migrate(t.Context(), nil), "again")
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
		check.Is(t, check.Err(s.CreateApp(t.Context(), app(7))), model.ErrRefused, "plain again")
		check.Must(t, check.Err(s.CreateApp(t.Context(), scrambledApp(7))))
		if list, bad := loadOne(t, s); list.Scramble != secret || bad != nil {
			t.Errorf("now the secret is %q, %v", list.Scramble, bad)
		}
		wantSegment(t, one(s, key(7, 3), 0), 1001, 2000)

		// By hand, too: its rows come back, and are scrambled.
		run(t, s, "DELETE FROM id_alloc WHERE app_id = 7")
		run(t, s, "INSERT INTO id_alloc (app_id, app_name, max_id, shard_id) VALUES (7, 'test', 5000, 0)")
		if list, _ := loadOne(t, s); list.Scramble != secret {
			t.Errorf("a row by hand has the secret %q", list.Scramble)
		}

		// One that has issued plain IDs is not scrambled later; one that issued none may be.
		provision(t, s, app(9))
		wantSegment(t, one(s, key(8, 0), 0), 1, 1000)
		for id := range uint8(2) {
			check.Must(t, check.Err(s.DeleteApp(t.Context(), 8+id, "test")))
		}
		check.Is(t, check.Err(s.CreateApp(t.Context(), scrambledApp(8))), model.ErrRefused, "with plain IDs")
		check.OK(t, check.Err(s.CreateApp(t.Context(), scrambledApp(9))), "without any")
		check.OK(t, check.Err(s.CreateApp(t.Context(), app(8))), "as it was")
	})
}

// With another secret, or none, IDs would repeat: the app is left out, and says why. A database that takes the place of
// a lost one scrambles no app with another secret.
func TestScrambleSecretChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, scrambledApp(7))
		const secret = "UPDATE shardid_deployment SET deployment = 'lost', witness = '', scramble_secret = "
		for _, other := range []string{"''", "'another'", "'unknown'"} {
			run(t, s, secret+other)
			list, bad := loadOne(t, s)
			if list.Scramble != "" || len(bad) != model.Shards ||
				!strings.Contains(bad[0].Error(), "restore scramble_secret of shardid_deployment from a backup") {
				t.Errorf("%s: %+v, %v", other, list, bad)
			}
		}
		check.OK(t, s.Migrate(t.Context(), nil), "which makes a secret where there is none")
		err := check.Err(s.CreateApp(t.Context(), scrambledApp(8)))
		check.Is(t, err, model.ErrRefused, "before the secret is known")
		check.Has(t, fmt.Sprint(err), "the place of deployment lost, whose secret")
		run(t, s, secret+"'of the backup'", "UPDATE id_alloc SET max_limit_id = 1000000")
		provision(t, s, scrambledApp(6))
		list, bad := loadOne(t, s)
		check.Equal(t, list.Scramble, "of the backup")
		check.Equal(t, len(bad), model.Shards, "rows that cannot be used")
	})
}
