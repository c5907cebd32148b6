package model

import (
	"fmt"
	"strconv"
)

// Bounds of sequences.
const (
	DefaultSections = 1024
	// MaxSections bounds the rows of a space.
	MaxSections = 16_384
	// DefaultSequenceStep is how many numbers a section takes at once, unless the space says
	// otherwise: so many writes to the database fewer.
	DefaultSequenceStep = 10_000
	// MaxSequenceStep bounds what a section takes at once.
	MaxSequenceStep = 1_000_000
	// MaxSequence is the highest number: JavaScript and Lua tell no higher one from the next.
	MaxSequence = 1<<53 - 1
	// MaxSequenceKey bounds a key, in bytes.
	MaxSequenceKey = 256
)

// Space is a set of sequences, one for each key. Its keys are spread over sections.
type Space struct {
	Name     string
	Sections int   // 1…MaxSections; it never changes
	Step     int64 // numbers that a section takes at once, 1…MaxSequenceStep
}

// Validate refuses, with ErrInvalidArgument, what cannot be a space.
func (s Space) Validate() error {
	if err := CheckSpace(s.Name); err != nil {
		return err
	}
	if s.Sections < 1 || s.Sections > MaxSections {
		return fmt.Errorf("%w: `sections` must be in 1…%d, not %d", ErrInvalidArgument, MaxSections, s.Sections)
	}
	if s.Step < 1 || s.Step > MaxSequenceStep {
		return fmt.Errorf("%w: `step` must be in 1…%d, not %d", ErrInvalidArgument, MaxSequenceStep, s.Step)
	}
	return nil
}

// CheckSpace refuses, with ErrInvalidArgument, what cannot be the name of a space.
func CheckSpace(name string) error {
	if CheckName(name) != nil {
		return fmt.Errorf("%w: `space` must have 1…%d letters, digits, dots, hyphens and underscores",
			ErrInvalidArgument, MaxNameBytes)
	}
	return nil
}

// CheckSequenceKey refuses, with ErrInvalidArgument, what cannot be a key: any bytes are one.
func CheckSequenceKey(key string) error {
	if key == "" || len(key) > MaxSequenceKey {
		return fmt.Errorf("%w: key must have 1…%d bytes, not %d", ErrInvalidArgument, MaxSequenceKey, len(key))
	}
	return nil
}

// SectionOf is the section of a key: FNV-1a with 64 bits, modulo the number of sections. It
// never changes, as a number of another section may be lower.
func (s Space) SectionOf(key string) int {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for i := range len(key) {
		hash = (hash ^ uint64(key[i])) * prime
	}
	return int(hash % uint64(s.Sections))
}

// SequenceAsk asks for numbers of a key, and has the answer.
type SequenceAsk struct {
	Space string
	Key   string
	Count int64 // 1…MaxBatch; 0 only looks at how far the key has come

	// Last is the last of Count numbers without a gap, or how far the key has come: at or
	// above all that was issued, below all that will be.
	Last int64
	Err  error // then nothing was issued
}

// SectionKey names a section.
type SectionKey struct {
	Space   string
	Section int
}

func (k SectionKey) String() string { return k.Space + "_" + strconv.Itoa(k.Section) }

// SectionState is what a store of sequences tells about a section.
type SectionState struct {
	Server string // the life of the server: it forgets, or is replaced, only in another one
	Life   string // the life of the section in it: since when the server has known it
	Term   int64  // under which numbers are given at present; 0 before the first
	Bound  int64  // the highest number that may be given; 0 before the first
	Err    error  // set when this section could not be asked
}

// SectionAsk asks a section for numbers of its keys, in order.
type SectionAsk struct {
	Key    SectionKey
	Server string // the life in which the term counts
	Term   int64
	Asks   []KeyAsk
}

// NoNumber stands for a number that was not given.
const NoNumber = -1

// KeyAsk is SequenceAsk in a section.
type KeyAsk struct {
	Key   string
	Count int64
}

// SectionAnswer answers a SectionAsk. Dry says that the section gives no numbers in this life
// and under this term: nothing was done.
type SectionAnswer struct {
	Bound int64   // the highest number that the section may give
	Last  []int64 // for each KeyAsk as in SequenceAsk; NoNumber from the first on that is above the bound
	Dry   bool
	Err   error
}

// SectionPush gives a section more numbers.
type SectionPush struct {
	Key     SectionKey
	Life    string // as the state said before the segment was allocated
	Term    int64
	Segment Segment
}

// SectionRequest asks the database for numbers of a section, and under which term they are given.
type SectionRequest struct {
	Key   SectionKey
	Life  string // of the section, as its state says
	Term  int64  // likewise
	Bound int64  // likewise
	Want  int64  // numbers, at least; 0 only asks for the term
	// Claim says that the section may be taken from another server, or life of it: who asks has
	// made sure that this one is the present one.
	Claim bool
	// Open is a term that who asks has known for long enough: every lease of earlier ones has
	// ended.
	Open int64
}

// SectionGrant answers a SectionRequest.
type SectionGrant struct {
	Term   int64 // under which the server gives numbers; a higher one is a later one
	Number int64 // leases of the server's life under this number are for the term
	// Open says that numbers may be given. Else a lease of an earlier term may still live.
	Open    bool
	Changes int64   // of the database server that the term is known under
	Segment Segment // committed, and the caller's alone; empty where none was asked for
	// Err is ErrFence when the section is another life's, ErrUnknownSpace, ErrLimitReached,
	// ErrUnconfirmed, ErrJumping, ErrRate, ErrSectionBusy or a *StoreError.
	Err error
}

// Fence is what a replica may do for a while, as one transaction has found it.
type Fence struct {
	Changes int64            // of the database server; terms that were learned under another number of it are void
	Numbers map[string]int64 // for each life that was asked for: leases are under this number
	Spaces  []Space
}

// SpaceUse is a space with how much of it has been used.
type SpaceUse struct {
	Space
	Used    int   // sections that have given numbers
	Highest int64 // the highest number that one of them has taken; 0 for none
}
