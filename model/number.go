package model

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Numbering says how the IDs of a tag are shown as texts such as ORD-20261122-00000001. The
// zero value is that of a plain tag. A tag gets its numbering when it is made; it never
// changes, because two of them could give one text.
type Numbering struct {
	Pattern  string   // literal text, date fields and one {seq:N}
	Reset    Reset    // when the sequence begins at 1 again
	Zone     string   // in which days begin: UTC, +05:30, or a name such as Asia/Shanghai
	Overflow Overflow // what follows the last sequence of N digits
}

// Reset is how long a period is; each begins a new sequence.
type Reset string

// The periods.
const (
	ResetDay   Reset = "day"
	ResetMonth Reset = "month"
	ResetYear  Reset = "year"
	ResetNone  Reset = "none" // one period for ever
)

// Overflow is what happens when a sequence outgrows its width.
type Overflow string

// The ways to overflow.
const (
	OverflowWiden  Overflow = "widen"  // it gets more digits
	OverflowRefuse Overflow = "refuse" // ErrLimitReached until the next period
)

const (
	maxPattern  = 128 // characters
	maxNumber   = 64  // characters of a text whose sequence has its width
	maxSequence = 18  // digits of {seq:N}
)

// Numbers is a numbering that was checked. It maps the IDs of a tag to texts.
//
// An ID is period<<bits + sequence. The period is the number of days, months or years since
// 1970, in the tag's zone. So the tag's one counter, which only rises, says the period too:
// when one begins, the counter is raised to its start. No ID comes twice, hence no pair of
// period and sequence; the pattern names both, at known places, hence no text comes twice.
//
// The sequence has the low 47 bits for days, 51 for months, 55 for years and 63 for none.
// Days last until 2149, months until 2311, years until 2225.
type Numbers struct {
	Numbering
	// Region joins the sequences as they are shown; set before use.
	Region Region
	calendar
	fields []field
	width  int // N of {seq:N}
	zone   *time.Location
	form   func() *regexp.Regexp // of its texts, compiled when it is first needed
}

// calendar counts the periods since 1970.
type calendar struct {
	bits  uint                         // of the sequence
	shown string                       // date fields of a pattern without which texts would repeat
	index func(local time.Time) int64  // the period of a time in the zone
	date  func(period int64) time.Time // its begin, as if the zone were UTC
}

func calendars() map[Reset]calendar {
	each := func(years, months, days int) func(int64) time.Time {
		return func(period int64) time.Time {
			return time.Unix(0, 0).UTC().AddDate(years*int(period), months*int(period), days*int(period))
		}
	}
	day := func(t time.Time) int64 {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
	}
	month := func(t time.Time) int64 { return int64(t.Year()-1970)*12 + int64(t.Month()) - 1 }
	year := func(t time.Time) int64 { return int64(t.Year() - 1970) }
	return map[Reset]calendar{
		ResetDay:   {47, "yyyyMMdd", day, each(0, 0, 1)},
		ResetMonth: {51, "yyyyMM", month, each(0, 1, 0)},
		ResetYear:  {55, "yyyy", year, each(1, 0, 0)},
		ResetNone:  {63, "", func(time.Time) int64 { return 0 }, each(0, 0, 0)},
	}
}

// field is a part of a pattern: literal text, or a number.
type field struct {
	part byte // of what it is the number: 'y', 'M', 'd', or 's' for the sequence; 0 for literal text
	text string
}

// dateFields are those of a pattern, with the parts of a date that each shows.
func dateFields() map[string]string {
	return map[string]string{"yyyyMMdd": "yMd", "yyyyMM": "yM", "yyyy": "y", "MM": "M", "dd": "d"}
}

