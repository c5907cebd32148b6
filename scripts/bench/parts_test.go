//go:build unix

package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// part measures some of the goals.
type part struct {
	name  string
	goals []int
	run   func(*testing.T, *suite)
	when  occasion
}

// occasion is which runs a part belongs to that is not asked for by its name.
type occasion int

const (
	always occasion = iota
	inFull          // too long for a quick run
	named           // in none
)

func parts() []part {
	return []part{
		{"servers", []int{1, 3}, measureServers, always},
		{"idle", []int{2}, measureIdle, always},
		{"library", []int{4, 5, 6}, measureLibraries, always},
		{"stores", []int{7}, measureStores, always},
		{"refilling", []int{8}, measureRefilling, always},
		{"start", []int{9}, measureStart, always},
		{"outage", []int{10}, measureOutages, always},
		{"clients", []int{11}, measureClients, always},
		{"tail", nil, measureTail, inFull},
		{"growth", nil, measureGrowth, named},
	}
}

// chooseParts reads goals and names of parts such as "1,3,tail"; "" is all that
// belongs to the plan.
func chooseParts(text, plan string) ([]part, error) {
	if text == "" {
		return slices.DeleteFunc(parts(), func(p part) bool {
			return p.when == named || p.when == inFull && plan != "full"
		}), nil
	}
	fields := strings.Split(text, ",")
	for _, field := range fields {
		if !slices.ContainsFunc(parts(), func(p part) bool { return p.is(field) }) {
			return nil, fmt.Errorf("%q is neither a goal, 1 to 11, nor a part: %s", field, partNames())
		}
	}
	return slices.DeleteFunc(parts(), func(p part) bool { return !slices.ContainsFunc(fields, p.is) }), nil
}

// is says whether a field names the part or one of its goals.
func (p part) is(field string) bool {
	g, err := strconv.Atoi(field)
	return field == p.name || err == nil && slices.Contains(p.goals, g)
}

func partNames() string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func TestChooseParts(t *testing.T) {
	for _, c := range []struct{ text, plan, want string }{
		{"", "full", "servers idle library stores refilling start outage clients tail"},
		{"", "quick", "servers idle library stores refilling start outage clients"},
		{"3,10", "full", "servers outage"},
		{"growth,8", "quick", "refilling growth"},
		{"1,3", "full", "servers"},
		{"tail", "quick", "tail"},
		{"0", "full", ""}, {"12", "full", ""}, {"1,", "full", ""}, {"one", "full", ""},
	} {
		got, err := chooseParts(c.text, c.plan)
		var names []string
		for _, p := range got {
			names = append(names, p.name)
		}
		if strings.Join(names, " ") != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q in a %s run gave %v, %v", c.text, c.plan, names, err)
		}
	}
}

func TestResultName(t *testing.T) {
	for _, c := range []struct{ plan, goals, profile, want string }{
		{"full", "", "", "full"}, {"quick", "", "", "quick"}, {"full", "growth", "", "growth"},
		{"quick", "growth", "", ""}, {"full", "1", "", ""}, {"full", "", "/tmp", ""}, {"full", "growth", "/tmp", ""},
	} {
		if got := resultName(c.plan, c.goals, c.profile); got != c.want {
			t.Errorf("%+v gave %q", c, got)
		}
	}
}

// Each goal belongs to one part.
func TestPartsCoverTheGoals(t *testing.T) {
	var got []int
	for _, p := range parts() {
		got = append(got, p.goals...)
	}
	slices.Sort(got)
	if !slices.Equal(got, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
		t.Errorf("%v", got)
	}
}
