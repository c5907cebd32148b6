package model

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// dateFields are those of a pattern, with the parts of a date that each shows.
func dateFields() map[string]string {
	return map[string]string{"yyyyMMdd": "yMd", "yyyyMM": "yM", "yyyy": "y", "MM": "M", "dd": "d"}
}

// Numbers checks a numbering. An empty Zone is UTC, and an empty Overflow widens. It gives nil
// for that of a plain tag. Errors: ErrInvalidArgument.
func (n Numbering) Numbers() (*Numbers, error) {
	if n == (Numbering{}) {
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
		return fmt.Errorf("reset, zone and overflow need a pattern, such as ORD-{yyyyMMdd}-{seq:8}")
	}
	if n.zone, err = parseZone(n.Zone); err != nil {
		return err
	}
	if n.Overflow != OverflowWiden && n.Overflow != OverflowRefuse {
		return fmt.Errorf("overflow must be %s or %s, not %q", OverflowWiden, OverflowRefuse, n.Overflow)
	}
	if err := n.parsePattern(); err != nil {
		return err
	}
	isReset := false
	if n.calendar, isReset = calendars()[n.Reset]; !isReset {
		return fmt.Errorf("reset must be %s, %s, %s or %s, not %q", ResetDay, ResetMonth, ResetYear, ResetNone, n.Reset)
	}
	for _, part := range []byte(dateFields()[n.shown]) {
		if !slices.Contains(n.fields, field{part: part}) {
			return fmt.Errorf("with reset %s the pattern must show all of {%s}: without, texts would repeat", n.Reset,
				n.shown)
		}
	}
	return nil
}

// parsePattern reads the fields.
func (n *Numbers) parsePattern() error {
	const help = "there are {yyyyMMdd}, {yyyyMM}, {yyyy}, {MM}, {dd} and {seq:N}"
	switch {
	case !utf8.ValidString(n.Pattern) || utf8.RuneCountInString(n.Pattern) > maxPattern:
		return fmt.Errorf("the pattern is not UTF-8, or longer than %d characters", maxPattern)
	case strings.TrimSpace(n.Pattern) != n.Pattern:
		return fmt.Errorf("the pattern begins or ends with a space")
	}
	length := 0
	for _, token := range tokens.FindAllString(n.Pattern, -1) {
		kind := strings.Trim(token, "{}")
		date, isDate := dateFields()[kind]
		digits, isSequence := strings.CutPrefix(kind, "seq:")
		switch {
		case token == "{" || token == "}":
			return fmt.Errorf("the pattern has a brace that belongs to no field: %s", help)
		case token == kind:
			for _, r := range token {
				if !unicode.IsPrint(r) {
					return fmt.Errorf("the pattern has the character %q, which cannot be printed", r)
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
			return fmt.Errorf("the pattern has the field {%s}: %s", kind, help)
		case n.width > 0:
			return fmt.Errorf("the pattern has {seq:N} twice: where one ends could not be told")
		default:
			width, err := strconv.ParseUint(digits, 10, 8)
			if err != nil || width < 1 || width > maxSequence || digits != strconv.FormatUint(width, 10) {
				return fmt.Errorf("the pattern has {%s}: N of {seq:N} is the least number of digits, 1…%d", kind,
					maxSequence)
			}
			n.fields = append(n.fields, field{part: 's'})
			n.width = int(width)
		}
	}
	switch {
	case n.width == 0:
		return fmt.Errorf("the pattern has no {seq:N}: without, all texts of a day would be one")
	case length+n.width > maxNumber:
		return fmt.Errorf("a text of the pattern has %d characters, at most %d are allowed", length+n.width, maxNumber)
	}
	return nil
}

// parseZone reads UTC, an offset such as +05:30, or a name of the zone database.
func parseZone(name string) (*time.Location, error) {
	if name[0] == '+' || name[0] == '-' {
		offset, err := time.Parse("15:04", name[1:])
		seconds := offset.Hour()*3600 + offset.Minute()*60
		if err != nil || len(name) != len("+05:30") || seconds > 18*3600 {
			return nil, fmt.Errorf("zone %q is not an offset such as +05:30, up to 18 hours", name)
		}
		if name[0] == '-' {
			seconds = -seconds
		}
		return time.FixedZone(name, seconds), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || len(name) > 64 {
		return nil, fmt.Errorf("zone %q is not UTC, an offset such as +05:30, or a name such as Asia/Shanghai", name)
	}
	return zone, nil
}
