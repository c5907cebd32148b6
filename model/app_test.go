package model

import (
	"errors"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// What may be changed of an app of which IDs up to index 1000 have been issued.
func TestAppChange(t *testing.T) {
	key := ListKey{App: 7, Shard: 63}
	issued := key.Compose(1000)
	reject := Limit{MaxID: key.Compose(5000), Policy: LimitReject}
	none := Limit{Policy: LimitReject}
	wrap := Limit{MaxID: key.Compose(5000), Policy: LimitWrap}
	wrapped := Limit{MaxID: key.Compose(500), Policy: LimitWrap} // its IDs have passed it
	passed := Limit{MaxID: key.Compose(500), Policy: LimitReject}
	invalid, refused := ErrInvalidArgument, ErrRefused
	named := func(s string) AppChange { return AppChange{Name: &s} }
	described := func(s string) AppChange { return AppChange{Description: &s} }
	step := func(n int64) AppChange { return AppChange{Step: &n} }
	limit := func(n int64) AppChange { return AppChange{MaxLimitID: &n} }
	floor := func(n int64) AppChange { return AppChange{MinIndex: &n} }
	policy := func(p LimitPolicy, c AppChange) AppChange { c.LimitPolicy = &p; return c }
	rejected := func(c AppChange) AppChange { return policy(LimitReject, c) }
	confirmed := func(c AppChange) AppChange { c.Confirm = "orders"; return policy(LimitWrap, c) }
	for name, c := range map[string]struct {
		limit  Limit
		change AppChange
		err    error
		says   string
	}{
		"name":                          {none, named("订单"), nil, ""},
		"no name":                       {none, named(""), invalid, "name"},
		"a long description":            {none, described(strings.Repeat("单", 256)), invalid, "255"},
		"a line end in the name":        {none, named("a\nb"), invalid, "U+000A"},
		"an escape in the description":  {none, described("\x1b[31m"), invalid, "U+001B"},
		"not UTF-8":                     {none, described("\xff"), invalid, "UTF-8"},
		"step":                          {none, step(MaxStep), nil, ""},
		"step 0":                        {none, step(0), invalid, "step"},
		"step too long":                 {none, step(MaxStep + 1), invalid, "step"},
		"limit raised":                  {reject, limit(key.Compose(9000)), nil, ""},
		"limit taken off":               {reject, limit(0), nil, ""},
		"limit lowered above":           {reject, limit(key.Compose(1001)), nil, ""},
		"limit at the last issued ID":   {reject, limit(issued), nil, ""},
		"limit below an issued ID":      {reject, limit(issued - 1), refused, "may have been issued"},
		"negative limit":                {reject, limit(-1), invalid, "not -1"},
		"wrap unconfirmed":              {reject, policy(LimitWrap, AppChange{}), invalid, `"orders"`},
		"wrap confirmed":                {reject, confirmed(AppChange{}), nil, ""},
		"wrap without a limit":          {none, confirmed(AppChange{}), invalid, "give `maxLimitId`"},
		"wrap below an issued ID":       {none, confirmed(limit(issued - 1)), refused, "repeat"},
		"wrap past the limit":           {passed, confirmed(AppChange{}), nil, ""},
		"wrap past it, another fold":    {passed, confirmed(limit(key.Compose(600))), refused, "repeat"},
		"wrap past it, with a floor":    {passed, confirmed(floor(2000)), refused, "repeat"},
		"unknown policy":                {reject, policy("what", AppChange{}), invalid, "reject"},
		"back to reject":                {wrap, rejected(AppChange{}), nil, ""},
		"back, but passed":              {wrapped, rejected(AppChange{}), refused, "may have been issued"},
		"back above what was composed":  {wrapped, rejected(limit(issued)), nil, ""},
		"back without a limit":          {wrapped, rejected(limit(0)), nil, ""},
		"wrapped, another step":         {wrapped, step(5), nil, ""},
		"floor that is reached":         {wrapped, floor(10), nil, ""},
		"floor":                         {reject, floor(4999), nil, ""},
		"floor at the limit":            {reject, floor(5001), refused, "leave no ID"},
		"floor that would wrap at once": {wrap, floor(5001), refused, "repeat"},
		"negative floor":                {none, floor(-1), invalid, "minIndex"},
		"floor that leaves nothing":     {none, floor(MaxIndex), invalid, "minIndex"},
	} {
		t.Run(name, func(t *testing.T) {
			app := App{ID: 7, Name: "orders", Step: 1000, Limit: c.limit}
			lists := []ListConfig{{Key: ListKey{App: 7}, Limit: c.limit}, {Key: key, MaxID: 1000, Limit: c.limit}}
			next, err := c.change.Apply(app, lists)
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %v with %q", err, c.err, c.says)
			}
			if err == nil && c.change.Step != nil && next.Step != *c.change.Step {
				t.Errorf("got %+v", next)
			}
		})
	}
}

func TestTagChange(t *testing.T) {
	num := func(n int64) *int64 { return &n }
	tag := Tag{Name: "orders", MaxID: 5001, Step: 1000}
	if next, err := (TagChange{MaxID: num(9000), Step: num(7)}).Apply(tag); err != nil || next.MaxID != 9000 ||
		next.Step != 7 {
		t.Errorf("%+v, %v", next, err)
	}
	if next, err := (TagChange{MaxID: num(5001)}).Apply(tag); err != nil || next != tag {
		t.Errorf("%+v, %v", next, err)
	}
	check.Is(t, check.Err((TagChange{MaxID: num(5000)}).Apply(tag)), ErrRefused, "max_id was lowered")
	description := "a\u202eb"
	check.Is(t, check.Err((TagChange{Description: &description}).Apply(tag)), ErrInvalidArgument,
		"a description that turns the text around")
}

// Names of all languages are good, and what tables of others hold stays changeable.
func TestCheckText(t *testing.T) {
	check.OK(t, CheckText("", "orders 1", "订单", "नमस्ते", "سفارش\u200cها", "👩‍💻"))
	for _, bad := range []string{"a\nb", "\x00", "\x7f", "\u0085", "\u2028", "a\u202e", "\t"} {
		check.Is(t, CheckText("good", bad), ErrInvalidArgument, bad)
	}
	step := int64(7)
	if _, err := (AppChange{Step: &step}).Apply(App{Name: "a\nb", Step: 1, Limit: Limit{Policy: LimitReject}},
		nil); err != nil {
		t.Errorf("the step of an app with an odd name: %v", err)
	}
}
