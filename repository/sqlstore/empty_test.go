//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// empty is the care that asks for an empty segment.
func empty() model.Care {
	var l model.Losses
	l.Lost(1)
	return l.Care
}

// emptyList takes an empty segment of a list, emptyTag one of a tag.
func emptyList(ctx context.Context, s *Store, k model.ListKey) model.Allocation {
	return s.Allocate(ctx, []model.AllocRequest{{Key: k, MaxStep: model.MaxStep, Care: empty()}})[0]
}

func emptyTag(ctx context.Context, s *Store, tag string) (model.TagSegment, error) {
	return s.AllocateTag(ctx, model.TagRequest{Tag: tag, Care: empty()})
}

func TestEmptySegmentsTakeNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		addTag(t, s, "a", 10)
		for i := range int64(2) {
			for range 3 {
				wantSegment(t, emptyList(t.Context(), s, key(1, 0)), 1000*i+1, 1000*i)
				got, err := emptyTag(t.Context(), s, "a")
				if want := (model.TagSegment{First: 10*i + 1, End: 10*i + 1, Step: 10}); err != nil || got != want {
					t.Fatalf("%+v, %v, want %+v", got, err, want)
				}
			}
			wantSegment(t, one(s, key(1, 0), 0), 1000*i+1, 1000*i+1000)
			wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: 10*i + 1, End: 10*i + 11, Step: 10})
		}
	})
}

// A semi-synchronous server whose replica is away answers no COMMIT: that of an empty
// segment neither, which costs nothing, and it is answered as soon as others are.
func TestEmptySegmentsShowThatCommitsGetNoAnswer(t *testing.T) {
	if testserver.OnMySQL() {
		t.Skip("the plugin has to be installed there")
	}
	server := testserver.MariaDB(t, "--log-bin=b", "--server-id=1", "--rpl-semi-sync-master-timeout=3600000")
	dsn := withDSN(t, server.NewDatabase(t), func(c *gosql.Config) { c.ReadTimeout = 300 * time.Millisecond })
	s := openMigrated(t, Options{Driver: MySQL, DSN: dsn, ListRate: 1e9, TagRate: 1e9})
	provision(t, s, app(1))
	addTag(t, s, "a", 10)
	wantSegment(t, one(s, key(1, 0), 0), 1, 1000)
	run(t, s, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
	fails := func(f func(context.Context) error) {
		t.Helper()
		var away *model.StoreError
		if err := f(t.Context()); !errors.As(err, &away) {
			t.Fatalf("got %v, want no answer", err)
		}
	}
	fails(func(ctx context.Context) error {
		return s.Allocate(ctx, []model.AllocRequest{{Key: key(1, 0), MaxStep: model.MaxStep}})[0].Err
	})
	for range 5 {
		fails(func(ctx context.Context) error { return emptyList(ctx, s, key(1, 0)).Err })
		fails(func(ctx context.Context) error { return check.Err(emptyTag(ctx, s, "a")) })
	}
	run(t, s, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
	wantSegment(t, emptyList(t.Context(), s, key(1, 0)), 2001, 2000)
	check.Must(t, check.Err(emptyTag(t.Context(), s, "a")))
	wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: 1, End: 11, Step: 10})
}
