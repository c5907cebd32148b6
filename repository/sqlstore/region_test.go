//go:build unix

package sqlstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// in is a store on the same database in a region.
func in(t *testing.T, s *Store, r model.Region) *Store {
	t.Helper()
	opts := s.opts
	opts.Region = r
	return beside(t, s, opts)
}

// issue takes a number of every kind.
func issue(t *testing.T, s *Store) (errs []error) {
	t.Helper()
	_, tag := s.AllocateTag(t.Context(), model.TagRequest{Tag: "orders", Step: 1})
	_, lease := s.GrantLease(t.Context(), "gophers", "")
	_, node := s.registerStart(t.Context(), aStart("x", 4, 1))
	section := s.AllocateSections(t.Context(),
		[]model.SectionRequest{{Key: model.SectionKey{Space: "chat"}, Life: "a-1", Want: 1}}, "", true)
	if errors.Is(section[0].Err, model.ErrSectionBusy) { // it has numbers
		section[0].Err = nil
	}
	return []error{one(s, key(7, 0), 0).Err, tag, lease, node, section[0].Err}
}

func addAll(t *testing.T, s *Store) {
	t.Helper()
	provision(t, s, app(7))
	check.Must(t, check.Err(s.CreateTag(t.Context(), model.Tag{Name: "orders", MaxID: 1, Step: 10})))
	gophers := model.Name{Name: "gophers", Layout: model.NameLayout(1, 4, 12, 0), Hold: 10 * time.Second}
	check.Must(t, check.Err(s.CreateName(t.Context(), gophers)))
	check.Must(t, check.Err(s.CreateSpace(t.Context(), model.Space{Name: "chat", Sections: 1, Step: 1})))
}

// The first number stores the region. From then on every other process is refused, of another
// region or of none, whatever it asks for.
func TestRegionStays(t *testing.T) {
	onBoth(t, func(t *testing.T, none *Store) {
		r := model.Region{ID: 1, Bits: 2}
		own := in(t, none, r)
		addAll(t, own)
		check.Must(t, errors.Join(issue(t, own)...))
		check.OK(t, own.CheckRegion(t.Context()), "check")
		for _, other := range []model.Region{{}, {ID: 2, Bits: 2}, {ID: 1, Bits: 3}} {
			s := in(t, none, other)
			check.Is(t, s.CheckRegion(t.Context()), model.ErrLayoutChanged, other.String())
			for i, err := range issue(t, s) {
				if err == nil {
					t.Errorf("region %v issues with %d", other, i)
				}
			}
			_, err := s.AdoptRegion(t.Context())
			if err == nil {
				t.Errorf("region %v is adopted", other)
			}
		}
		check.OK(t, errors.Join(issue(t, in(t, none, r))...), "the same region")
	})
}

