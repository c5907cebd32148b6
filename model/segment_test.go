package model_test

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
)

func state(last, step int64) model.AllocState {
	return model.AllocState{Counter: model.Counter{Last: last}, Step: step}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestNextSegment(t *testing.T) {
	key := model.ListKey{App: 1, Shard: 2}
	none := model.Limit{}
	reject := func(last int64) model.Limit {
		return model.Limit{MaxID: key.Compose(last), Policy: model.LimitReject}
	}
	wrap := model.Limit{MaxID: key.Compose(10), Policy: model.LimitWrap}
	const most = model.MaxIndex
	never, ago := time.Time{}, func(d time.Duration) time.Time { return noon.Add(-d) }
	plain := model.AllocRequest{MaxStep: 1e6}
	grow := model.AllocRequest{MaxStep: 1e6, Grow: true}
	for name, c := range map[string]struct {
		last          int64 // max_id
		at            time.Time
		step, current int64 // of the table, and of the last segment
		limit         model.Limit
		req           model.AllocRequest
		first, end    int64 // of the segment
		next          int64 // step
	}{
		"first":                  {0, never, 1000, 0, none, plain, 1, 1000, 1000},
		"continues after max_id": {5000, never, 1000, 0, none, plain, 5001, 6000, 1000},
		"lifted above the floor": {5000, never, 1000, 0, none, model.AllocRequest{Floor: 25_000, MaxStep: 1e6}, 25_001,
			26_000, 1000},
		"a floor below max_id changes nothing": {5000, never, 1000, 0, none,
			model.AllocRequest{Floor: 4999, MaxStep: 1e6},
			5001, 6000, 1000},
		"a negative max_id counts as 0":    {-7, never, 10, 0, none, plain, 1, 10, 10},
		"demand doubles the step":          {0, ago(14 * time.Minute), 1000, 4000, none, grow, 1, 8000, 8000},
		"a segment that vanished does not": {0, ago(time.Second), 1000, 4000, none, plain, 1, 4000, 4000},
		"up to the bound": {0, ago(time.Second), 1000, 4000, none, model.AllocRequest{Grow: true, MaxStep: 5000},
			1, 5000, 5000},
		"15 to 30 minutes keep it": {0, ago(20 * time.Minute), 1000, 4000, none, grow, 1, 4000, 4000},
		"30 minutes halve it":      {0, ago(30 * time.Minute), 1000, 4000, none, grow, 1, 2000, 2000},
		"never below the table's":  {0, ago(time.Hour), 1000, 1000, none, plain, 1, 1000, 1000},
		"but for the bound": {0, never, 1000, 0, none, model.AllocRequest{MaxStep: 10}, 1, 10,
			10},
		"a hundredth of what is left under a limit": {7, never, 1000, 0, reject(10), plain, 8, 8, 1},
		"a small space is not taken by doubling":    {0, noon, 10, 1000, reject(10_000), grow, 1, 100, 100},
		"wrap continues past the limit":             {10, never, 5, 0, wrap, plain, 11, 15, 5},
		"cut at the last index":                     {most - 2, never, 1000, 0, none, plain, most - 1, most, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			before := model.AllocState{Counter: model.Counter{Last: c.last, At: c.at}, Key: key, Step: c.step,
				CurrentStep: c.current, Limit: c.limit}
			a, after, err := before.Next(c.req, noon)
			if err != nil || a.Segment != (model.Segment{First: c.first, Last: c.end}) {
				t.Fatalf("Next = %v, %v, want %d…%d", a.Segment, err, c.first, c.end)
			}
			if after.Last != c.end || after.CurrentStep != c.next || !after.At.Equal(noon) {
				t.Fatalf("state to store: %+v, want max_id %d, step %d", after, c.end, c.next)
			}
		})
	}
}

func TestNextAtTheLimit(t *testing.T) {
	key := model.ListKey{App: 1, Shard: 2}
	region := model.Region{ID: 2, Bits: 2}
	for name, c := range map[string]struct {
		last   int64
		limit  model.Limit
		region model.Region
	}{
		"limit":                  {10, model.Limit{MaxID: key.Compose(10), Policy: model.LimitReject}, model.Region{}},
		"beyond the limit":       {99, model.Limit{MaxID: key.Compose(10), Policy: model.LimitReject}, model.Region{}},
		"limit too small":        {0, model.Limit{MaxID: 5, Policy: model.LimitReject}, model.Region{}},
		"last index":             {model.MaxIndex, model.Limit{}, model.Region{}},
		"wrap, last index":       {model.MaxIndex, model.Limit{MaxID: 7, Policy: model.LimitWrap}, model.Region{}},
		"last index of a region": {region.MaxIndex(), model.Limit{}, region},
	} {
		s := state(c.last, 1000)
		s.Key, s.Limit, s.Region = key, c.limit, c.region
		if seg, _, err := s.Next(model.AllocRequest{MaxStep: 1e6}, noon); !errors.Is(err, model.ErrLimitReached) ||
			seg != (model.Allocation{}) {
			t.Errorf("%s: Next = %v, %v", name, seg, err)
		}
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
