package model

import "time"

// SnowflakeWorkers is the most worker IDs that a registry gives out, 0…1023. With fewer
// worker bits there are fewer, as the configuration says.
const SnowflakeWorkers = 1024

// Owner is an instance as the registries of worker IDs know it.
type Owner struct {
	// Address is the instance's ip:port.
	Address string
	// Identity is that of the instance's data folder: random, made once and kept
	// in its local worker file. Two processes with one identity never run at the
	// same time, because the folder is locked. Empty without a local file.
	Identity string
	// Token is that of the process: random, made at its start.
	Token string
}

// Lease is the right of one owner to issue IDs with a worker ID. All times are
// Unix milliseconds.
//
// Three bounds on the time *inside* the IDs make it safe whatever the clocks do.
// IDs with a time at or below After may have been issued by an earlier holder.
// IDs with a time above Reserved, or at or above Expires, may not be issued under
// this lease. A registry hands a worker ID to another owner only with an After
// that is not below the Expires it stored last, and to the same identity only
// with one that is not below the Reserved it stored last. So each ID time of a
// worker belongs to one lease.
type Lease struct {
	WorkerID int // 0…1023, and below idgen.Layout.Workers
	Owner    Owner
	// Registry is the identity of the registry that gave the lease: its mode, what it
	// is called, and an ID that it made at random and keeps. Only leases of one
	// registry are kept apart by it; see WorkerClaim.
	Registry string

	After    int64 // IDs carry a later time than this
	Reserved int64 // IDs carry at most this time
	Expires  int64 // at or after this time another owner may follow
	// Reported is the owner's clock when it sent the report. It is shown to operators.
	Reported int64

	// ServerTime is the registry's own clock when it answered; 0 when it has none.
	ServerTime int64
	// KeptSince is from when on, by the registry's clock, it has forgotten
	// nothing for sure: 0 for ever, the boot time of a database server. A registry that
	// held nothing at all under this name says ServerTime: it may be new, or may have lost
	// everything.
	KeptSince int64
}

// WorkerClaim is what the database knows of a process that issues IDs: with which
// registry it does, and until when it may. It keeps those apart who asked different
// registries, which know nothing of each other.
type WorkerClaim struct {
	Token    string // of the process
	Registry string // of its lease
	WorkerID int
	// Until is ClaimAhead beyond the time, Unix ms, below which the process issues IDs.
	Until int64
	// First says that the process has no claim on the registry yet. Any other makes its claim
	// longer or shorter, and fails once another registry has been taken up.
	First bool
}

// ClaimAhead is how far a claim reaches beyond what it is for. A copy of the database that
// takes over may lack the latest claims, and must not make an instance that does not reach it
// appear to have ended.
const ClaimAhead = 30 * time.Second

// ClaimGrant is the answer to a WorkerClaim.
type ClaimGrant struct {
	Now int64 // the database's time, Unix ms
	// After, of a first claim, is up to when IDs may have been issued with the leases of other
	// registries, Unix ms.
	After int64
	// Kept, of a first claim, is for how long the database has forgotten no claim.
	Kept time.Duration
}

// WorkerState says what is with a worker ID that a registry has a row for.
type WorkerState string

// The states.
const (
	WorkerLeased  WorkerState = "leased"  // its instance may issue IDs
	WorkerExpired WorkerState = "expired" // its bounds have passed
)

// WorkerEntry is a worker ID as the database has it, in JSON too. Times are left out that never were.
type WorkerEntry struct {
	WorkerID      int         `json:"workerId"`
	Address       string      `json:"address"` // "" for one that is free; of a lease what its holder calls itself
	State         WorkerState `json:"state"`
	Foreign       bool        `json:"foreign"`                // another program reports for it
	ReportedAt    time.Time   `json:"reportedAt,omitzero"`    // by the instance's clock
	ReservedUntil time.Time   `json:"reservedUntil,omitzero"` // IDs up to this time may have been issued
	KeptUntil     time.Time   `json:"keptUntil,omitzero"`     // from then on it may go to another address
	Name          string      `json:"name"`
}
