package model

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"shardid/client/idgen"
	"shardid/client/idtext"
)

// Bounds of a name of worker IDs.
const (
	MaxNameBytes = 64
	// MaxInstanceBytes bounds what the holder of a lease calls itself.
	MaxInstanceBytes = 128
	// MaxNameWorkerBits and MaxNameSeqBits bound the widths of a name's layout, together
	// MaxNameBits: what is left has room for the time of sonyflake, 39 bits. In
	// milliseconds that is 17 years.
	MaxNameWorkerBits = 22
	MaxNameSeqBits    = 22
	MaxNameBits       = 24

	DefaultHold = time.Minute
	MinHold     = 5 * time.Second
	MaxHold     = time.Hour
	// LeaseMargin is for how long a lease that has ended is left alone before its worker ID
	// goes to another holder. A copy of the database may have a clock that is behind by as
	// much as two clocks may differ: by then it takes the lease for ended too.
	LeaseMargin = 2 * MaxClockApart
)

// Name is a space of worker IDs, which holders lease for generators of their own.
type Name struct {
	Name string
	// Layout is one of NameLayout, and never changes. A worker ID has one holder at a time, so IDs are
	// unique whatever the shard bits say.
	idgen.Layout
	// Hold is how long a holder may continue without shardid, in whole milliseconds, and how
	// long new leases wait after the database went on from a copy that may lack some.
	Hold time.Duration
	Note NameNote
}

// NameNote is what the database knows of a name beside what an operator says.
type NameNote struct {
	// The longest of the earlier holds that were longer; leases that were granted until SetMs may have it.
	WasHold time.Duration
	SetMs   int64
	// An earlier hold that was shorter counts until LowMs: by then copies of the database know
	// the longer one.
	LowHold time.Duration
	LowMs   int64
}

// NameLayout is that of a name whose epoch is in Unix ms.
func NameLayout(epochMs int64, workerBits, seqBits, shardBits uint) idgen.Layout {
	return idgen.Layout{Epoch: epochMs, WorkerBits: workerBits, SeqBits: seqBits, ShardBits: shardBits}.InMillis()
}

// LayoutText is the layout as it is recorded and shown.
func (n Name) LayoutText() string {
	text := fmt.Sprintf("epoch_ms=%d worker_bits=%d seq_bits=%d", n.Epoch, n.WorkerBits, n.SeqBits)
	if n.ShardBits > 0 {
		text += fmt.Sprintf(" shard_bits=%d", n.ShardBits)
	}
	return text
}

