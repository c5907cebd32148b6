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
	num := func(n int64) *int64 { return &n }
	policy := func(p LimitPolicy) *LimitPolicy { return &p }
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		limit  Limit
		change AppChange
		err    error
		says   string
	}{
		"name":    {none, AppChange{Name: text("订单")}, nil, ""},
		"no name": {none, AppChange{Name: text("")}, ErrInvalidArgument, "name"},
		"a long description": {none, AppChange{Description: text(strings.Repeat("单", 256))},
			ErrInvalidArgument, "255"},
		"a line end in the name":       {none, AppChange{Name: text("a\nb")}, ErrInvalidArgument, "U+000A"},
		"an escape in the description": {none, AppChange{Description: text("\x1b[31m")}, ErrInvalidArgument, "U+001B"},
		"not UTF-8":                    {none, AppChange{Description: text("\xff")}, ErrInvalidArgument, "UTF-8"},
		"step":                         {none, AppChange{Step: num(MaxStep)}, nil, ""},
		"step 0":                       {none, AppChange{Step: num(0)}, ErrInvalidArgument, "step"},
		"step too long":                {none, AppChange{Step: num(MaxStep + 1)}, ErrInvalidArgument, "step"},
		"limit raised":                 {reject, AppChange{MaxLimitID: num(key.Compose(9000))}, nil, ""},
		"limit taken off":              {reject, AppChange{MaxLimitID: num(0)}, nil, ""},
		"limit lowered above":          {reject, AppChange{MaxLimitID: num(key.Compose(1001))}, nil, ""},
		"limit at the last issued ID":  {reject, AppChange{MaxLimitID: num(issued)}, nil, ""},
		"limit below an issued ID": {reject, AppChange{MaxLimitID: num(issued - 1)}, ErrRefused,
			"may have been issued"},
		"negative limit": {reject, AppChange{MaxLimitID: num(-1)}, ErrInvalidArgument, "negative"},
		"wrap unconfirmed": {reject, AppChange{LimitPolicy: policy(LimitWrap)}, ErrInvalidArgument,
			`"orders"`},
		"wrap confirmed": {reject, AppChange{LimitPolicy: policy(LimitWrap), Confirm: "orders"}, nil,
			""},
		"wrap without a limit": {none, AppChange{LimitPolicy: policy(LimitWrap), Confirm: "orders"},
			ErrInvalidArgument, "needs a max limit"},
		"wrap below an issued ID": {none, AppChange{LimitPolicy: policy(LimitWrap), MaxLimitID: num(issued - 1),
			Confirm: "orders"}, ErrRefused, "repeat"},
		"wrap past the limit": {passed, AppChange{LimitPolicy: policy(LimitWrap), Confirm: "orders"}, nil,
			""},
		"wrap past it, another fold": {passed,
			AppChange{LimitPolicy: policy(LimitWrap), MaxLimitID: num(key.Compose(600)), Confirm: "orders"}, ErrRefused,
			"repeat"},
		"wrap past it, with a floor": {passed, AppChange{LimitPolicy: policy(LimitWrap), MinIndex: num(2000),
			Confirm: "orders"}, ErrRefused, "repeat"},
		"unknown policy": {reject, AppChange{LimitPolicy: policy("what")}, ErrInvalidArgument, "reject"},
		"back to reject": {wrap, AppChange{LimitPolicy: policy(LimitReject)}, nil, ""},
		"back, but passed": {wrapped, AppChange{LimitPolicy: policy(LimitReject)}, ErrRefused,
			"may have been issued"},
		"back above what was composed": {wrapped, AppChange{LimitPolicy: policy(LimitReject), MaxLimitID: num(issued)},
			nil, ""},
		"back without a limit": {wrapped, AppChange{LimitPolicy: policy(LimitReject), MaxLimitID: num(0)}, nil,
			""},
		"wrapped, another step":         {wrapped, AppChange{Step: num(5)}, nil, ""},
		"floor that is reached":         {wrapped, AppChange{MinIndex: num(10)}, nil, ""},
		"floor":                         {reject, AppChange{MinIndex: num(4999)}, nil, ""},
		"floor at the limit":            {reject, AppChange{MinIndex: num(5001)}, ErrRefused, "leave no ID"},
		"floor that would wrap at once": {wrap, AppChange{MinIndex: num(5001)}, ErrRefused, "repeat"},
		"negative floor":                {none, AppChange{MinIndex: num(-1)}, ErrInvalidArgument, "minIndex"},
		"floor that leaves nothing":     {none, AppChange{MinIndex: num(MaxIndex)}, ErrInvalidArgument, "minIndex"},
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
