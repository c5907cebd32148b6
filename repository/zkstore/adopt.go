package zkstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// theirs is what the names begin with that NotFound9's fork of Leaf gives to worker IDs;
// ours are the numbers alone. Its instances may share the tree: one that reports keeps its
// worker ID, and what we hold lies in its pool of those in use, as if one of them held it.
const theirs = "workId:"

// theirTrust is how long a report of NotFound9's fork counts, in ms. After an hour without
// one its worker ID goes back to the pool, and an instance that could not report stops,
// which it does at its next try.
const theirTrust = int64(time.Hour/time.Millisecond) + leafTrust

// endpoint is what NotFound9's fork keeps in a node, by name; all but the worker ID is null
// before the first report.
type endpoint struct {
	WorkerID  *number `json:"workId"`
	IP        string  `json:"lastUsedIp"`
	Port      string  `json:"lastUsedPort"`
	Timestamp number  `json:"lastUsedTimestamp"` // the holder's clock at its last report, Unix ms
}

// ownEndpoint is an endpoint as the fork writes it: its decoder refuses any other field.
type ownEndpoint struct {
	WorkerID  int    `json:"workId"`
	IP        string `json:"lastUsedIp"`
	Port      string `json:"lastUsedPort"`
	Timestamp int64  `json:"lastUsedTimestamp"`
}

// endpointOf is what the fork reads of a record. It moves the worker ID an hour after the
// time it reads, which is not before the lease has ended.
func endpointOf(id int, rec record, reported int64) ownEndpoint {
	return ownEndpoint{WorkerID: id, IP: rec.IP, Port: rec.Port, Timestamp: max(reported, rec.Expires-int64(time.Hour/time.Millisecond))}
}

// number is a number of JSON, or a text of its digits, which the fork's decoder takes for
// one, too.
type number struct {
	value int64 // 0 for null
	found bool
}

// UnmarshalJSON is called for null as well, but not for a field that is missing.
func (n *number) UnmarshalJSON(data []byte) (err error) {
	n.found = true
	if string(data) != "null" {
		n.value, err = strconv.ParseInt(strings.Trim(string(data), `"`), 10, 64)
	}
	return err
}

// decodeTheirs reads a node of NotFound9's fork. It must say when the worker ID was used
// last, or that it never was: a lease that follows starts above that.
func decodeTheirs(n node, id int) (report, error) {
	var e endpoint
	err := json.Unmarshal(n.data, &e)
	switch {
	case err != nil:
	case e.WorkerID == nil || e.WorkerID.value != int64(id):
		err = fmt.Errorf("its workId is not %d", id)
	case !e.Timestamp.found:
		err = errors.New("lastUsedTimestamp is missing")
	case e.Timestamp.value < 0 || e.Timestamp.value > math.MaxInt64/2:
		err = fmt.Errorf("its lastUsedTimestamp %d is no time", e.Timestamp.value)
	}
	if err != nil {
		return report{}, fmt.Errorf("%s %w: %w", n.path, errForeign, err)
	}
	return report{IP: e.IP, Port: e.Port, Timestamp: e.Timestamp.value}, nil
}

// withTheirs is the record of a worker ID with what NotFound9's fork says of it: the node in
// its pool of those in use, and in that of the others.
func (r record) withTheirs(id int, inuse, notuse node) (record, error) {
	if notuse.found {
		rep, err := decodeTheirs(notuse, id)
		if err != nil {
			return r, err
		}
		// A holder that was gone before its first report left but the moment it was moved.
		r.Reserved = max(r.Reserved, rep.Timestamp+theirTrust, notuse.stat.Mtime+leafTrust)
	}
	if inuse.found {
		rep, err := decodeTheirs(inuse, id)
		if err != nil {
			return r, err
		}
		// Until its first report a holder has that of the one before.
		rep.Timestamp = max(rep.Timestamp, inuse.stat.Mtime)
		r = r.ofLeaf(rep, inuse.stat.Mtime, theirTrust)
	}
	return r, nil
}
