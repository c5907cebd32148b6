package workerfile

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"shardid/model"
)

var (
	// ErrCorrupt says that worker.json is not what this package writes.
	ErrCorrupt = errors.New("the worker file is corrupt")
	// ErrNotWritable says that the folder cannot be made or written.
	ErrNotWritable = errors.New("the folder of the worker file cannot be written")
)

// ModeLocal is the registry that knows worker IDs by the configuration alone: all
// that keeps its IDs apart over time is the file.
const ModeLocal = "local"

const (
	fileName = "worker.json"
	tempName = "worker.json.tmp" // one name: the lock lets no other writer in
	lockName = "worker.lock"
	maxSize  = 64 << 10 // bytes; what we write has some 300
)

// Options says where the file is and whose it is.
type Options struct {
	// Dir is the instance's own folder, <data_dir>/<name>/<port>. It is made when
	// it is missing.
	Dir string
	// Registry is the mode of the registry, Layout that of the IDs: a lease of others is
	// not loaded. Address is the instance's ip:port.
	Registry string
	Address  string
	Layout   model.SnowflakeLayout
}

// File is the worker file of this process. Safe for concurrent use.
type File struct {
	o    Options
	lock io.Closer // nil once closed

	mu    sync.Mutex
	saved record // what the file holds
	last  record // what it held when it was opened
}

// Open locks the folder and reads the file. When there is none it makes an
// identity. It writes the file in any case, which shows that it can. Errors:
// ErrLocked, ErrCorrupt, ErrNotWritable, model.ErrInvalidArgument; all say which
// path and what to do.
func Open(o Options) (*File, error) {
	if o.Dir == "" || o.Registry == "" || o.Address == "" || o.Layout.EpochMs < 0 || o.Layout.Check() != nil {
		return nil, fmt.Errorf("%w: worker file %+v", model.ErrInvalidArgument, o)
	}
	if err := makeFolder(o.Dir); err != nil {
		return nil, notWritable(o.Dir, err)
	}
	lock, err := Lock(filepath.Join(o.Dir, lockName))
	switch {
	case errors.Is(err, ErrLocked):
		return nil, fmt.Errorf("another process uses the folder of the worker file %s: stop it, or give this one its own data_dir or port: %w", o.Dir, err)
	case err != nil:
		return nil, notWritable(o.Dir, err)
	}
	f := &File{o: o, lock: lock}
	if err := f.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

func (f *File) load() error {
	r, err := read(filepath.Join(f.o.Dir, fileName))
	if errors.Is(err, os.ErrNotExist) {
		var identity [idLength / 2]byte
		_, _ = rand.Read(identity[:]) // never fails
		r, err = record{Version: version, Identity: hex.EncodeToString(identity[:]), WorkerID: noWorker,
			SavedAt: time.Now().UnixMilli()}, nil
	}
	if err != nil {
		return err
	}
	f.last = r
	return f.save(r)
}

// read gives what the file holds. Errors: os.ErrNotExist, ErrCorrupt.
func read(path string) (record, error) {
	file, err := os.Open(path) //nolint:gosec // the operator's own data_dir
	if err != nil {
		return record{}, fmt.Errorf("open the worker file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSize))
	if err != nil {
		return record{}, fmt.Errorf("read the worker file: %w", err)
	}
	r, err := parse(text)
	if err != nil {
		return record{}, fmt.Errorf("%w: %s: %w: restore it, or delete it; without it the worker ID is asked for anew "+
			"and may take until its last lease has run out", ErrCorrupt, path, err)
	}
	return r, nil
}

// save writes the record durably. Under mu, or before others know the file.
func (f *File) save(r record) error {
	if err := replace(f.o.Dir, r.text()); err != nil {
		return notWritable(f.o.Dir, err)
	}
	f.saved = r
	return nil
}

func notWritable(dir string, err error) error {
	return fmt.Errorf("%w: %s: %w: let this user write there, make room, or set another data_dir", ErrNotWritable, dir, err)
}

// Identity is that of the folder: 32 hex digits, the same as long as the file is.
func (f *File) Identity() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saved.Identity
}

// Load returns the lease that was stored last, in this life or the one before,
// at whatever address, and false when there is none or it is of another mode or
// layout. It has neither token nor node. Its After is its Reserved: all of it may have
// been used.
func (f *File) Load() (model.Lease, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.saved
	if r.WorkerID == noWorker || r.mode() != f.o.Registry || r.layout() != f.o.Layout {
		return model.Lease{}, false
	}
	return model.Lease{
		WorkerID: r.WorkerID, Registry: r.Registry, Owner: model.Owner{Address: f.o.Address, Identity: r.Identity},
		After: r.ReservedUntil, Reserved: r.ReservedUntil, Expires: r.ExpiresAt,
	}, true
}

// Recorded returns the epoch of the lease that the life before this one stored
// last, whatever its registry, and false when it stored none.
func (f *File) Recorded() (epochMs int64, ok bool) {
	return f.last.EpochMs, f.last.WorkerID != noWorker
}

// Store writes the lease durably: when it returns nil, a power cut does not undo
// it. After an error Load gives what it gave before, and the disk may hold
// either. Errors: ErrNotWritable, model.ErrInvalidArgument, os.ErrClosed.
func (f *File) Store(lease model.Lease) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return fmt.Errorf("store in the worker file %s: %w", f.o.Dir, os.ErrClosed)
	}
	if lease.WorkerID == noWorker || lease.Owner.Address != f.o.Address {
		return fmt.Errorf("%w: lease %+v in the worker file of %s", model.ErrInvalidArgument, lease, f.o.Address)
	}
	r := f.saved
	r.Registry, r.Address = cmp.Or(lease.Registry, f.o.Registry), f.o.Address
	r.setLayout(f.o.Layout)
	r.WorkerID, r.ReservedUntil, r.ExpiresAt = lease.WorkerID, lease.Reserved, lease.Expires
	r.SavedAt = time.Now().UnixMilli()
	if err := r.check(); err != nil {
		return fmt.Errorf("%w: lease %+v in the worker file: %w", model.ErrInvalidArgument, lease, err)
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
	if err := lock.Close(); err != nil {
		return fmt.Errorf("unlock the worker file: %w", err)
	}
	return nil
}
