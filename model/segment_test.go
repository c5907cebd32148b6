package model_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

func state(last, step int64) model.AllocState {
	return model.AllocState{Counter: model.Counter{Last: last}, Step: step}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestNextSegment(t *testing.T) {
	key := model.ListKey{App: 1, Shard: 2}
	const most = model.MaxIndex
	up := func(last int64) model.Limit { return model.Limit{MaxID: key.Compose(last), Policy: model.LimitReject} }
	none, wrap := model.Limit{}, model.Limit{MaxID: key.Compose(10), Policy: model.LimitWrap}
	never := time.Time{}
	plain, grow := model.AllocRequest{MaxStep: 1e6}, model.AllocRequest{MaxStep: 1e6, Grow: true}
	bounded := model.AllocRequest{Grow: true, MaxStep: 5000}
	floor := func(n int64) model.AllocRequest { return model.AllocRequest{Floor: n, MaxStep: 1e6} }
	row := func(last int64, at time.Time, step, current int64, limit model.Limit) model.AllocState {
		return model.AllocState{Counter: model.Counter{Last: last, At: at}, Key: key, Step: step, CurrentStep: current,
			Limit: limit}
	}
	at := func(last int64) model.AllocState { return row(last, never, 1000, 0, none) }
	aged := func(age time.Duration, current int64) model.AllocState {
		return row(0, noon.Add(-age), 1000, current, none)
	}
	region := at(0)
	region.Region = model.Region{ID: 2, Bits: 2}
	region.Last = region.Region.MaxIndex()
	for name, c := range map[string]struct {
		row  model.AllocState // max_id, when it was, the table's step and that of the last segment, the limit
		req  model.AllocRequest
		want any // the segment and the step to store, or an error
	}{
		"first":                                     {at(0), plain, "1…1000 of 1000"},
		"continues after max_id":                    {at(5000), plain, "5001…6000 of 1000"},
		"lifted above the floor":                    {at(5000), floor(25_000), "25001…26000 of 1000"},
		"a floor below max_id changes nothing":      {at(5000), floor(4999), "5001…6000 of 1000"},
		"a negative max_id counts as 0":             {row(-7, never, 10, 0, none), plain, "1…10 of 10"},
		"demand doubles the step":                   {aged(14*time.Minute, 4000), grow, "1…8000 of 8000"},
		"a segment that vanished does not":          {aged(time.Second, 4000), plain, "1…4000 of 4000"},
		"up to the bound":                           {aged(time.Second, 4000), bounded, "1…5000 of 5000"},
		"15 to 30 minutes keep it":                  {aged(20*time.Minute, 4000), grow, "1…4000 of 4000"},
		"30 minutes halve it":                       {aged(30*time.Minute, 4000), grow, "1…2000 of 2000"},
		"never below the table's":                   {aged(time.Hour, 1000), plain, "1…1000 of 1000"},
		"but for the bound":                         {at(0), model.AllocRequest{MaxStep: 10}, "1…10 of 10"},
		"a hundredth of what is left under a limit": {row(7, never, 1000, 0, up(10)), plain, "8…8 of 1"},
		"a small space is not taken by doubling":    {row(0, noon, 10, 1000, up(10_000)), grow, "1…100 of 100"},
		"wrap continues past the limit":             {row(10, never, 5, 0, wrap), plain, "11…15 of 5"},
		"cut at the last index":                     {at(most - 2), plain, fmt.Sprintf("%d…%d of 1000", most-1, most)},

		"at the limit":           {row(10, never, 1000, 0, up(10)), plain, model.ErrLimitReached},
		"beyond the limit":       {row(99, never, 1000, 0, up(10)), plain, model.ErrLimitReached},
		"limit too small":        {row(0, never, 1000, 0, up(0)), plain, model.ErrLimitReached},
		"last index":             {at(most), plain, model.ErrLimitReached},
		"wrap, last index":       {row(most, never, 1000, 0, wrap), plain, model.ErrLimitReached},
		"last index of a region": {region, plain, model.ErrLimitReached},
	} {
		t.Run(name, func(t *testing.T) {
			a, after, err := c.row.Next(c.req, noon)
			if refusal, isRefused := c.want.(error); isRefused {
				check.Is(t, err, refusal)
				check.Equal(t, a, model.Allocation{})
				return
			}
			check.Must(t, err)
			got := fmt.Sprintf("%d…%d of %d", a.Segment.First, a.Segment.Last, after.CurrentStep)
			check.Equal(t, got, fmt.Sprint(c.want))
			if after.Last != a.Segment.Last || !after.At.Equal(noon) {
				t.Errorf("state to store: %+v", after)
			}
		})
	}
}

func TestLimitApply(t *testing.T) {
	for _, c := range []struct {
		limit model.Limit
		id    int64
		want  int64
		err   error
	}{
		{model.Limit{}, 99, 99, nil},
		{model.Limit{MaxID: 99, Policy: model.LimitReject}, 99, 99, nil},
		{model.Limit{MaxID: 99, Policy: model.LimitReject}, 100, 0, model.ErrLimitReached},
		{model.Limit{MaxID: 99, Policy: model.LimitWrap}, 98, 98, nil},
		{model.Limit{MaxID: 99, Policy: model.LimitWrap}, 99, 0, nil},
		{model.Limit{MaxID: 99, Policy: model.LimitWrap}, 100, 1, nil},
		{model.Limit{MaxID: 99}, 100, 0, model.ErrLimitReached},
	} {
		if got, err := c.limit.Apply(c.id); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%+v.Apply(%d) = %d, %v, want %d, %v", c.limit, c.id, got, err, c.want, c.err)
		}
	}
}