// Numbers checks a numbering. An empty Zone is UTC, and an empty Overflow widens. It gives nil
// for that of a plain tag, and of one with shard bits. Errors: ErrInvalidArgument.
func (n Numbering) Numbers() (*Numbers, error) {
	if n == (Numbering{}) || n.ShardBits() > 0 {
		return nil, nil
	}
	if n.Zone == "" {
		n.Zone = "UTC"
	}
	if n.Overflow == "" {
		n.Overflow = OverflowWiden
	}
	p := &Numbers{Numbering: n}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	p.form = sync.OnceValue(p.expression)
	return p, nil
}

// tokens are the fields of a pattern, the texts between them, and braces that belong to none.
var tokens = regexp.MustCompile(`\{[^{}]*\}|[^{}]+|.`)

func (n *Numbers) parse() (err error) {
	if n.Pattern == "" {
		return fmt.Errorf("give `pattern`, such as ORD-{yyyyMMdd}-{seq:8}: `reset`, `zone` and `overflow` need one")
	}
	if n.zone, err = parseZone(n.Zone); err != nil {
		return err
	}
	if n.Overflow != OverflowWiden && n.Overflow != OverflowRefuse {
		return fmt.Errorf("`overflow` must be %s or %s, not %q", OverflowWiden, OverflowRefuse, n.Overflow)
	}
	if err := n.parsePattern(); err != nil {
		return err
	}
	known, isReset := calendars()[n.Reset]
	if !isReset {
		return fmt.Errorf("`reset` must be %s, %s, %s or %s, not %q",
			ResetDay, ResetMonth, ResetYear, ResetNone, n.Reset)
	}
	n.calendar = known
	for _, part := range []byte(dateFields()[n.shown]) {
		if !slices.Contains(n.fields, field{part: part}) {
			return fmt.Errorf("show all of {%s} in the pattern: with reset %s texts would repeat without", n.shown,
				n.Reset)
		}
	}
	return nil
}

// parsePattern reads the fields.
func (n *Numbers) parsePattern() error {
	const help = "use {yyyyMMdd}, {yyyyMM}, {yyyy}, {MM}, {dd} or {seq:N}"
	switch {
	case !utf8.ValidString(n.Pattern) || utf8.RuneCountInString(n.Pattern) > maxPattern:
		return fmt.Errorf("write a pattern in UTF-8 of at most %d characters: it is none", maxPattern)
	case strings.TrimSpace(n.Pattern) != n.Pattern:
		return fmt.Errorf("remove the space at the beginning or the end of the pattern")
	}
	length := 0
	for _, token := range tokens.FindAllString(n.Pattern, -1) {
		kind := strings.Trim(token, "{}")
		date, isDate := dateFields()[kind]
		digits, isSequence := strings.CutPrefix(kind, "seq:")
		switch {
		case token == "{" || token == "}":
			return fmt.Errorf("%s: the pattern has a brace that belongs to none", help)
		case token == kind:
			for _, r := range token {
				if !unicode.IsPrint(r) {
					return fmt.Errorf("remove the character %q from the pattern: it cannot be printed", r)
				}
			}
			n.fields = append(n.fields, field{text: token})
			length += utf8.RuneCountInString(token)
		case isDate:
			for _, part := range []byte(date) {
				n.fields = append(n.fields, field{part: part})
			}
			length += len(kind)
		case !isSequence:
			return fmt.Errorf("%s: the pattern has the field {%s}", help, kind)
		case n.width > 0:
			return fmt.Errorf("write {seq:N} once: where one of two ends could not be told")
		default:
			width, err := strconv.ParseUint(digits, 10, 8)
			if err != nil || width < 1 || width > maxSequence || digits != strconv.FormatUint(width, 10) {
				return fmt.Errorf("write {seq:N} with the least number of digits, 1…%d: the pattern has {%s}",
					maxSequence,
					kind)
			}
			n.fields = append(n.fields, field{part: 's'})
			n.width = int(width)
		}
	}
	switch {
	case n.width == 0:
		return fmt.Errorf("write {seq:N} in the pattern: without it all texts of a day would be one")
	case length+n.width > maxNumber:
		return fmt.Errorf("shorten the pattern: its texts have %d characters, at most %d are allowed", length+n.width,
			maxNumber)
	}
	return nil
}

