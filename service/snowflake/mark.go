package snowflake

import "time"

const (
	// usedBits holds how many sequence numbers of a millisecond are used, 0…4096.
	usedBits = seqBits + 1
	// slackBits holds 0…catchUp.
	slackBits = 7
	// catchUp is for how many milliseconds, after one that was used up in time, the
	// generator may lag: 100 is the period after which a container that used up its
	// share of CPU goes on.
	catchUp = 100
)

// mark is how far a term has come, in one word: the time of its last ID, in ms since
// the epoch, above the slack, above the number of the sequences used of that time.
//
// Slack is how many ms the clock may be past that time for the generator to go on
// with it, and not with the clock's: catchUp for a millisecond that was used up in
// time, one less for each that followed it without a gap, and else 0.
type mark int64

// No ID has these: each says that more than 4096 sequences are used.
const (
	unused mark = -2 // before the first ID
	closed mark = -1 // after the term: it makes a Take fail that read the mark before
)

func newMark(at, slack int64, used int) mark {
	return mark(at<<(slackBits+usedBits) | slack<<usedBits | int64(used))
}

func (m mark) at() int64    { return int64(m >> (slackBits + usedBits)) }
func (m mark) slack() int64 { return int64(m >> usedBits & (1<<slackBits - 1)) }
func (m mark) used() int    { return int(m & (1<<usedBits - 1)) }

// goesOn says whether n IDs of the mark's time follow now, when past is how many
// nanoseconds ago that millisecond began, and leave one more: who takes the last
// may change the slack. It divides nothing, as all that follows the reading of the
// clock is waited for.
func (m mark) goesOn(past int64, n int) bool {
	return uint64(past) < uint64(m.slack()+1)*uint64(time.Millisecond) && n < sequences-m.used()
}