// What the row lacks of what was issued is told as a lift, and the segment is above it. The witness' mark rises
// before a commit: above the row it tells of a commit that failed, unless the database has changed meanwhile.
func TestNextTellsALift(t *testing.T) {
	for name, c := range map[string]struct{ lastMaxID, floor, mark, first, lifted int64 }{
		"a floor above the row":             {floor: 25_000, first: 25_001, lifted: 20_000},
		"a commit that failed":              {floor: 5000, mark: 6000, first: 6001},
		"a max_id that was lowered by hand": {lastMaxID: 9000, first: 9001, lifted: 4000},
	} {
		s := state(5000, 1000)
		s.Key, s.LastMaxID = model.ListKey{App: 1}, c.lastMaxID
		req := model.AllocRequest{Floor: c.floor, Mark: c.mark, MaxStep: 1e6}
		a, _, err := s.Next(req, noon)
		if err != nil || a.Segment.First != c.first || a.Lifted != c.lifted || a.Jumped != 0 {
			t.Errorf("%s: Next = %+v, %v", name, a, err)
		}
	}
	for changed, lifted := range map[bool]int64{false: 0, true: 1000} {
		l := model.AllocRequest{Mark: 6000, Changed: changed, MaxStep: 1e6}
		if a, _, err := state(5000, 1000).Next(l, noon); err != nil || a.Lifted != lifted || a.Segment.First != 6001 {
			t.Errorf("changed %v: of a list Next = %+v, %v", changed, a, err)
		}
		row, req := model.Counter{Last: 5000}, model.TagRequest{Tag: "a", Step: 10, Changed: changed}
		if s, _, err := req.Next(row, 10, 6000, noon, noon); err != nil || s.Lifted != lifted || s.First != 6001 {
			t.Errorf("changed %v: of a tag Next = %+v, %v", changed, s, err)
		}
	}
}

func TestSameServer(t *testing.T) {
	one := model.Server{ID: "h", BootedAt: noon, Life: "8a1b-02fc00000001-1"}
	for name, c := range map[string]struct {
		id        string
		later     time.Duration
		life      string
		is, again bool
	}{
		"itself":                         {"h", 2 * time.Second, one.Life, true, true},
		"by an older shardid":            {"h", 0, "", true, true},
		"restarted within ten seconds":   {"h", 10 * time.Second, "", false, true},
		"restarted":                      {"h", time.Minute, "8a1c-02fc00000001-1", false, true},
		"restarted, by an older shardid": {"h", time.Minute, "", false, true},
		"restarted at once":              {"h", time.Second, "8a1c-02fc00000001-1", false, true},
		"on another machine":             {"h", time.Second, "8a1c-02fc00000002-1", false, false},
		"another number":                 {"h", 0, "8a1b-02fc00000001-2", false, false},
		"another name, by an older one":  {"i", 0, "", false, false},
	} {
		other := model.Server{ID: c.id, BootedAt: noon.Add(c.later), Life: c.life}
		for _, pair := range [][2]model.Server{{one, other}, {other, one}} {
			if is, again := pair[0].Is(pair[1]), pair[0].Again(pair[1]); is != c.is || again != c.again {
				t.Errorf("%s: the same life %v, the same server %v", name, is, again)
			}
		}
	}
}
