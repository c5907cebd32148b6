package model_test

import (
	"errors"
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
	reject := func(last int64) model.Limit {
		return model.Limit{MaxID: key.Compose(last), Policy: model.LimitReject}
	}
	for name, c := range map[string]struct {
		state model.AllocState
		req   model.AllocRequest
		want  model.Segment
		step  int64
	}{
		"first": {
			model.AllocState{Step: 1000}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 1, Last: 1000}, 1000,
		},
		"goes on after max_id": {
			model.AllocState{Counter: model.Counter{Last: 5000}, Step: 1000}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 5001, Last: 6000}, 1000,
		},
		"lifted above the floor": {
			model.AllocState{Counter: model.Counter{Last: 5000}, Step: 1000}, model.AllocRequest{Floor: 25000, MaxStep: 1e6},
			model.Segment{First: 25001, Last: 26000}, 1000,
		},
		"a floor below max_id changes nothing": {
			model.AllocState{Counter: model.Counter{Last: 5000}, Step: 1000}, model.AllocRequest{Floor: 4999, MaxStep: 1e6},
			model.Segment{First: 5001, Last: 6000}, 1000,
		},
		"a negative max_id counts as 0": {
			model.AllocState{Counter: model.Counter{Last: -7}, Step: 10}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 1, Last: 10}, 10,
		},
		"demand doubles the step": {
			model.AllocState{Counter: model.Counter{At: noon.Add(-14 * time.Minute)}, Step: 1000, CurrentStep: 4000}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 8000}, 8000,
		},
		"a segment that vanished does not": {
			model.AllocState{Counter: model.Counter{At: noon.Add(-time.Second)}, Step: 1000, CurrentStep: 4000}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 1, Last: 4000}, 4000,
		},
		"up to the bound": {
			model.AllocState{Counter: model.Counter{At: noon.Add(-time.Second)}, Step: 1000, CurrentStep: 4000}, model.AllocRequest{Grow: true, MaxStep: 5000},
			model.Segment{First: 1, Last: 5000}, 5000,
		},
		"15 to 30 minutes keep it": {
			model.AllocState{Counter: model.Counter{At: noon.Add(-20 * time.Minute)}, Step: 1000, CurrentStep: 4000}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 4000}, 4000,
		},
		"30 minutes halve it": {
			model.AllocState{Counter: model.Counter{At: noon.Add(-30 * time.Minute)}, Step: 1000, CurrentStep: 4000}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 2000}, 2000,
		},
		"never below the table's": {
			model.AllocState{Counter: model.Counter{At: noon.Add(-time.Hour)}, Step: 1000, CurrentStep: 1000}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 1, Last: 1000}, 1000,
		},
		"not even by the bound": {
			model.AllocState{Step: 1000}, model.AllocRequest{MaxStep: 10},
			model.Segment{First: 1, Last: 1000}, 1000,
		},
		"a hundredth of what is left under a limit": {
			model.AllocState{Counter: model.Counter{Last: 7}, Step: 1000, Limit: reject(10)}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 8, Last: 8}, 1,
		},
		"a small space is not taken by doubling": {
			model.AllocState{Counter: model.Counter{At: noon}, Step: 10, CurrentStep: 1000, Limit: reject(10000)}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 100}, 100,
		},
		"wrap goes on past the limit": {
			model.AllocState{Counter: model.Counter{Last: 10}, Step: 5, Limit: model.Limit{MaxID: key.Compose(10), Policy: model.LimitWrap}}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 11, Last: 15}, 5,
		},
		"cut at the last index": {
			model.AllocState{Counter: model.Counter{Last: model.MaxIndex - 2}, Step: 1000}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: model.MaxIndex - 1, Last: model.MaxIndex}, 1000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.state.Key = key
			a, after, err := c.state.Next(c.req, noon)
			got := a.Segment
			if err != nil || got != c.want {
				t.Fatalf("Next = %v, %v, want %v", got, err, c.want)
			}
			if after.Last != got.Last || after.CurrentStep != c.step || !after.At.Equal(noon) {
				t.Fatalf("state to store: %+v, want max_id %d, step %d", after, got.Last, c.step)
			}
		})
	}
}

func TestNextAtTheLimit(t *testing.T) {
	key := model.ListKey{App: 1, Shard: 2}
	for name, c := range map[string]struct {
		last  int64
		limit model.Limit
	}{
		"limit":            {10, model.Limit{MaxID: key.Compose(10), Policy: model.LimitReject}},
		"beyond the limit": {99, model.Limit{MaxID: key.Compose(10), Policy: model.LimitReject}},
		"limit too small":  {0, model.Limit{MaxID: 5, Policy: model.LimitReject}},
		"last index":       {model.MaxIndex, model.Limit{}},
		"wrap, last index": {model.MaxIndex, model.Limit{MaxID: 7, Policy: model.LimitWrap}},
	} {
		s := state(c.last, 1000)
		s.Key, s.Limit = key, c.limit
		if seg, _, err := s.Next(model.AllocRequest{MaxStep: 1e6}, noon); !errors.Is(err, model.ErrLimitReached) || seg != (model.Allocation{}) {
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

func TestAppValidate(t *testing.T) {
	good := model.App{Name: "test", Step: 1000, Limit: model.Limit{Policy: model.LimitReject}}
	check.Must(t, good.Validate())
	for name, change := range map[string]func(*model.App){
		"no name":           func(a *model.App) { a.Name = "" },
		"step 0":            func(a *model.App) { a.Step = 0 },
		"step above":        func(a *model.App) { a.Step = model.MaxStep + 1 },
		"negative limit":    func(a *model.App) { a.Limit.MaxID = -1 },
		"wrap, no limit":    func(a *model.App) { a.Limit.Policy = model.LimitWrap },
		"unknown policy":    func(a *model.App) { a.Limit.Policy = "wrapp" },
		"long description":  func(a *model.App) { a.Description = string(make([]rune, 256)) },
		"name of 129 runes": func(a *model.App) { a.Name = string(make([]rune, 129)) },
	} {
		app := good
		change(&app)
		check.Is(t, app.Validate(), model.ErrInvalidArgument, name, "Validate")
	}
}

func TestNextTellsALift(t *testing.T) {
	s := state(5000, 1000)
	s.Key = model.ListKey{App: 1}
	a, _, err := s.Next(model.AllocRequest{Floor: 25_000, MaxStep: 1e6}, noon)
	if err != nil || a.Lifted != 20_000 || a.Jumped != 0 || a.Segment != (model.Segment{First: 25_001, Last: 26_000}) {
		t.Errorf("Next = %+v, %v", a, err)
	}
}

// What the last segment stored counts, whatever somebody has made of max_id since.
func TestNextAboveALoweredMaxID(t *testing.T) {
	s := state(5000, 1000)
	s.LastMaxID = 9000
	if a, _, err := s.Next(model.AllocRequest{MaxStep: 1e6}, noon); err != nil || a.Segment.First != 9001 || a.Lifted != 4000 {
		t.Errorf("Next = %+v, %v", a, err)
	}
}
