package model_test

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
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
	f.Add("{MM}{dd}-{seq:3}", "none", "", "widen", int64(1_835_395_200), int64(7)) // 29 February
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

// Shard bits are kept as a numbering, which nothing else is taken for.
func TestShardNumbering(t *testing.T) {
	for bits := range int64(17) {
		n, err := model.ShardNumbering(bits)
		check.Must(t, err)
		check.Equal(t, n.ShardBits(), uint(bits))
		numbers, err := n.Numbers()
		check.OK(t, err)
		check.Equal(t, numbers, nil, "how texts are shown")
	}
	for _, bits := range []int64{-1, 17, math.MaxInt64} {
		check.Is(t, check.Err(model.ShardNumbering(bits)), model.ErrInvalidArgument, bits)
	}
	ten, _ := model.ShardNumbering(10)
	for _, change := range []func(*model.Numbering){
		func(n *model.Numbering) { n.Pattern = "{shard:17}" }, func(n *model.Numbering) { n.Pattern = "{shard:010}" },
		func(n *model.Numbering) { n.Pattern = "{shard:10" }, func(n *model.Numbering) { n.Reset = model.ResetDay },
		func(n *model.Numbering) { n.Zone = "+08:00" }, func(n *model.Numbering) { n.Overflow = model.OverflowWiden },
	} {
		other := ten
		change(&other)
		check.Is(t, check.Err(other.Numbers()), model.ErrInvalidArgument, other)
		check.Equal(t, other.ShardBits(), 0, other)
	}
	check.Equal(t, fmt.Sprint(ten, model.Numbering{}), "10 shard bits plain IDs")
}

// A key is given where there are shard bits, and nowhere else.
func TestLowBits(t *testing.T) {
	given, later := model.ShardKey{Given: true, Value: math.MaxUint64 - 1}, model.ShardKey{Later: true}
	for _, c := range []struct {
		key  model.ShardKey
		bits uint
		want int64
	}{{given, 1, 0}, {given, 10, 1022}, {given, 16, 65534}, {later, 16, 0}, {model.ShardKey{}, 0, 0}} {
		low, err := c.key.Low("orders", c.bits)
		check.OK(t, err)
		check.Equal(t, low, c.want, c)
	}
	for remedy, key := range map[string]model.ShardKey{"leave the shard key out": given, "leave the": later} {
		_, err := key.Low("orders", 0)
		check.Is(t, err, model.ErrInvalidArgument)
		check.Has(t, err.Error(), remedy)
	}
	_, err := model.ShardKey{}.Low("orders", 10)
	check.Is(t, err, model.ErrInvalidArgument)
	check.Has(t, err.Error(), "send a shard key")
}

// The parts of an ID of a tag are its number and what its key says, with the region where there is one.
func TestDecodeSegment(t *testing.T) {
	r := model.Region{ID: 1, Bits: 2}
	for want, d := range map[string]model.Decoder{
		"[{number 5} {shard 666}]":            {},
		"[{region 1} {number 1} {shard 666}]": {Region: r},
	} {
		parts, err := d.Decode(model.KindSegment, 5<<10|666, 10)
		check.OK(t, err)
		check.Equal(t, fmt.Sprint(parts), want)
	}
	for _, c := range []struct {
		kind string
		id   int64
		bits int
	}{{model.KindSegment, 0, 1}, {model.KindSegment, 1, 17}, {model.KindSegment, 1, -1}, {model.KindUID, 1, 1}} {
		check.Is(t, check.Err(model.Decoder{}.Decode(c.kind, c.id, c.bits)), model.ErrInvalidArgument, c)
	}
}

// numberWorld is a counterWorld whose numbers are shown with periods of a minute. Its
// replicas' clocks differ from the database's by up to model.MaxClockApart.
type numberWorld struct {
	*counterWorld
	numbers *model.Numbers
	width   int64 // most of a sequence; 0 is no bound
	local   time.Time
	shown   map[int64][]model.Segment // sequences by period
	wrong   error
}

func newNumberWorld(seed uint64) *numberWorld {
	numbering := model.Numbering{Pattern: "{yyyyMMdd}{seq:9}", Reset: model.ResetDay}
	w := &numberWorld{counterWorld: newCounterWorld(seed), shown: map[int64][]model.Segment{}}
	if seed%5 == 0 {
		numbering.Pattern, numbering.Overflow, w.width = "{yyyyMMdd}{seq:5}", model.OverflowRefuse, 99_999
	}
	w.numbers = model.NumbersOfMinutes(numbering, noon)
	w.row.counter.PeriodBits = w.numbers.Bits()
	w.counterWorld.choose, w.counterWorld.used = w.choose, w.used
	return w
}

func (w *numberWorld) choose(row model.Counter, floor, want int64) (first, n int64, next model.Counter, err error) {
	apart := model.MaxClockApart
	if w.chance(2) {
		apart = w.upTo(apart)
	}
	if w.chance(2) {
		apart = -apart
	}
	w.local = w.Clock().Add(apart)
	p, _ := w.numbers.Period(w.local)
	s, next, err := model.TagRequest{Step: want, Numbers: w.numbers}.Next(row, 1, floor, w.Clock(), w.local)
	if err == nil && row.Doubt == 0 && floor <= row.Last && p > w.numbers.PeriodOf(row.Last) &&
		w.numbers.Sequence(s.First) != 1 {
		w.wrong = fmt.Errorf("period %d begins with %d", p, w.numbers.Sequence(s.First))
	}
	return s.First, s.End - s.First, next, err
}

// used notes the texts of numbers.
func (w *numberWorld) used(first, n int64) {
	p, sequence := w.numbers.PeriodOf(first), w.numbers.Sequence(first)
	now, _ := w.numbers.Period(w.local)
	switch {
	case w.wrong != nil:
	case p < now:
		w.wrong = fmt.Errorf("numbers of period %d in period %d", p, now)
	case w.width > 0 && sequence+n-1 > w.width:
		w.wrong = fmt.Errorf("%d…%d has too many digits", sequence, sequence+n-1)
	}
	w.shown[p] = append(w.shown[p], model.Segment{First: sequence, Last: sequence + n - 1})
}

func (w *numberWorld) check() error {
	for p, issued := range w.shown {
		sort.Slice(issued, func(i, j int) bool { return issued[i].First < issued[j].First })
		for i := 1; i < len(issued); i++ {
			if issued[i].First <= issued[i-1].Last {
				return fmt.Errorf("in period %d %v and %v overlap", p, issued[i-1], issued[i])
			}
		}
	}
	return w.wrong
}

// Whatever the database, its witness and the clocks do, no text is issued twice.
func TestSimulationNumbers(t *testing.T) {
	check.Deep(t)
	simtest.Simulation[string]{
		Worlds: *counterWorlds, Least: map[string]float64{"segments": 200, "periods": 5, "jumps": 1},
		World: func(_ *testing.T, seed uint64, _ string) (simtest.Tally, error) {
			w := newNumberWorld(seed)
			for range 600 {
				w.step()
			}
			return simtest.Tally{"segments": len(w.issued), "periods": len(w.shown), "jumps": w.jumps}, w.check()
		},
	}.Run(t)
}
