// Package workerfile keeps an instance's worker ID and its reservation on the local disk, and gives
// worker IDs without a store: as the configuration says, or by the name of the host.
//
// # The file
//
// worker.json lies in a folder that one process at a time uses; a lock on worker.lock beside it makes
// sure of that and ends with the process, kill -9 included. A new worker.json is written to
// worker.json.tmp, synced, renamed over the old one, and the folder is synced: after a power cut there
// is the old one or the new one, whole. worker.json.tmp is never read.
//
//	{"version":1,"identity":"<32 hex digits>","registry":"zk shardid 4f…","address":"10.0.0.5:8080",
//	 "worker_id":7,"reserved_until":…,"expires_at":…,"epoch_ms":…,"saved_at":…}
//
// A file is understood only if it is what this package writes, but for blanks: what another one has
// reserved cannot be guessed, and to begin without it would give the same IDs again. It is refused, and
// left as it is.
package workerfile

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"shardid/client/idgen"
	"shardid/model"
)

const (
	fileName = "worker.json"
	tempName = "worker.json.tmp" // one name: the lock lets no other writer in
	lockName = "worker.lock"
	version  = 1
	noWorker = -1 // the worker ID before the first lease
)

// Options says where the file is and whose it is.
type Options struct {
	// Dir is the instance's own folder, <data_dir>/<name>/<port>. It is made when it is missing.
	Dir string
	// Registry is the mode of the registry, Layout that of the IDs: a lease of others is not loaded.
	// Address is the instance's ip:port.
	Registry string
	Address  string
	Layout   idgen.Layout
}

// File is the worker file of this process. Safe for concurrent use.
type File struct {
	o    Options
	mu   sync.Mutex
	held record    // what the file holds
	lock io.Closer // of the folder; nil once closed
}

// record is what worker.json says, in the order of the file. Times are Unix milliseconds.
type record struct {
	Version       int    `json:"version"`
	Identity      string `json:"identity"` // of the folder, 32 hex digits
	Registry      string `json:"registry"` // its mode and, after a blank, which one it is; "" before the first lease
	Address       string `json:"address"`  // of the instance; "" before the first lease
	WorkerID      int    `json:"worker_id"`
	ReservedUntil int64  `json:"reserved_until"`
	ExpiresAt     int64  `json:"expires_at"`
	EpochMs       int64  `json:"epoch_ms"`
	SavedAt       int64  `json:"saved_at"`
	WorkerBits    uint   `json:"worker_bits,omitempty"` // both are 0 for Leaf's widths
	SeqBits       uint   `json:"seq_bits,omitempty"`
}

// Open locks the folder and reads the file. When there is none it makes an identity. It writes the file
// in any case, which shows that it can. Errors, with the path and what to do: ErrLocked, those of the
// system, and that of a file that is not understood.
func Open(o Options) (*File, error) {
	if err := makeFolder(o.Dir); err != nil {
		return nil, notWritable(o.Dir, err)
	}
	lock, err := tryLock(filepath.Join(o.Dir, lockName))
	switch {
	case errors.Is(err, ErrLocked):
		return nil, fmt.Errorf("%w: another process uses the folder of the worker file %s: %w",
			model.Do("stop the other process, or give this one its own data_dir or port"), o.Dir, err)
	case err != nil:
		return nil, notWritable(o.Dir, err)
	}
	f := &File{o: o, lock: lock}
	r, err := readRecord(filepath.Join(o.Dir, fileName))
	if err == nil {
		err = f.save(r)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// readRecord gives what the file says, and a new record where there is none.
func readRecord(path string) (record, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator's own data_dir
	if errors.Is(err, fs.ErrNotExist) {
		identity := make([]byte, 16)
		_, _ = rand.Read(identity) // never fails
		return record{Version: version, Identity: hex.EncodeToString(identity), WorkerID: noWorker,
			SavedAt: time.Now().UnixMilli()}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read the worker file: %w", err)
	}
	r, err := parseRecord(text)
	if err != nil {
		return record{}, fmt.Errorf("%w: the worker file %s is not understood: %w",
			model.Do("restore the worker file, or delete it; without it the worker ID is asked for anew, and may take "+
				"until its last lease has run out"), path, err)
	}
	return r, nil
}

// parseRecord wants what text gives. A key that is missing would read as 0, which as a reservation means
// that nothing was issued; it shows as the text is not that of the record.
func parseRecord(text []byte) (record, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, err
	}
	if r.Version != version {
		return record{}, fmt.Errorf("its version is %d, this program knows %d", r.Version, version)
	}
	var plain bytes.Buffer
	if err := json.Compact(&plain, text); err != nil || !bytes.Equal(plain.Bytes(), r.text()) {
		return record{}, errors.New("it lacks a key, or has another one, or in another order")
	}
	layout := r.layout()
	switch {
	case r.WorkerID == noWorker:
		return r, nil
	case layout.Check() != nil:
		return r, layout.Check()
	case r.WorkerID < 0 || int64(r.WorkerID) >= layout.Workers():
		return r, fmt.Errorf("worker ID %d is not 0…%d", r.WorkerID, layout.Workers()-1)
	case min(r.ReservedUntil, r.ExpiresAt, r.EpochMs) < 0:
		return r, errors.New("a time is negative")
	}
	return r, nil
}

func (r record) text() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return text
}

