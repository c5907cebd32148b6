package access

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// View is a token for people.
type View struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	May     string    `json:"may"` // what it may do beside monitoring
	Rate    string    `json:"rate"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

// View shows what the token may do.
func (t *Token) View() View {
	v := View{Name: t.name, Role: t.role, May: t.may(), Rate: "no limit", Expires: t.expires}
	if t.limiter != nil {
		v.Rate = fmt.Sprintf("%s a second, %d at once", strconv.FormatFloat(float64(t.limiter.Limit()), 'f', -1, 64), t.limiter.Burst())
	}
	return v
}

func (t *Token) may() string {
	if t.role == RoleAdmin {
		return "administration"
	}
	var all []string
	for i, name := range modeNames() {
		m := Modes(1 << i)
		switch {
		case t.modes&m == 0:
		case m == Queue:
			all = append(all, name+" of apps "+t.appList())
		case m == Segment:
			all = append(all, name+" of tags "+t.tags.list())
		default:
			all = append(all, name)
		}
	}
	if all == nil {
		return "nothing but monitoring"
	}
	return strings.Join(all, "; ")
}

func (t *Token) appList() string {
	var all []string
	for app := range model.Apps {
		if t.App(app) == nil {
			all = append(all, strconv.Itoa(app))
		}
	}
	if len(all) == model.Apps {
		return "*"
	}
	return strings.Join(all, ", ")
}

func (p *patterns) list() string {
	all := slices.Sorted(maps.Keys(p.names))
	for _, beginning := range p.prefixes {
		all = append(all, beginning+"*")
	}
	return strings.Join(all, ", ")
}
