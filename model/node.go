package model

// Kinds of a WORKER_NODE row, Baidu's WorkerNodeType.
const (
	NodeContainer = 1 // CONTAINER: HOST_NAME and PORT are the container's
	NodeActual    = 2 // ACTUAL: a machine
)

// NodeStart is one start of an instance, a row of Baidu's table WORKER_NODE.
type NodeStart struct {
	Host    string // at most 64 bytes
	Port    string // at most 64 bytes; Baidu writes time-random for a machine
	Type    int    // NodeContainer or NodeActual
	Token   string // of this start, random
	Workers int64  // worker IDs are 0…Workers-1
	// NowSecond is the caller's clock, Unix seconds. A worker ID is used again
	// only if the stored mark of its last user lies before it.
	NowSecond int64
	// UsedUntil is the mark that the row has at least: up to which Unix second UIDs
	// may have been issued.
	UsedUntil int64
}

// Node is the worker ID that a start got.
type Node struct {
	ID       int64 // the row's auto-increment
	WorkerID int64
	Token    string
	// AfterSecond is the mark of the row: IDs carry a later Unix second than this.
	AfterSecond int64
}
