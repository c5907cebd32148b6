package model

// ListState is what a store of lists tells about one list.
type ListState struct {
	// Life names the time in which the store forgot nothing of the list: Redis'
	// replication ID and since when the list is kept, or the embedded store's process. It changes whenever the store may have gone back in time, and when
	// the list's marks were lost.
	Life      string
	Len       int64 // indices held
	HighWater int64 // highest index ever pushed; 0 before the first
	Purged    int64 // indices dropped by this call because they were of another life
	Err       error // set when this list could not be asked
}

// Popped is the answer to a pop.
type Popped struct {
	Life    string
	Indices []int64 // oldest first; empty when the list is
	Len     int64   // indices left in the list
	Purged  int64   // indices dropped by this call because they were of another life
}

// PushRequest appends a segment to a list.
type PushRequest struct {
	Key     ListKey
	Life    string // as State gave it before the segment was allocated
	Segment Segment
	Cap     int64 // a list that holds this many or more is not pushed to
}