// layout is that of the IDs of the lease.
func (r record) layout() idgen.Layout {
	if r.WorkerBits == 0 && r.SeqBits == 0 {
		r.WorkerBits, r.SeqBits = model.LeafWorkerBits, model.LeafSeqBits
	}
	return model.SnowflakeLayout(r.EpochMs, r.WorkerBits, r.SeqBits)
}

// save writes the record durably. It runs under mu, or before others know the file.
func (f *File) save(r record) error {
	if err := replaceFile(f.o.Dir, append(r.text(), '\n')); err != nil {
		return notWritable(f.o.Dir, err)
	}
	f.held = r
	return nil
}

func notWritable(dir string, err error) error {
	return fmt.Errorf("%w: the folder of the worker file %s cannot be written: %w",
		model.Do("let this user write there, make room, or set another data_dir"), dir, err)
}

// Identity is that of the folder: 32 hex digits, the same as long as the file is.
func (f *File) Identity() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held.Identity
}

// Load returns the lease that was stored last, in this life or the one before, at whatever address, and
// false when there is none or it is of another mode or layout. It has neither token nor node. Its After
// is its Reserved: all of it may have been used.
func (f *File) Load() (model.Lease, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.held
	mode, _, _ := strings.Cut(r.Registry, " ")
	if r.WorkerID == noWorker || mode != f.o.Registry || r.layout() != f.o.Layout {
		return model.Lease{}, false
	}
	return model.Lease{
		WorkerID: r.WorkerID, Registry: r.Registry, Owner: model.Owner{Address: f.o.Address, Identity: r.Identity},
		After: r.ReservedUntil, Reserved: r.ReservedUntil, Expires: r.ExpiresAt,
	}, true
}

// Store writes the lease durably: when it returns nil, a power cut does not undo it. After an error Load
// gives what it gave before, and the disk may hold either. Errors: os.ErrClosed, those of the system.
func (f *File) Store(lease model.Lease) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return fmt.Errorf("store in the worker file %s: %w", f.o.Dir, os.ErrClosed)
	}
	r := record{
		Version: version, Identity: f.held.Identity,
		Registry: cmp.Or(lease.Registry, f.o.Registry), Address: f.o.Address,
		WorkerID: lease.WorkerID, ReservedUntil: lease.Reserved, ExpiresAt: lease.Expires,
		EpochMs: f.o.Layout.Epoch, SavedAt: time.Now().UnixMilli(),
	}
	if !model.IsLeafs(f.o.Layout) {
		r.WorkerBits, r.SeqBits = f.o.Layout.WorkerBits, f.o.Layout.SeqBits
	}
	return f.save(r)
}

// Close gives the folder to others. It may be called twice.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return nil
	}
	lock := f.lock
	f.lock = nil
	return lock.Close()
}

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("it is locked")

// tryLock takes the lock on the file at path, which it makes when it is missing and never removes: two
// processes could lock a removed and a new one. Closing it, or the end of the process, frees it.
// Errors: ErrLocked, that of the system.
func tryLock(path string) (io.Closer, error) {
	lock := flock.New(path)
	switch held, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !held:
		return nil, ErrLocked
	}
	return lock, nil
}

// replaceFile puts text in the place of the worker file, durably and whole.
func replaceFile(dir string, text []byte) error {
	temp := filepath.Join(dir, tempName)
	//nolint:gosec // the operator's own data_dir
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp, filepath.Join(dir, fileName)); err != nil {
		return err
	}
	return syncFolder(dir) // the name is the folder's content
}

// makeFolder makes dir and its parents. Each is synced into its own parent, or a power cut could take the
// folder with all that is in it.
func makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been faster
		return err
	}
	return syncFolder(parent)
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir) //nolint:gosec // the operator's own data_dir
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
