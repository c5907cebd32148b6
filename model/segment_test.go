package model_test

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
)

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
			model.AllocState{MaxID: 5000, Step: 1000}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 5001, Last: 6000}, 1000,
		},
		"lifted above the floor": {
			model.AllocState{MaxID: 5000, Step: 1000}, model.AllocRequest{Floor: 25000, MaxStep: 1e6},
			model.Segment{First: 25001, Last: 26000}, 1000,
		},
		"a floor below max_id changes nothing": {
			model.AllocState{MaxID: 5000, Step: 1000}, model.AllocRequest{Floor: 4999, MaxStep: 1e6},
			model.Segment{First: 5001, Last: 6000}, 1000,
		},
		"a negative max_id counts as 0": {
			model.AllocState{MaxID: -7, Step: 10}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 1, Last: 10}, 10,
		},
		"demand doubles the step": {
			model.AllocState{Step: 1000, CurrentStep: 4000, AllocatedAt: noon.Add(-14 * time.Minute)}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 8000}, 8000,
		},
		"a segment that vanished does not": {
			model.AllocState{Step: 1000, CurrentStep: 4000, AllocatedAt: noon.Add(-time.Second)}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 1, Last: 4000}, 4000,
		},
		"up to the bound": {
			model.AllocState{Step: 1000, CurrentStep: 4000, AllocatedAt: noon.Add(-time.Second)}, model.AllocRequest{Grow: true, MaxStep: 5000},
			model.Segment{First: 1, Last: 5000}, 5000,
		},
		"15 to 30 minutes keep it": {
			model.AllocState{Step: 1000, CurrentStep: 4000, AllocatedAt: noon.Add(-20 * time.Minute)}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 4000}, 4000,
		},
		"30 minutes halve it": {
			model.AllocState{Step: 1000, CurrentStep: 4000, AllocatedAt: noon.Add(-30 * time.Minute)}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 2000}, 2000,
		},
		"never below the table's": {
			model.AllocState{Step: 1000, CurrentStep: 1000, AllocatedAt: noon.Add(-time.Hour)}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 1, Last: 1000}, 1000,
		},
		"not even by the bound": {
			model.AllocState{Step: 1000}, model.AllocRequest{MaxStep: 10},
			model.Segment{First: 1, Last: 1000}, 1000,
		},
		"cut at the limit": {
			model.AllocState{MaxID: 7, Step: 1000, Limit: reject(10)}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 8, Last: 10}, 1000,
		},
		"a small space is not taken by doubling": {
			model.AllocState{Step: 10, CurrentStep: 1000, AllocatedAt: noon, Limit: reject(10000)}, model.AllocRequest{Grow: true, MaxStep: 1e6},
			model.Segment{First: 1, Last: 100}, 100,
		},
		"wrap goes on past the limit": {
			model.AllocState{MaxID: 10, Step: 5, Limit: model.Limit{MaxID: key.Compose(10), Policy: model.LimitWrap}}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: 11, Last: 15}, 5,
		},
		"cut at the last index": {
			model.AllocState{MaxID: model.MaxIndex - 2, Step: 1000}, model.AllocRequest{MaxStep: 1e6},
			model.Segment{First: model.MaxIndex - 1, Last: model.MaxIndex}, 1000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.state.Key = key
			got, after, err := c.state.Next(c.req, noon, model.Server{})
			if err != nil || got != c.want {
				t.Fatalf("Next = %v, %v, want %v", got, err, c.want)
			}
			if after.MaxID != got.Last || after.CurrentStep != c.step || !after.AllocatedAt.Equal(noon) {
				t.Fatalf("state to store: %+v, want max_id %d, step %d", after, got.Last, c.step)
			}
		})
	}
}

func TestNextAtTheLimit(t *testing.T) {
	key := model.ListKey{App: 1, Shard: 2}
	for name, s := range map[string]model.AllocState{
		"limit":            {MaxID: 10, Limit: model.Limit{MaxID: key.Compose(10), Policy: model.LimitReject}},
		"beyond the limit": {MaxID: 99, Limit: model.Limit{MaxID: key.Compose(10), Policy: model.LimitReject}},
		"limit too small":  {MaxID: 0, Limit: model.Limit{MaxID: 5, Policy: model.LimitReject}},
		"last index":       {MaxID: model.MaxIndex},
		"wrap, last index": {MaxID: model.MaxIndex, Limit: model.Limit{MaxID: 7, Policy: model.LimitWrap}},
	} {
		s.Key, s.Step = key, 1000
		if seg, _, err := s.Next(model.AllocRequest{MaxStep: 1e6}, noon, model.Server{}); !errors.Is(err, model.ErrLimitReached) || seg != (model.Segment{}) {
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
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
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
		if err := app.Validate(); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("%s: Validate = %v", name, err)
		}
	}
}

