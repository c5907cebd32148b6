package model

import "slices"

// Mode is a way to make IDs. The zero value is none.
type Mode uint8

// The modes, in their usual order.
const (
	ModeQueue Mode = iota + 1
	ModeSegment
	ModeSnowflake
	ModeUID
	ModeSequence
	ModeLease // worker IDs, for holders that make IDs themselves; it is always on
)

var modeNames = [ModeLease + 1]string{"", "queue", "segment", "snowflake", "uid", "sequence", "lease"}

// String is the name, as the configuration, tokens, metrics and paths have it; "" for none.
func (m Mode) String() string { return modeNames[m] }

// ModeNamed is the mode of a name, 0 for a name of none.
func ModeNamed(name string) Mode { return Mode(max(0, slices.Index(modeNames[:], name))) }

// Modes are those that a replica serves and shows: all but ModeLease.
func Modes() []Mode { return []Mode{ModeQueue, ModeSegment, ModeSnowflake, ModeUID, ModeSequence} }
