package sqlstore

import (
	"fmt"
	"net"
	"time"

	"shardid/model"
)

const (
	// foreignLease is for how long, in ms, an instance of another program is taken
	// to live after its last report: it reports every 3 s and may miss two.
	foreignLease = 10_000
	// foreignSilence is after how long, in ms, the worker ID of another program's
	// instance may go to another address. Such an instance does not stop by itself
	// when it cannot report. An hour is what that program's own pool waits.
	foreignSilence = 3_600_000
	// claimGrace is for how long, in ms, a lease that was got is left alone before
	// its first renewal, which follows at once.
	claimGrace = 10_000
)

// workerRow is a row of leaf_workerid_alloc. All times are Unix ms; those of the
// row itself are by the server's clock. A NULL reads as zero.
type workerRow struct {
	ID            int64
	IP            string
	Port          string
	IPPort        string `gorm:"column:ip_port"`
	MaxTimestamp  int64
	Identity      string
	Token         string
	ReservedUntil int64
	ExpiresAt     int64
	ClaimedAt     int64
	SeenAt        int64
	OwnTimestamp  int64
	MadeAt        int64
}

// workerColumns are read in this shape everywhere.
const workerColumns = "id, ip, port, ip_port, COALESCE(max_timestamp, 0) AS max_timestamp, identity, token, " +
	"reserved_until, expires_at, claimed_at, seen_at, own_timestamp, made_at"

// poolRows are the rows that stand for worker IDs.
const poolRows = "id BETWEEN 1 AND ?"

// foreign says that another program has reported in this row since shardid last
// wrote it.
func (r workerRow) foreign() bool { return r.MaxTimestamp != r.OwnTimestamp }

// heldBy says whether the row's lease is the owner's process's.
func (r workerRow) heldBy(o model.Owner) bool {
	return o.Token != "" && r.Token == o.Token && !r.foreign()
}

// cameBack says whether the owner is the one that had the lease, perhaps in an
// earlier life.
func (r workerRow) cameBack(o model.Owner) bool {
	return r.heldBy(o) || o.Identity != "" && r.Identity == o.Identity && !r.foreign()
}

// bound is up to which time IDs may have been issued, whoever did it.
func (r workerRow) bound() int64 {
	bound := max(r.ReservedUntil, r.ExpiresAt)
	if r.foreign() {
		bound = max(bound, r.MaxTimestamp+foreignLease)
	}
	return bound
}

// takenUntil is until when the row's lease keeps others out, a moment ago or later
// when it was released.
func (r workerRow) takenUntil() int64 {
	switch {
	case r.foreign():
		return max(r.ExpiresAt, r.MaxTimestamp+foreignLease)
	case r.ClaimedAt > 0:
		return max(r.ExpiresAt, r.ClaimedAt+claimGrace)
	}
	return r.ExpiresAt
}

// keptUntil is until when the worker ID is not given to another address.
func (r workerRow) keptUntil() int64 {
	if r.foreign() {
		return max(r.takenUntil(), r.MaxTimestamp+foreignSilence)
	}
	return r.takenUntil()
}

// claimed is the row as the owner's whose IDs must be later than after. named is the
// row that has the owner's address as its ip_port, 0 without one.
func (r workerRow) claimed(o model.Owner, named, after, now int64) workerRow {
	r.IPPort, r.Identity, r.Token = o.Address, o.Identity, o.Token
	if named != 0 && named != r.ID {
		r.IPPort = fmt.Sprintf("%s/%d", o.Address, r.ID)
	}
	r.IP, r.Port, _ = net.SplitHostPort(o.Address) // checked before
	r.ReservedUntil, r.ExpiresAt = after, max(r.ExpiresAt, after)
	r.ClaimedAt, r.OwnTimestamp = now, r.MaxTimestamp
	r.SeenAt = 0 // the report is the predecessor's
	return r
}

// workerID is the row's, one of 0…1023: the first 1024 IDs of the table, of which
// the last stands for 0.
func (r workerRow) workerID() int { return int(r.ID % model.SnowflakeWorkers) }

// workerRowID is the row that keeps a worker ID.
func workerRowID(worker int) int64 {
	if worker == 0 {
		return model.SnowflakeWorkers
	}
	return int64(worker)
}

// lease is what the row's holder got: after a claim nothing may be issued before a
// renewal, as everything up to Reserved lies before After.
func (r workerRow) lease(o model.Owner) model.Lease {
	return model.Lease{
		WorkerID: r.workerID(), Owner: o, Node: fmt.Sprintf("%s/%d", workerTable, r.ID),
		After: r.ReservedUntil, Reserved: r.ReservedUntil, Expires: r.ExpiresAt,
	}
}

func (r workerRow) taken() error {
	return &model.AddressTakenError{Address: r.IPPort, WorkerID: r.workerID(), Until: time.UnixMilli(r.takenUntil())}
}