func TestJump(t *testing.T) {
	key := model.ListKey{App: 1, Shard: 2}
	was := model.Server{ID: "db", BootedAt: noon.Add(-24 * time.Hour)}
	restarted := model.Server{ID: "db", BootedAt: noon.Add(-time.Minute)}
	other := model.Server{ID: "db2", BootedAt: was.BootedAt}
	row := model.AllocState{
		Key: key, MaxID: 5000, Step: 100, AllocatedAt: noon.Add(-10 * time.Second),
		Server: was, History: "h1", LastMaxID: 5000,
	}
	lost := model.AllocRequest{History: "h2", Marked: true, MaxStep: 100, MaxRate: 300}
	for name, c := range map[string]struct {
		change func(*model.AllocState, *model.AllocRequest)
		on     model.Server
		want   int64 // left out; -1 for ErrUnconfirmed
	}{
		"both stores are others":            {nil, restarted, 3400},
		"another server":                    {nil, other, 3400},
		"the list lost its mark":            {func(_ *model.AllocState, r *model.AllocRequest) { r.History, r.Marked = "h1", false }, restarted, 3400},
		"the database alone":                {func(_ *model.AllocState, r *model.AllocRequest) { r.History = "h1" }, restarted, 0},
		"the lists alone":                   {nil, was, 0},
		"a boot time read five seconds off": {nil, model.Server{ID: "db", BootedAt: was.BootedAt.Add(5 * time.Second)}, 0},
		"six seconds are a restart":         {nil, model.Server{ID: "db", BootedAt: was.BootedAt.Add(6 * time.Second)}, 3400},
		"a file":                            {nil, model.Server{}, 0},
		"a row of before the rule":          {func(s *model.AllocState, _ *model.AllocRequest) { s.Server = model.Server{} }, restarted, 0},
		"a clock that went back":            {func(s *model.AllocState, _ *model.AllocRequest) { s.AllocatedAt = noon.Add(time.Hour) }, restarted, 400},
		"what is known counts":              {func(_ *model.AllocState, r *model.AllocRequest) { r.Floor = 8000 }, restarted, 400},
		"and may be enough":                 {func(_ *model.AllocState, r *model.AllocRequest) { r.Floor = 9000 }, restarted, 0},
		"a raise does not":                  {func(s *model.AllocState, _ *model.AllocRequest) { s.MaxID = 8000 }, restarted, 400},
		"a long step is a rate":             {func(s *model.AllocState, _ *model.AllocRequest) { s.Step = 1000 }, restarted, 12_000},
		"a small space waits": {func(s *model.AllocState, _ *model.AllocRequest) {
			s.Limit = model.Limit{MaxID: key.Compose(5000 + 339_999), Policy: model.LimitReject}
		}, restarted, -1},
		"a larger one does not": {func(s *model.AllocState, _ *model.AllocRequest) {
			s.Limit = model.Limit{MaxID: key.Compose(5000 + 340_000), Policy: model.LimitReject}
		}, restarted, 3400},
	} {
		t.Run(name, func(t *testing.T) {
			state, req := row, lost
			if c.change != nil {
				c.change(&state, &req)
			}
			segment, next, err := state.Next(req, noon, c.on)
			if c.want < 0 {
				if !errors.Is(err, model.ErrUnconfirmed) || segment != (model.Segment{}) {
					t.Fatalf("Next = %v, %v", segment, err)
				}
				return
			}
			if got := state.Answer(req, segment).Jumped; err != nil || got != c.want || segment.First != max(state.MaxID, req.Floor)+c.want+1 {
				t.Fatalf("Next = %v, %v, jumped %d, want %d", segment, err, got, c.want)
			}
			if next.Server != c.on || next.History != req.History {
				t.Fatalf("state to store: %+v", next)
			}
			if again, _, err := next.Next(req, noon, c.on); err != nil || again.First != segment.Last+1 {
				t.Fatalf("the one after: %v, %v", again, err)
			}
		})
	}
}

func TestAnswerTellsALift(t *testing.T) {
	s := model.AllocState{Key: model.ListKey{App: 1}, MaxID: 5000, Step: 1000}
	req := model.AllocRequest{Floor: 25_000, MaxStep: 1e6}
	segment, _, err := s.Next(req, noon, model.Server{})
	if a := s.Answer(req, segment); err != nil || a.Lifted != 20_000 || a.Jumped != 0 || a.Segment != segment {
		t.Errorf("Answer = %+v, %v", a, err)
	}
}
