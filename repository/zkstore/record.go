package zkstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// errForeign reports a node that neither we nor Leaf have written.
var errForeign = errors.New("is not a record of a worker ID")

// report is what Java Leaf keeps in a node, by name and type: its decoder
// refuses any other field.
type report struct {
	IP        string `json:"ip"`
	Port      string `json:"port"`
	Timestamp int64  `json:"timestamp"` // the owner's clock at its last report, Unix ms; 0 before the first
}

func reportOf(owner model.Owner) (report, error) {
	ip, port, err := net.SplitHostPort(owner.Address)
	if err != nil || ip == "" || strings.ContainsAny(owner.Address, "/") {
		return report{}, fmt.Errorf("%w: address %q is not ip:port", model.ErrInvalidArgument, owner.Address)
	}
	return report{IP: ip, Port: port}, nil
}

func (r report) address() string { return net.JoinHostPort(r.IP, r.Port) }

// record says whose a worker ID is and which times are taken; all in Unix ms.
type record struct {
	report
	Identity string `json:"identity"`
	Token    string `json:"token"` // "" once released
	After    int64  `json:"after"`
	Reserved int64  `json:"reserved"`
	Expires  int64  `json:"expires"`
	// Acquired is when its holder got it, by the servers' clock; 0 once it has
	// renewed.
	Acquired int64 `json:"acquired"`

	// leafUntil is when, by the servers' clock, the report of Java Leaf stops counting, if
	// it was the last to write the node; else 0.
	leafUntil int64
}

const (
	// firstRenew is how long a holder has for its first Renew, in ms: until then
	// there is no Expires that keeps others away.
	firstRenew = int64(10 * time.Second / time.Millisecond)
	// leafTrust is how long a report of Java Leaf counts, in ms. It reports every
	// 3 s, so one that lives is never so old, and one that is gone has issued
	// nothing later.
	leafTrust = int64(10 * time.Second / time.Millisecond)
)

// ofLeaf is what a report of Java Leaf, or of NotFound9's fork, is worth: a lease for as long as it
// counts, held by none of our instances. written is when it came, by the servers' clock.
func (r record) ofLeaf(rep report, written, trust int64) record {
	bound := rep.Timestamp + trust
	return record{report: rep, Reserved: max(r.Reserved, bound), Expires: max(r.Expires, bound), leafUntil: written + trust}
}

// liveUntil is when, by the servers' clock, another may follow.
func (r record) liveUntil() int64 {
	switch {
	case r.leafUntil > 0:
		return r.leafUntil
	case r.Acquired > 0:
		return max(r.Expires, r.Acquired+firstRenew)
	default:
		return r.Expires
	}
}

// heldBy reports whether the owner's process has the lease.
func (r record) heldBy(owner model.Owner) bool { return owner.Token != "" && r.Token == owner.Token }

// lostFrom is model.ErrLeaseLost unless the owner's process has the lease, and the
// node that shows it is there.
func (r record) lostFrom(owner model.Owner, shown node) error {
	switch {
	case !shown.found:
		return lost(shown.path, "is gone")
	case !r.heldBy(owner):
		return lost(shown.path, "has another holder")
	}
	return nil
}

// owned reports whether the owner has the lease, or had it in an earlier life.
func (r record) owned(owner model.Owner) bool {
	return r.heldBy(owner) || owner.Identity != "" && r.Identity == owner.Identity
}

// after is what the owner follows above: Reserved after its own earlier life, Expires too
// after anybody else's.
func (r record) after(owner model.Owner) int64 {
	if r.owned(owner) {
		return r.Reserved
	}
	return max(r.Reserved, r.Expires)
}

// takenBy is the record once the owner follows.
func (r record) takenBy(owner model.Owner, now int64) record {
	after := r.after(owner)
	rep, _ := reportOf(owner) // checked when the call began
	rep.Timestamp = r.Timestamp
	return record{report: rep, Identity: owner.Identity, Token: owner.Token,
		After: after, Reserved: after, Expires: r.Expires, Acquired: now}
}

// renewed is the record with the bounds of the lease, unless they are lower.
func (r record) renewed(lease model.Lease) record {
	r.Reserved, r.Expires = max(r.Reserved, lease.Reserved), max(r.Expires, lease.Expires)
	r.Timestamp, r.Acquired = lease.Reported, 0
	return r
}

// released is the record when the owner gave up and says what it issued last.
// What was taken before it came stays taken.
func (r record) released(lease model.Lease) record {
	bound := max(lease.Reserved, r.After)
	r.Token, r.Acquired, r.Reserved, r.Expires = "", 0, bound, max(bound, lease.Expires)
	return r
}

func (r record) lease(id int, owner model.Owner, at string, m moment) model.Lease {
	return model.Lease{WorkerID: id, Owner: owner, Node: at,
		After: r.After, Reserved: r.Reserved, Expires: r.Expires, Reported: r.Timestamp,
		ServerTime: m.now, KeptSince: m.since, Registry: m.registry}
}

// encode gives the JSON of a report or a record, which are made of texts and
// numbers: it cannot fail.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

// decode reads a report or a record. Fields it does not know are left alone: a
// newer version may have written them.
func decode[T report | record](n node) (T, error) {
	var v T
	if err := json.Unmarshal(n.data, &v); err != nil {
		return v, fmt.Errorf("%s %w: %w", n.path, errForeign, err)
	}
	return v, nil
}

// place is a node that stands for a worker ID.
type place struct {
	path    string
	address string // "" when only its report has it
	id      int
}

// numbered lists the nodes of a folder whose names are worker IDs.
func (t tree) numbered(ctx context.Context, dir string) ([]place, error) {
	names, err := t.children(ctx, dir)
	if err != nil {
		return nil, err
	}
	var all []place
	for id, is := range numbers(names) {
		if is {
			all = append(all, place{path: path.Join(dir, strconv.Itoa(id)), id: id})
		}
	}
	return all, nil
}

// numbers says which worker IDs are among the names.
func numbers(names []string) (is [model.SnowflakeWorkers]bool) {
	for _, name := range names {
		if id, ok := workerOf(name); ok {
			is[id] = true
		}
	}
	return is
}

// workerOf is the worker ID that a name is; false for any other.
func workerOf(name string) (id int, ok bool) {
	id, err := strconv.Atoi(name)
	return id, err == nil && id >= 0 && id < model.SnowflakeWorkers && strconv.Itoa(id) == name
}

// reports reads what the holders of worker IDs have reported.
func (t tree) reports(ctx context.Context, places []place) ([]model.WorkerPeer, error) {
	paths := make([]string, len(places))
	for i, p := range places {
		paths[i] = p.path
	}
	nodes, err := t.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	var found []model.WorkerPeer
	for i, n := range nodes {
		// A clock is not compared with what is gone, or is no report.
		if rep, err := decode[report](n); n.found && err == nil && rep.Timestamp > 0 {
			found = append(found, model.WorkerPeer{Address: cmp.Or(places[i].address, rep.address()), WorkerID: places[i].id,
				Reported: rep.Timestamp, Seen: n.stat.Mtime})
		}
	}
	return found, nil
}