// What was issued without a region belongs to region 0, or to nobody knows which.
func TestRegionOfAUsedDatabase(t *testing.T) {
	zero, first := model.Region{Bits: 2}, model.Region{ID: 1, Bits: 2}
	const scrambled = "INSERT INTO shardid_scramble (app_id, secret_sum) VALUES (7, 'x')"
	const deleted = "INSERT INTO id_alloc_deleted (app_id, shard_id, max_id) VALUES (7, 0, 1000)"
	const numbered = "INSERT INTO shardid_number (biz_tag, pattern, reset_by, zone, overflow) " +
		"VALUES ('orders', '%s', '%s', 'UTC', 'refuse')"
	const lease = "INSERT INTO shardid_lease VALUES ('gophers', %d, '', '', 1, 2, 3, 0)"
	for name, c := range map[string]struct {
		use                 []string
		zero, first, adopts bool
	}{
		"nothing":     {nil, true, true, true},
		"queue":       {[]string{"UPDATE id_alloc SET max_id = 1000 WHERE shard_id = 0"}, true, false, true},
		"a long list": {[]string{"UPDATE id_alloc SET max_id = 200000000000000"}, false, false, false},
		"scrambled": {[]string{scrambled, "UPDATE id_alloc SET max_id = 1 WHERE shard_id = 0"}, false, false,
			false},
		"deleted scrambled": {[]string{scrambled, deleted}, false, false, false},
		"deleted app":       {[]string{deleted}, true, false, true},
		"tag":               {[]string{"UPDATE leaf_alloc SET max_id = 11"}, false, false, true},
		"shard bits": {[]string{"UPDATE leaf_alloc SET max_id = 11", fmt.Sprintf(numbered, "{shard:10}", "none")},
			false, false, true},
		"pattern": {[]string{"UPDATE leaf_alloc SET max_id = 11", fmt.Sprintf(numbered, "{yyyy}-{seq:8}", "year")},
			false, false, true},
		"tag of before": {[]string{"UPDATE leaf_alloc SET max_id = 11",
			"INSERT INTO leaf_alloc_deleted (biz_tag, max_id) VALUES ('orders', 5)"}, false, false, true},
		"snowflakes":  {[]string{"INSERT INTO id_layout (kind, layout) VALUES ('snowflake', 'x')"}, false, false, true},
		"sequences":   {[]string{"UPDATE shardid_section SET max_id = 1"}, false, false, true},
		"lease":       {[]string{fmt.Sprintf(lease, 0)}, true, false, true},
		"fifth lease": {[]string{fmt.Sprintf(lease, 0), fmt.Sprintf(lease, 4)}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *Store) {
				addAll(t, s)
				run(t, s, c.use...)
				for r, may := range map[model.Region]bool{zero: c.zero, first: c.first} {
					err := in(t, s, r).CheckRegion(t.Context())
					if may && err != nil || !may && !errors.Is(err, model.ErrLayoutChanged) {
						t.Errorf("region %v: %v", r, err)
					}
					if taken := one(in(t, s, r), key(7, 5), 0); !may && taken.Err == nil {
						t.Errorf("region %v takes %+v", r, taken)
					}
					if may {
						run(t, s, "UPDATE shardid_deployment SET region = ''",
							"UPDATE id_alloc SET max_id = 0 WHERE shard_id = 5")
					}
				}
				check.Is(t, check.Err(in(t, s, first).AdoptRegion(t.Context())), model.ErrRefused, "region 1 adopts")
				start, err := in(t, s, zero).AdoptRegion(t.Context())
				if (err == nil) != c.adopts {
					t.Fatalf("adopted: %+v, %v", start, err)
				}
				if again, err := in(t, s, zero).AdoptRegion(t.Context()); c.adopts &&
					(err != nil || len(again.Tags) != len(start.Tags)) {
					t.Errorf("adopted again: %+v, %v", again, err)
				}
				// 1…10 were issued
				bits := map[string]uint{"tag": 0, "shard bits": 10, "tag of before": 0}
				if want, is := bits[name]; is && (len(start.Tags) != 1 ||
					start.Tags[0] != model.TagStart{Tag: "orders", MaxID: 3, ShardBits: want}) {
					t.Errorf("tags elsewhere begin at %+v", start)
				}
				if name == "pattern" && (len(start.Tags) > 0 || len(start.Texts) != 1) {
					t.Errorf("a text may come from elsewhere: %+v", start)
				}
				if name == "sequences" && (len(start.Spaces) != 1 || start.Spaces[0] != "chat") {
					t.Errorf("spaces %+v", start)
				}
			})
		})
	}
}

// Each region leases its own worker IDs, and what has none is refused.
func TestRegionLeases(t *testing.T) {
	onBoth(t, func(t *testing.T, none *Store) {
		s := in(t, none, model.Region{ID: 3, Bits: 2})
		addAll(t, s)
		for want := int64(12); want < 16; want++ {
			lease, err := s.GrantLease(t.Context(), "gophers", "")
			check.OK(t, err, "lease")
			check.Equal(t, lease.WorkerID, want, "worker ID")
		}
		check.Is(t, check.Err(s.GrantLease(t.Context(), "gophers", "")), model.ErrNoWorkerID, "a fifth")
		check.Is(t, check.Err(s.CreateName(t.Context(), model.Name{Name: "few", Layout: model.NameLayout(1, 1, 12, 0),
			Hold: 10 * time.Second})), model.ErrInvalidArgument, "too few bits")
		check.Is(t, check.Err(s.CreateApp(t.Context(),
			model.App{ID: 8, Name: "limited", Step: 1, Limit: model.Limit{MaxID: 1 << 40, Policy: model.LimitReject}})),
			model.ErrInvalidArgument, "a limit")
		check.Is(t, check.Err(s.CreateTag(t.Context(), model.Tag{Name: "high", MaxID: 1 << 61, Step: 1})),
			model.ErrInvalidArgument, "a tag that could issue nothing")
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{MinIndex: ptr(int64(1) << 47)})),
			model.ErrInvalidArgument, "an app that could issue nothing")
	})
}
