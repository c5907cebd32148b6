package issuer

import (
	"math/bits"
	"time"

	"shardid/service/access"
	"shardid/service/latency"
)

// Traffic is what one mode has answered over all front ends since the start, but for what
// a panic ended. Its times are from when the front end began with a request until its
// answer was composed.
type Traffic struct {
	OK      latency.Reading // requests that got their IDs
	Refused latency.Reading // those that the caller must change
	Failed  latency.Reading // those that this replica could not serve for now
	Codes   map[int]int64   // requests by the code of their error
}

// meter counts for one mode. Safe for concurrent use.
type meter struct {
	ok, refused, failed latency.Histogram
	codes               Codes
}

// Observe counts a request for IDs of a mode that was answered with a code of the public
// table, 0 for IDs.
func (s *Issuer) Observe(mode access.Modes, code int, took time.Duration) {
	m := &s.meters[bits.TrailingZeros8(uint8(mode))]
	switch {
	case code == 0:
		m.ok.Observe(took)
		return
	case Failed(code):
		m.failed.Observe(took)
	default:
		m.refused.Observe(took)
	}
	m.codes.Add(code)
}

// Traffic returns what each mode has answered, by its name.
func (s *Issuer) Traffic() map[string]Traffic {
	all := make(map[string]Traffic, len(s.meters))
	for i := range s.meters {
		m := &s.meters[i]
		one := Traffic{OK: m.ok.Read(), Refused: m.refused.Read(), Failed: m.failed.Read(), Codes: m.codes.Counts()}
		delete(one.Codes, 0) // in OK
		all[access.Modes(1<<i).String()] = one
	}
	return all
}
