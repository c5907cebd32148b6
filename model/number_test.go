package model_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

func numbers(t testing.TB, n model.Numbering) *model.Numbers {
	t.Helper()
	p, err := n.Numbers()
	check.Must(t, err)
	return p
}

func TestNumberingIsChecked(t *testing.T) {
	for text, n := range map[string]model.Numbering{
		"give `pattern`":  {Reset: model.ResetDay},
		"`reset` must be": {Pattern: "{yyyyMMdd}{seq:8}"},
		"`overflow` must be": {Pattern: "{yyyyMMdd}{seq:8}", Reset: model.ResetDay,
			Overflow: "wrap"},
		"show all of {yyyyMMdd}":              {Pattern: "{yyyyMM}{seq:8}", Reset: model.ResetDay},
		"show all of {yyyyMM}":                {Pattern: "{yyyy}-{dd}{seq:8}", Reset: model.ResetMonth},
		"show all of {yyyy}":                  {Pattern: "{MM}{seq:8}", Reset: model.ResetYear},
		"write {seq:N} once":                  {Pattern: "{seq:8}{seq:8}", Reset: model.ResetNone},
		"write {seq:N} in the pattern":        {Pattern: "ORD-{yyyy}", Reset: model.ResetYear},
		"1…18":                                {Pattern: "{seq:19}", Reset: model.ResetNone},
		"has {seq:08}":                        {Pattern: "{seq:08}", Reset: model.ResetNone},
		"the field {yy}":                      {Pattern: "{yy}{seq:8}", Reset: model.ResetNone},
		"brace that belongs to none":          {Pattern: "a}{seq:8}", Reset: model.ResetNone},
		"or {seq:N}: the pattern has a brace": {Pattern: "{seq:8", Reset: model.ResetNone},
		"cannot be printed":                   {Pattern: "a\n{seq:8}", Reset: model.ResetNone},
		"remove the space":                    {Pattern: " a{seq:8}", Reset: model.ResetNone},
		"at most 64": {Pattern: strings.Repeat("a", 57) + "{seq:8}",
			Reset: model.ResetNone},
		"at most 128": {Pattern: strings.Repeat("a", 150) + "{seq:8}",
			Reset: model.ResetNone},
		`such as Asia/Shanghai, not "Mars/Olympus"`: {Pattern: "{seq:8}", Reset: model.ResetNone, Zone: "Mars/Olympus"},
		`such as Asia/Shanghai, not "Local"`:        {Pattern: "{seq:8}", Reset: model.ResetNone, Zone: "Local"},
		`up to 18 hours, not "+5:30"`:               {Pattern: "{seq:8}", Reset: model.ResetNone, Zone: "+5:30"},
		`up to 18 hours, not "-19:00"`:              {Pattern: "{seq:8}", Reset: model.ResetNone, Zone: "-19:00"},
		`such as Asia/Shanghai, not "../../etc/x"`:  {Pattern: "{seq:8}", Reset: model.ResetNone, Zone: "../../etc/x"},
		"in UTF-8":                      {Pattern: "\xff{seq:8}", Reset: model.ResetNone},
		"`reset` must be day, month, y": {Pattern: "{seq:8}", Reset: "week"},
	} {
		_, err := n.Numbers()
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", n, err, text)
		}
	}
	if plain, err := (model.Numbering{}).Numbers(); plain != nil || err != nil {
		t.Errorf("a plain tag: %v, %v", plain, err)
	}
}

// One time in each zone, and the first text of its period.
func TestNumbersShowPeriods(t *testing.T) {
	at := time.Date(2026, 11, 30, 16, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		n    model.Numbering
		want string
	}{
		{model.Numbering{Pattern: "ORD-{yyyyMMdd}-{seq:8}", Reset: model.ResetDay}, "ORD-20261130-00000001"},
		{model.Numbering{Pattern: "ORD-{yyyyMMdd}-{seq:8}", Reset: model.ResetDay, Zone: "Asia/Shanghai"},
			"ORD-20261201-00000001"},
		{model.Numbering{Pattern: "{dd}.{MM}.{yyyy}/{seq:1}", Reset: model.ResetDay, Zone: "+07:29"}, "30.11.2026/1"},
		{model.Numbering{Pattern: "{yyyyMM}发票{seq:4}", Reset: model.ResetMonth, Zone: "-12:00"}, "202611发票0001"},
		{model.Numbering{Pattern: "{yyyyMMdd}-{seq:4}", Reset: model.ResetMonth, Zone: "+07:30"}, "20261201-0001"},
		{model.Numbering{Pattern: "{yyyy}{seq:4}", Reset: model.ResetYear}, "20260001"},
		{model.Numbering{Pattern: "C{seq:6}", Reset: model.ResetNone}, "C000001"},
	} {
		n := numbers(t, c.n)
		period, err := n.Period(at)
		check.Must(t, err)
		check.Equal(t, string(n.Append(nil, period<<n.Bits()+1, at)), c.want)
	}
	n := numbers(t, model.Numbering{Pattern: "{yyyyMMdd}-{seq:4}", Reset: model.ResetMonth})
	period, _ := n.Period(at)
	id := period<<n.Bits() + 7
	check.Equal(t, string(n.Append(nil, id, at.AddDate(0, 2, 0))), "20261130-0007", "a clock that is past the period")
	check.Equal(t, string(n.Append(nil, id, at.AddDate(0, -2, 0))), "20261101-0007", "a clock that went back")
	for _, year := range []int{1969, 2400, 10_000} {
		_, err := n.Period(time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC))
		check.Is(t, err, model.ErrTimeExhausted, year)
	}
}

