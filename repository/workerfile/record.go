package workerfile

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"shardid/model"
)

const (
	version  = 1
	noWorker = -1 // no lease was stored yet
	idLength = 32 // hex digits of an identity
)

// record is the content of the file, see the package documentation.
type record struct {
	Version       int    `json:"version"`
	Identity      string `json:"identity"`
	Registry      string `json:"registry"`
	Address       string `json:"address"`
	WorkerID      int    `json:"worker_id"`
	ReservedUntil int64  `json:"reserved_until"`
	ExpiresAt     int64  `json:"expires_at"`
	EpochMs       int64  `json:"epoch_ms"`
	SavedAt       int64  `json:"saved_at"`
	// Both are 0 for Leaf's, so that a version that has no others reads the file, and
	// refuses one of others.
	WorkerBits uint `json:"worker_bits,omitempty"`
	SeqBits    uint `json:"seq_bits,omitempty"`
}

// mode is that of the registry.
func (r record) mode() string {
	mode, _, _ := strings.Cut(r.Registry, " ")
	return mode
}

// layout is that of the IDs of the lease.
func (r record) layout() model.SnowflakeLayout {
	if r.WorkerBits == 0 && r.SeqBits == 0 {
		return model.SnowflakeLayout{EpochMs: r.EpochMs, WorkerBits: model.LeafWorkerBits, SeqBits: model.LeafSeqBits}
	}
	return model.SnowflakeLayout{EpochMs: r.EpochMs, WorkerBits: r.WorkerBits, SeqBits: r.SeqBits}
}

func (r *record) setLayout(l model.SnowflakeLayout) {
	r.EpochMs, r.WorkerBits, r.SeqBits = l.EpochMs, l.WorkerBits, l.SeqBits
	if l.IsLeaf() {
		r.WorkerBits, r.SeqBits = 0, 0
	}
}

func (r record) text() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return append(text, '\n')
}

// parse reads a file. Every key must be there: one that is missing would read
// as 0, which as a reservation means that nothing was issued.
func parse(text []byte) (record, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return record{}, errors.New("it is empty")
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return record{}, fmt.Errorf("it is no JSON object: %w", err)
	}
	if got := string(keys["version"]); got != fmt.Sprint(version) {
		return record{}, fmt.Errorf("its version is %.20q, this program knows %d", got, version)
	}
	if err := complete(keys); err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, fmt.Errorf("unexpected content: %w", err)
	}
	return r, r.check()
}

// complete wants each key of a record, none as null, and no other. The widths are there
// together or not at all.
func complete(keys map[string]json.RawMessage) error {
	names := []string{"version", "identity", "registry", "address", "worker_id", "reserved_until", "expires_at", "epoch_ms", "saved_at"}
	if len(keys) > len(names) {
		names = append(names, "worker_bits", "seq_bits")
	}
	for _, name := range names {
		if value := string(keys[name]); value == "" || value == "null" {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if len(keys) != len(names) {
		return fmt.Errorf("it has %d keys, not %d", len(keys), len(names))
	}
	return nil
}

// check refuses what no instance can have stored.
func (r record) check() error {
	if _, err := hex.DecodeString(r.Identity); err != nil || len(r.Identity) != idLength {
		return fmt.Errorf("identity %.40q is not %d hex digits", r.Identity, idLength)
	}
	if min(r.ReservedUntil, r.ExpiresAt, r.EpochMs, r.SavedAt) < 0 {
		return errors.New("a time is negative")
	}
	if r.WorkerID == noWorker {
		if r != (record{Version: r.Version, Identity: r.Identity, WorkerID: noWorker, SavedAt: r.SavedAt}) {
			return errors.New("it has a reservation and no worker ID")
		}
		return nil
	}
	layout := r.layout()
	if err := layout.Check(); err != nil {
		return err
	}
	if r.WorkerID < 0 || r.WorkerID >= layout.Workers() {
		return fmt.Errorf("worker ID %d is not 0…%d", r.WorkerID, layout.Workers()-1)
	}
	if r.Registry == "" || r.Address == "" {
		return errors.New("registry or address is empty")
	}
	return nil
}