// parseZone reads UTC, an offset such as +05:30, or a name of the zone database.
func parseZone(name string) (*time.Location, error) {
	if name[0] == '+' || name[0] == '-' {
		offset, err := time.Parse("15:04", name[1:])
		seconds := offset.Hour()*3600 + offset.Minute()*60
		if err != nil || len(name) != len("+05:30") || seconds > 18*3600 {
			return nil, fmt.Errorf("`zone` must be an offset such as +05:30, up to 18 hours, not %q", name)
		}
		if name[0] == '-' {
			seconds = -seconds
		}
		return time.FixedZone(name, seconds), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || len(name) > 64 {
		return nil, fmt.Errorf("`zone` must be UTC, an offset such as +05:30, or a name such as Asia/Shanghai, not %q",
			name)
	}
	return zone, nil
}

// Same says whether two show IDs alike; nil is for plain IDs.
func (n *Numbers) Same(other *Numbers) bool {
	if n == nil || other == nil {
		return n == other
	}
	return n.Numbering == other.Numbering
}

// Period is the period of a time. The error is ErrTimeExhausted for a time that the IDs or
// the pattern cannot hold.
func (n *Numbers) Period(t time.Time) (int64, error) {
	local := t.In(n.zone)
	period := n.index(local)
	if y := local.Year(); y < 1970 || y > 9999 || period > math.MaxInt64>>n.bits {
		return 0, fmt.Errorf("%w: %w: it is the year %d", Do("set the clock"), ErrTimeExhausted, y)
	}
	return period, nil
}

// PeriodOf is the period of an ID.
func (n *Numbers) PeriodOf(id int64) int64 { return id >> n.bits }

// Sequence is an ID's place in its period, from 1 on.
func (n *Numbers) Sequence(id int64) int64 { return id & (1<<n.bits - 1) }

// begins is when a period begins, or a little earlier where a zone's clock goes back at
// midnight.
func (n *Numbers) begins(period int64) time.Time {
	d := n.date(period)
	t := time.Date(d.Year(), d.Month(), d.Day(), d.Hour(), d.Minute(), d.Second(), 0, n.zone)
	for n.Reset != ResetNone && n.index(t.Add(-time.Second)) >= period {
		t = t.Add(-time.Hour)
	}
	return t
}

// open raises a counter to the period of a local time, or the latest one that is known to
// have begun, and gives the highest ID of that period.
//
// In a doubt, another copy of the database may have opened any period that had begun when
// the change of the server was noted, and by JumpFrom all of these are past: numbers are
// jumped over in the latest of them. Nothing can be missing of a period that began later.
func (n *Numbers) open(c Counter, floor int64, local time.Time) (opened Counter, limit int64, err error) {
	if c.Doubt > 0 && c.JumpFrom.After(local) {
		local = c.JumpFrom
	}
	period, err := n.Period(local)
	if err != nil {
		return c, 0, err
	}
	period = max(period, n.PeriodOf(c.Last), n.PeriodOf(max(0, floor)))
	if start := period << n.bits; start > c.Last {
		c.Last = start
		known := c.JumpFrom.Unix() > 0 && c.Doubt < UnknownDoubt
		if known && n.begins(period).After(c.JumpFrom) {
			c.Doubt = 0
		}
	}
	c.PeriodBits = n.bits
	return c, n.last(period), nil
}

// Bits is how many low bits of an ID are its sequence, for Counter.PeriodBits.
func (n *Numbers) Bits() uint { return n.bits }

// last is the highest ID of a period.
func (n *Numbers) last(period int64) int64 {
	start := period << n.bits
	last := min(MaxTagID-1, start|(1<<n.bits-1))
	most := n.Region.MaxNumber(last - start)
	if n.Overflow == OverflowRefuse && n.width < 19 {
		most = min(most, n.Region.MaxNumber(int64(math.Pow10(n.width))-1))
	}
	return start + most
}

// Append appends the text of an ID that is issued at a time. Date fields finer than
// the period show that time, as far as it lies in the ID's period.
func (n *Numbers) Append(dst []byte, id int64, at time.Time) []byte {
	return n.appendAt(dst, id, at.In(n.zone))
}

func (n *Numbers) appendAt(dst []byte, id int64, local time.Time) []byte {
	y, m, d := n.day(n.PeriodOf(id), local).Date()
	for _, f := range n.fields {
		switch f.part {
		case 's':
			dst = appendPadded(dst, n.Region.Number(n.Sequence(id)), n.width)
		case 'y':
			dst = appendPadded(dst, int64(y), 4)
		case 'M':
			dst = appendPadded(dst, int64(m), 2)
		case 'd':
			dst = appendPadded(dst, int64(d), 2)
		default:
			dst = append(dst, f.text...)
		}
	}
	return dst
}

// day is the day of a local time, or that of the period which is nearest to it.
func (n *Numbers) day(period int64, local time.Time) time.Time {
	switch index := n.index(local); {
	case index < period:
		return n.date(period)
	case index > period:
		return n.date(period+1).AddDate(0, 0, -1)
	}
	return local
}

// Example is about the text that a tag's next ID will have: other replicas may hold IDs
// before it, and a period may begin. It is "" for a plain tag.
func (t Tag) Example(now time.Time) string {
	n, err := t.Numbers()
	if err != nil || n == nil {
		return ""
	}
	period, err := n.Period(now)
	if err != nil {
		return ""
	}
	return string(n.Append(nil, max(t.MaxID, period<<n.bits+1), now))
}

func appendPadded(dst []byte, value int64, width int) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], value, 10)
	for range width - len(text) {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// ID is Numbers.ID of a tag's text. Errors: ErrInvalidArgument, also for a plain tag.
func (t Tag) ID(text string) (int64, error) {
	n, err := t.Numbers()
	if err != nil {
		return 0, err
	}
	if n == nil {
		return 0, fmt.Errorf("%w: tag %q has no pattern", ErrInvalidArgument, t.Name)
	}
	return n.ID(text)
}

// ID is the ID of a text that Append made, at whatever time. Errors: ErrInvalidArgument.
func (n *Numbers) ID(text string) (int64, error) {
	wrong := fmt.Errorf("%w: %q is no number of the pattern %s", ErrInvalidArgument, text, n.Pattern)
	found := n.form().FindStringSubmatch(text)
	if found == nil {
		return 0, wrong
	}
	parts := map[byte]int64{'y': 1972, 'M': 1, 'd': 1} // of a longer period, in a year that has all days
	for _, f := range n.fields {
		if f.part != 0 {
			found = found[1:]
			parts[f.part], _ = strconv.ParseInt(found[0], 10, 64) // of what is too large another text is written
		}
	}
	sequence, err := n.Region.counted(parts['s'])
	if err != nil {
		return 0, err
	}
	date := time.Date(int(parts['y']), time.Month(parts['M']), int(parts['d']), 12, 0, 0, 0, time.UTC)
	id := n.index(date)<<n.bits + sequence
	if sequence < 1 || id < 1 || string(n.appendAt(nil, id, date)) != text {
		return 0, wrong
	}
	return id, nil
}

// expression has a group for each number of a text. All but the sequence have one width, so a text matches in one way.
func (n *Numbers) expression() *regexp.Regexp {
	sequence := fmt.Sprintf(`(\d{%d})`, n.width)
	if n.Overflow == OverflowWiden {
		sequence = fmt.Sprintf(`(\d{%d}|[1-9]\d{%[1]d,})`, n.width)
	}
	forms, form := map[byte]string{'y': `(\d{4})`, 'M': `(\d\d)`, 'd': `(\d\d)`, 's': sequence}, "^"
	for _, f := range n.fields {
		form += forms[f.part] + regexp.QuoteMeta(f.text)
	}
	return regexp.MustCompile(form + "$")
}