// Where clocks go back at midnight, a period begins no later than its first second.
func TestPeriodsBeginWithTheirFirstSecond(t *testing.T) {
	for _, zone := range []string{"UTC", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Pacific/Apia",
		"-03:30"} {
		n := numbers(t, model.Numbering{Pattern: "{yyyyMMdd}{seq:4}", Reset: model.ResetDay, Zone: zone})
		before := int64(0)
		for at := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2013; at = at.Add(10 * time.Minute) {
			period, err := n.Period(at)
			check.Must(t, err)
			if begins := n.Begins(period); period > before && begins.After(at) || at.Sub(begins) > 28*time.Hour {
				t.Fatalf("%s: period %d begins %v, and it is %v", zone, period, begins, at)
			}
			before = max(before, period)
		}
	}
}

// A sequence that outgrows its width gets more digits, or is refused; none leaves its
// period.
func TestNumbersStopAtTheLimit(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for overflow, want := range map[model.Overflow]int64{model.OverflowRefuse: 999, model.OverflowWiden: 1<<47 - 1} {
		n := numbers(t, model.Numbering{Pattern: "{yyyyMMdd}{seq:3}", Reset: model.ResetDay, Overflow: overflow})
		period, _ := n.Period(at)
		start := period << n.Bits()
		req := model.TagRequest{Tag: "t", Step: 100, Numbers: n}
		var s model.TagSegment
		var err error
		next := model.Counter{Last: start + want - 3}
		for left := int64(3); left > 0; left-- { // a lost segment would cost a hundredth at most
			s, next, err = req.Next(next, 100, 0, at, at)
			if err != nil || s.First != start+want+1-left || s.End != s.First+1 {
				t.Fatalf("%s: %+v, %v", overflow, s, err)
			}
		}
		_, _, err = req.Next(next, 100, 0, at, at)
		check.Is(t, err, model.ErrLimitReached)
		for _, day := range []int{1, 0} { // the next one has begun, whatever the clock says then
			s, _, err = req.Next(next, 100, 0, at, at.AddDate(0, 0, day))
			check.Must(t, err)
			check.Equal(t, s.First, max((period+1)<<n.Bits()+1, req.Floor), "after", day, "days")
			req.Floor = s.End
		}
	}
	last := numbers(t, model.Numbering{Pattern: "{seq:18}", Reset: model.ResetNone}).Last(0)
	check.Equal(t, last, int64(math.MaxInt64-1), "without periods")
}

// A text gives its ID back, so no two IDs have one text.
func FuzzNumbers(f *testing.F) {
	f.Add("ORD-{yyyyMMdd}-{seq:8}", "day", "Asia/Shanghai", "widen", int64(1_795_000_000), int64(1))
	f.Add("{dd}{MM}{yyyy}{seq:1}9", "day", "+05:37", "widen", int64(1_795_000_000), int64(99_999_999))
	f.Add("{yyyyMM}{seq:4}{yyyy}", "month", "", "refuse", int64(1_795_000_000), int64(9999))
	f.Add("{seq:3}", "none", "", "widen", int64(1_795_000_000), int64(math.MaxInt64-1))
	f.Fuzz(func(t *testing.T, pattern, reset, zone, overflow string, unix, sequence int64) {
		n, err := model.Numbering{Pattern: pattern, Reset: model.Reset(reset), Zone: zone,
			Overflow: model.Overflow(overflow)}.Numbers()
		at := time.Unix(unix%(1<<36), 0)
		if err != nil || n == nil {
			return
		}
		period, err := n.Period(at)
		if err != nil {
			return
		}
		id := period<<n.Bits() | sequence&(1<<n.Bits()-1)
		if id > n.Last(period) || n.Sequence(id) < 1 {
			return
		}
		for _, shown := range []time.Time{at, at.AddDate(0, 0, 40), at.AddDate(-1, 0, 0)} {
			if y := shown.Year(); y < 1971 || y > 9998 {
				continue // Period refuses such a clock
			}
			text := string(n.Append(nil, id, shown))
			if back, err := n.ID(text); err != nil || back != id {
				t.Fatalf("%+v: %d is %q, which is %d, %v", n.Numbering, id, text, back, err)
			}
		}
	})
}

func TestTextsOfOthersAreRefused(t *testing.T) {
	n := numbers(t, model.Numbering{Pattern: "O-{yyyyMMdd}-{seq:4}", Reset: model.ResetDay})
	for _, text := range []string{"", "O-20261122-001", "P-20261122-0001", "O-20261322-0001", "O-20260022-0001",
		"O-20260230-0001", "O-20261122-00001",
		"O-20261122-0000", "O-20261122-+001", "O-20261122-0001 ", "O-99991122-0001",
		fmt.Sprintf("O-20261122-%d", int64(1)<<47)} {
		check.Is(t, check.Err(n.ID(text)), model.ErrInvalidArgument, text)
	}
}
