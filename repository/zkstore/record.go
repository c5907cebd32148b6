package zkstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"shardid/model"
	"shardid/repository/workerid"
)

// errForeign reports a node that neither we nor Leaf have written.
var errForeign = errors.New("is not a record of a worker ID")

// report is what Java Leaf keeps in a node, by name and type: its decoder
// refuses any other field.
type report struct {
	IP        string `json:"ip"`
	Port      string `json:"port"`
	Timestamp int64  `json:"timestamp"` // the holder's clock at its last report, Unix ms; 0 before the first
}

// record is a workerid.Record as a node has it.
type record struct {
	report
	Identity string `json:"identity"`
	Token    string `json:"token"`
	Reserved int64  `json:"reserved"`
	Expires  int64  `json:"expires"`
	Acquired int64  `json:"acquired"`
}

func reportOf(r workerid.Record) report {
	ip, port, _ := net.SplitHostPort(r.Address) // checked when the call began
	return report{IP: ip, Port: port, Timestamp: r.Reported}
}

func recordOf(r workerid.Record) record {
	return record{reportOf(r), r.Identity, r.Token, r.Reserved, r.Expires, r.Acquired}
}

func (r report) address() string { return net.JoinHostPort(r.IP, r.Port) }

func (r record) record() workerid.Record {
	return workerid.Record{Address: r.address(), Identity: r.Identity, Token: r.Token,
		Reserved: r.Reserved, Expires: r.Expires, Acquired: r.Acquired, Reported: r.Timestamp}
}

// own is the record without the report of another holder, or of another life: a replica of 0.3 compares its clock with
// the report of whoever holds a worker ID.
func own(r workerid.Record) workerid.Record {
	if r.Acquired > 0 {
		r.Reported = 0
	}
	return r
}

// encode gives the JSON of a report or a record, which are made of texts and
// numbers: it cannot fail.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

// decode reads a report or a record. Fields it does not know are left alone: another
// version may have written them.
func decode[T report | record | forkReport](n node) (T, error) {
	var v T
	if err := json.Unmarshal(n.data, &v); err != nil {
		return v, fmt.Errorf("%s %w: %w", n.path, errForeign, err)
	}
	return v, nil
}

// numberOf is the worker ID that a name is; false for any other.
func numberOf(name string) (id int, ok bool) {
	id, err := strconv.Atoi(name)
	return id, err == nil && id >= 0 && id < model.SnowflakeWorkers && strconv.Itoa(id) == name
}
