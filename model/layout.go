package model

import "fmt"

// LayoutRecord is the shape of the IDs that a mode has issued, as the database
// remembers it.
type LayoutRecord struct {
	Kind string // KindSnowflake or KindUID
	// Layout is everything that decides what an ID means, as text: widths and
	// epoch.
	Layout string
}

// LayoutChangedError says that IDs of another layout have been issued. It wraps
// ErrLayoutChanged.
type LayoutChangedError struct {
	Kind           string
	Recorded, Want string
}

// Error says what to do.
func (e *LayoutChangedError) Error() string {
	return fmt.Sprintf("%v: %s IDs have been issued with %s, the configuration says %s: IDs of both could be equal. "+
		"Set the recorded values again; only where IDs of both never meet in one column, or cannot be equal (docs/uid.md), delete the row of %s in id_layout", ErrLayoutChanged, e.Kind, e.Recorded, e.Want, e.Kind)
}

// Unwrap returns ErrLayoutChanged.
func (e *LayoutChangedError) Unwrap() error { return ErrLayoutChanged }
