package model

import "time"

// NumbersOfMinutes are business numbers with a period for each minute, for simulations. It
// begins a little before that time.
func NumbersOfMinutes(n Numbering, from time.Time) *Numbers {
	p, err := n.Numbers()
	if err != nil {
		panic(err)
	}
	first := from.Unix()/60 - 100
	p.index = func(t time.Time) int64 { return t.Unix()/60 - first }
	p.date = func(period int64) time.Time { return time.Unix((first+period)*60, 0).UTC() }
	return p
}

// Begins and Last are of a period.
func (n *Numbers) Begins(period int64) time.Time { return n.begins(period) }
func (n *Numbers) Last(period int64) int64       { return n.last(period) }
