package queue

import (
	"encoding/json"
	"errors"

	"shardid/model"
)

// View is an app and what this process knows of its lists, counted since the start
// of the process. Its JSON is that of /api/status.
type View struct {
	App         uint8  `json:"appId"`
	Name        string `json:"name"`
	Step        int64  `json:"step"` // smallest segment, in indices, of its first shard
	model.Limit        // as Limit; MaxID also as a string, maxLimitIdStr
	Scramble    bool   `json:"scramble"`

	Issued  int64 `json:"issued"`
	Refills int64 `json:"refills"` // segments of the app pushed
	Held    int64 `json:"held"`    // IDs of the app that this replica holds ahead of its callers
	// PerSecond is the average of the last period of the history, 5 s. The caller of Status
	// fills it: the queue keeps no history.
	PerSecond float64 `json:"issuedPerSecond"`
	// Highest is the highest index of any shard that is known to be allocated: it was
	// issued, or may be at any moment.
	Highest   int64   `json:"highestIndex"`
	Left      float64 `json:"leftShare"` // of its indices that the shard with the fewest can still allocate, 0 to 1
	Exhausted int     `json:"exhausted"` // shards that have nothing more to give under the limit
	// Unconfirmed is how many shards take no segment before an operator confirms their
	// max_id, whether or not a caller has met that.
	Unconfirmed int `json:"unconfirmed"`
	// Unused are the shards that no index is known to be allocated of.
	Unused []int `json:"unused"`
	// Depths are the indices in the store by shard, as this process last saw them; -1 for a shard that is not
	// provisioned, or was not seen yet.
	Depths [model.Shards]int64 `json:"depths"`
}

// MarshalJSON adds the limit as a string.
func (v View) MarshalJSON() ([]byte, error) {
	type plain View // without this method
	return json.Marshal(struct {
		plain
		MaxLimitIDStr int64 `json:"maxLimitIdStr,string"`
	}{plain(v), v.MaxID})
}

// Status is the queue mode in /api/status, counted since the start of the process.
type Status struct {
	Issued int64  `json:"issued"` // IDs given to callers
	Held   int64  `json:"held"`   // IDs held ahead of callers
	Apps   []View `json:"apps"`   // never nil
}

// Status returns the counters and, as Seen does, the apps.
func (s *Service) Status() Status {
	status := Status{Issued: s.stats.issued.Load(), Apps: append([]View{}, s.Seen()...)}
	for _, v := range status.Apps {
		status.Issued, status.Held = status.Issued+v.Issued, status.Held+v.Held
	}
	return status
}

// Seen returns the apps in order of their IDs, as this process last saw their lists:
// when it popped, refilled or swept them. It asks no store.
func (s *Service) Seen() []View {
	c := s.catalogue.Load()
	if c == nil {
		return nil
	}
	var views []View
	for id, a := range c.apps {
		if a == nil {
			continue
		}
		v := View{App: uint8(id), Name: a.name, Left: 1, Unused: []int{}}
		for shard, l := range a.lists {
			if v.Depths[shard] = -1; l != nil {
				l.addTo(&v)
			}
		}
		views = append(views, v)
	}
	return views
}

// addTo adds what is known of one list.
func (l *list) addTo(v *View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.Step == 0 {
		v.Step, v.Limit, v.Scramble = l.cfg.Step, l.cfg.Limit, l.scramble != nil
	}
	c, left := l.counts(), l.left()
	v.Issued += c.Issued
	v.Refills += l.refill.segments
	v.Held += c.Held
	v.Highest = max(v.Highest, l.known)
	v.Left = min(v.Left, float64(left)/float64(max(1, l.last()))) // of no indices none are left
	v.Depths[l.key.Shard] = l.depth
	if left == 0 && l.depth == 0 && c.Held == 0 {
		v.Exhausted++
	}
	if l.cfg.Unconfirmed || errors.Is(l.refill.err, model.ErrUnconfirmed) {
		v.Unconfirmed++
	}
	if l.known == 0 {
		v.Unused = append(v.Unused, int(l.key.Shard))
	}
}

// Scramble is the secret of a scrambled app, "" for others; see model.Decoder.
func (s *Service) Scramble(app uint8) string {
	if c := s.catalogue.Load(); c != nil && c.apps[app] != nil {
		return c.apps[app].secret
	}
	return ""
}