// Validate refuses, with ErrInvalidArgument, what cannot be a name or its layout at a time.
func (n Name) Validate(now time.Time) error {
	if err := CheckName(n.Name); err != nil {
		return err
	}
	switch {
	case n.WorkerBits < 1 || n.WorkerBits > MaxNameWorkerBits || n.SeqBits < 1 || n.SeqBits > MaxNameSeqBits ||
		n.WorkerBits+n.SeqBits > MaxNameBits:
		return fmt.Errorf("%w: give `workerBits` in 1…%d and `seqBits` in 1…%d, %d together at most, as an ID has 63 "+
			"bits and a time of 39: there are %d and %d",
			ErrInvalidArgument, MaxNameWorkerBits, MaxNameSeqBits, MaxNameBits, n.WorkerBits, n.SeqBits)
	case n.ShardBits >= n.SeqBits || n.ShardBits > idtext.MaxShardBits:
		return fmt.Errorf("%w: give fewer `shardBits` than the %d of the sequence, of which they are a part, and "+
			"at most %d, not %d", ErrInvalidArgument, n.SeqBits, idtext.MaxShardBits, n.ShardBits)
	case n.Epoch < 0 || n.Epoch > now.UnixMilli():
		return fmt.Errorf("%w: `epoch` must be in the past, in Unix milliseconds, not %d", ErrInvalidArgument, n.Epoch)
	case n.MaxTime() < now.UnixMilli():
		return fmt.Errorf("%w: choose a later `epoch`, or fewer `workerBits` or `seqBits`: with the epoch %d and %d "+
			"bits of milliseconds IDs ended at %s",
			ErrInvalidArgument, n.Epoch, n.TimeBits, n.Time(n.MaxTime()).Format(time.RFC3339))
	}
	return CheckHold(n.Hold)
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// CheckName refuses, with ErrInvalidArgument, what cannot be the name of a space of worker IDs.
func CheckName(name string) error {
	if nameForm.MatchString(name) && len(name) <= MaxNameBytes && name != "." && name != ".." {
		return nil
	}
	return fmt.Errorf("%w: `name` must have 1…%d letters, digits, dots, hyphens and underscores", ErrInvalidArgument,
		MaxNameBytes)
}

// CheckHold refuses, with ErrInvalidArgument, what cannot be a hold.
func CheckHold(hold time.Duration) error {
	if hold < MinHold || hold > MaxHold || hold%time.Millisecond != 0 {
		return fmt.Errorf("%w: `hold` must be in %v…%v, in whole milliseconds, not %v", ErrInvalidArgument, MinHold,
			MaxHold, hold)
	}
	return nil
}

// CheckInstance refuses, with ErrInvalidArgument, what the holder of a lease cannot call
// itself; it may say nothing.
func CheckInstance(instance string) error {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(instance) > MaxInstanceBytes || !utf8.ValidString(instance) || strings.ContainsFunc(instance, hidden) {
		return fmt.Errorf("%w: `instance` must have at most %d printable bytes", ErrInvalidArgument,
			MaxInstanceBytes)
	}
	return nil
}

// WithHold is the name with another hold from now on, Unix ms.
func (n Name) WithHold(hold time.Duration, nowMs int64) Name {
	note := &n.Note
	granted := n.GrantHold(nowMs)
	if hold < n.Hold {
		// A renewal may have read the name before.
		note.WasHold, note.SetMs = max(note.WasHold, n.Hold), nowMs+LeaseMargin.Milliseconds()
	}
	if hold > granted {
		note.LowHold, note.LowMs = granted, nowMs+RaiseDelay.Milliseconds()
	}
	n.Hold = hold
	return n
}

// GrantHold is for how long leases are granted at a time, Unix ms.
func (n Name) GrantHold(nowMs int64) time.Duration {
	if nowMs < n.Note.LowMs {
		return min(n.Hold, n.Note.LowHold)
	}
	return n.Hold
}

// LostUntil is up to which time IDs may have been issued under leases of the name that the
// database lacks, if it may have forgotten what was stored before keptMs. All are Unix ms. A
// lease was granted up to a hold from then, by a clock that was ahead by LeaseMargin at most.
func (n Name) LostUntil(keptMs int64) int64 {
	until := keptMs + n.Hold.Milliseconds()
	if n.Note.WasHold > 0 {
		until = max(until, min(keptMs, n.Note.SetMs)+n.Note.WasHold.Milliseconds())
	}
	return until + LeaseMargin.Milliseconds()
}

// NameUse is a name with how much of it is in use.
type NameUse struct {
	Name
	Leased int64 // worker IDs whose lease has not ended
}

// NameLease is the right of its holder to issue IDs with a worker ID of a name: IDs whose time
// t, in Unix ms, has After < t ≤ Until, whatever its clock is. No such time of a worker ID is in
// two leases. After and Until may leave no time at first, until a renewal.
type NameLease struct {
	Name         Name
	WorkerID     int64
	Instance     string // what its holder calls itself
	Secret       string // shows that who asks is the holder; "" where it is not told
	After, Until int64  // Unix ms
	Now          int64  // the database's clock, Unix ms
}

// Renew is how long a holder waits before each renewal: two may fail.
func (l NameLease) Renew() time.Duration { return l.Name.GrantHold(l.Now) / 3 }

// LeaseKey is what the holder of a NameLease says to renew or to release it.
type LeaseKey struct {
	Name     string
	WorkerID int64
	Secret   string
}

// NameHolder is a worker ID of a name and its last lease, in JSON too.
type NameHolder struct {
	WorkerID int64     `json:"workerId"`
	Instance string    `json:"instance"`         // what its holder calls itself; may be empty
	Leased   bool      `json:"leased"`           // the lease has not ended
	After    int64     `json:"after,string"`     // of IDs, in Unix ms, as a lease has it
	Until    int64     `json:"until,string"`     // likewise
	Granted  time.Time `json:"granted"`          // by the database's clock
	Renewed  time.Time `json:"renewed,omitzero"` // likewise; zero for never
}
