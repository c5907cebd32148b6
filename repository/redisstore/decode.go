package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"shardid/model"
)

// errMalformed reports a reply that our scripts do not give from lists that only
// we have filled.
var errMalformed = errors.New("unexpected content")

// fields reads blank-separated words from a reply, without copying it. The
// first malformed one sticks in bad.
type fields struct {
	rest string
	bad  bool
}

func (f *fields) word() string {
	word, rest, _ := strings.Cut(f.rest, " ")
	f.bad = f.bad || word == ""
	f.rest = rest
	return word
}

// number reads an integer in 0…model.MaxIndex in plain digits.
func (f *fields) number() int64 {
	var n int64
	i := 0
	for ; i < len(f.rest) && f.rest[i] != ' '; i++ {
		digit := f.rest[i] - '0'
		if digit > 9 || n > model.MaxIndex/10 {
			f.bad = true
			return 0
		}
		n = n*10 + int64(digit)
	}
	f.bad = f.bad || i == 0 || n > model.MaxIndex || f.rest[0] == '0' && i > 1
	f.rest = f.rest[min(i+1, len(f.rest)):]
	return n
}

// decodePopped reads what pop.lua returns.
func decodePopped(reply string) (model.Popped, error) {
	f := fields{rest: reply}
	// A clone, as the history is kept and the reply may be long.
	p := model.Popped{History: strings.Clone(f.word()), Purged: f.number(), Len: f.number()}
	more := f.number()
	if f.rest != "" && !f.bad {
		p.Indices = make([]int64, 0, strings.Count(f.rest, " ")+1)
	}
	for f.rest != "" && !f.bad {
		index := f.number()
		f.bad = f.bad || index == 0
		p.Indices = append(p.Indices, index)
	}
	if f.bad || strings.HasSuffix(reply, " ") || more > 0 && !isRun(p.Indices, more) {
		return model.Popped{}, fmt.Errorf("%w: pop answered %.80q", errMalformed, reply)
	}
	p.Indices = slices.Grow(p.Indices, int(more))
	for i := range more {
		p.Indices = append(p.Indices, p.Indices[0]+1+i)
	}
	return p, nil
}

// isRun says whether the indices can be one and the so many after it.
func isRun(indices []int64, more int64) bool {
	return len(indices) == 1 && more < MaxPop && indices[0] <= model.MaxIndex-more
}

// decodeStates reads what state.lua returns for n lists.
func decodeStates(reply string, states []model.ListState) error {
	rest := reply
	for i := range states {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		states[i] = decodeState(line)
	}
	if rest != "" {
		return fmt.Errorf("%w: state answered %.80q for %d lists", errMalformed, reply, len(states))
	}
	return nil
}

func decodeState(line string) model.ListState {
	if reason, failed := strings.CutPrefix(line, "!"); failed {
		return model.ListState{Err: explain("state", errors.New(strings.Clone(reason)))}
	}
	f := fields{rest: line}
	// A clone, as the history is kept and the reply may be long.
	st := model.ListState{History: strings.Clone(f.word()), Len: f.number(), HighWater: f.number(), Purged: f.number()}
	if f.bad || f.rest != "" {
		return model.ListState{Err: explain("state", fmt.Errorf("%w: state line %.80q", errMalformed, line))}
	}
	return st
}
