package workerfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

func TestFirstLife(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "shardid", "8080")
	f := open(t, options(dir))
	if l, ok := f.Load(); ok {
		t.Errorf("a new folder holds %+v", l)
	}
	if epoch, ok := f.Recorded(); ok {
		t.Errorf("a new folder knows the epoch %d", epoch)
	}
	if other := open(t, options(t.TempDir())); len(f.Identity()) != 32 || f.Identity() == other.Identity() {
		t.Errorf("identities %q and %q", f.Identity(), other.Identity())
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, fileName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	// A process that dies before it gets a worker ID keeps its name, by which a registry may
	// know it already.
	closeFile(t, f)
	again := open(t, options(dir))
	if _, ok := again.Recorded(); ok || again.Identity() != f.Identity() {
		t.Errorf("identity %s became %s", f.Identity(), again.Identity())
	}
}

func TestNextLife(t *testing.T) {
	dir := t.TempDir()
	f := open(t, options(dir))
	identity := f.Identity()
	store(t, f, lease(0, 1000))
	store(t, f, lease(1023, 5000))
	wantLease(t, f, 1023, 5000)
	if _, ok := f.Recorded(); ok {
		t.Error("what this life stored is not of the last one")
	}
	closeFile(t, f)
	f = open(t, options(dir))
	check.Equal(t, f.Identity(), identity, "identity")
	wantLease(t, f, 1023, 5000)
	if epoch, ok := f.Recorded(); !ok || epoch != options(dir).Layout.EpochMs {
		t.Errorf("recorded %d, %v", epoch, ok)
	}
}

// TestOtherSettings: a lease of another kind of registry or epoch is not used,
// and not forgotten before there is a new one.
func TestOtherSettings(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"registry": func(o *Options) { o.Registry = "mysql" },
		"epoch":    func(o *Options) { o.Layout.EpochMs++ },
		"widths":   func(o *Options) { o.Layout.WorkerBits, o.Layout.SeqBits = 5, 7 },
		"sequence": func(o *Options) { o.Layout.SeqBits = 11 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, options(dir))
			store(t, f, lease(7, 5000))
			closeFile(t, f)
			o := options(dir)
			change(&o)
			f = open(t, o)
			if l, ok := f.Load(); ok {
				t.Errorf("loaded %+v", l)
			}
			if epoch, ok := f.Recorded(); !ok || epoch != options(dir).Layout.EpochMs {
				t.Errorf("recorded %d, %v", epoch, ok)
			}
			closeFile(t, f)
			wantLease(t, open(t, options(dir)), 7, 5000)
		})
	}
}

// TestOtherWidths: the file of a layout other than Leaf's says so, holds no worker ID that
// the layout has no room for, and is the same lease for the same layout only.
func TestOtherWidths(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Layout.WorkerBits, o.Layout.SeqBits = 5, 7
	f := open(t, o)
	check.Is(t, f.Store(lease(32, 5000)), model.ErrInvalidArgument, "worker ID 32 of 5 bits")
	store(t, f, lease(31, 5000))
	closeFile(t, f)
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	check.Must(t, err)
	if !strings.Contains(string(text), `"worker_bits":5,"seq_bits":7`) {
		t.Errorf("the file has %s", text)
	}
	wantLease(t, open(t, o), 31, 5000)
	for _, wrong := range []string{
		strings.Replace(string(text), `"worker_bits":5,`, "", 1),
		strings.Replace(string(text), `"worker_bits":5`, `"worker_bits":4`, 1), // no room for 31
		strings.Replace(string(text), `"seq_bits":7`, `"seq_bits":15`, 1),
		strings.Replace(string(text), `"seq_bits":7`, `"seq_bits":0`, 1),
	} {
		if r, err := parse([]byte(wrong)); err == nil {
			t.Errorf("accepted %+v of %s", r, wrong)
		}
	}
}

// TestAnotherAddress: what was reserved in the folder counts wherever its process is
// reached, and it is known of which registry the lease is.
func TestAnotherAddress(t *testing.T) {
	for _, registry := range []string{ModeLocal, "zk", "zk shardid 4fae"} {
		dir := t.TempDir()
		o := options(dir)
		o.Registry, _, _ = strings.Cut(registry, " ")
		f := open(t, o)
		l := lease(7, 5000)
		l.Registry = registry
		store(t, f, l)
		closeFile(t, f)
		o.Address = "10.0.0.6:8080"
		l, ok := open(t, o).Load()
		if !ok || l.WorkerID != 7 || l.Reserved != 5000 || l.Owner.Address != o.Address || l.Registry != registry {
			t.Errorf("loaded %+v, %v", l, ok)
		}
	}
}

// TestFailedStore: Load goes on giving what was stored last, and the next Store
// that can succeeds.
func TestFailedStore(t *testing.T) {
	dir := t.TempDir()
	f := open(t, options(dir))
	store(t, f, lease(7, 5000))
	inTheWay := filepath.Join(dir, tempName)
	check.Must(t, os.Mkdir(inTheWay, 0o700))
	err := f.Store(lease(7, 9000))
	if !errors.Is(err, ErrNotWritable) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("got %v, want ErrNotWritable with the folder", err)
	}
	wantLease(t, f, 7, 5000)
	check.Must(t, os.Remove(inTheWay))
	store(t, f, lease(7, 9500))
	wantLease(t, f, 7, 9500)
	closeFile(t, f)
	// It is known before the first lease, also when all files are there already.
	check.Must(t, os.Mkdir(inTheWay, 0o700))
	for range 2 { // and the lock is given back
		check.Is(t, check.Err(Open(options(dir))), ErrNotWritable)
	}
}

func TestBadLease(t *testing.T) {
	f := open(t, options(t.TempDir()))
	store(t, f, lease(7, 5000))
	elsewhere := lease(7, 9000)
	elsewhere.Owner.Address = "10.0.0.6:8080"
	for _, bad := range []model.Lease{lease(-1, 9000), lease(-2, 9000), lease(1024, 9000), lease(7, -1), elsewhere} {
		check.Is(t, f.Store(bad), model.ErrInvalidArgument, bad)
	}
	wantLease(t, f, 7, 5000)
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	f := open(t, options(dir))
	closeFile(t, f)
	closeFile(t, f)
	next := open(t, options(dir))
	store(t, next, lease(7, 5000))
	check.Is(t, f.Store(lease(7, 1)), os.ErrClosed, "stored after Close")
	closeFile(t, f) // takes nothing from the next one
	for range 2 {
		_, err := Open(options(dir))
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "data_dir") {
			t.Fatalf("got %v, want ErrLocked with the folder", err)
		}
	}
	wantLease(t, next, 7, 5000)
	store(t, next, lease(7, 6000))
	closeFile(t, next)
	wantLease(t, open(t, options(dir)), 7, 6000)
}

func TestBadOptions(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []Options{{}, {Dir: dir, Registry: "zk"}, {Dir: dir, Address: address}, {Registry: "zk", Address: address},
		{Dir: dir, Registry: "zk", Address: address, Layout: model.SnowflakeLayout{EpochMs: -1, WorkerBits: 10, SeqBits: 12}},
		{Dir: dir, Registry: "zk", Address: address, Layout: model.SnowflakeLayout{WorkerBits: 11, SeqBits: 11}}} {
		check.Is(t, check.Err(Open(o)), model.ErrInvalidArgument, o)
	}
}

// TestFolderCannotBeMade works for root too, whom no mode stops.
func TestFolderCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file", "")
	check.Must(t, os.MkdirAll(filepath.Join(dir, "taken", lockName), 0o700))
	for _, path := range []string{"file", "file/8080", "taken"} {
		path = filepath.Join(dir, path)
		_, err := Open(options(path))
		if !errors.Is(err, ErrNotWritable) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "data_dir") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestReadOnlyFolder: it held a file once, so nothing has to be made in it.
func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root writes where it wants")
	}
	dir := t.TempDir()
	closeFile(t, open(t, options(dir)))
	check.Must(t, os.Chmod(dir, 0o500))
	defer os.Chmod(dir, 0o700) //nolint:errcheck // for the cleanup of TempDir
	if _, err := Open(options(dir)); !errors.Is(err, ErrNotWritable) {
		t.Errorf("got %v, want ErrNotWritable", err)
	}
}

// good is a file as it was written once; files of today must be readable by
// later versions.
const good = `{"version":1,"identity":"00112233445566778899aabbccddeeff","registry":"zk","address":"10.0.0.5:8080",` +
	`"worker_id":7,"reserved_until":5000,"expires_at":6000,"epoch_ms":1288834974657,"saved_at":1567733700834}` + "\n"

const fresh = `{"version":1,"identity":"00112233445566778899aabbccddeeff","registry":"","address":"",` +
	`"worker_id":-1,"reserved_until":0,"expires_at":0,"epoch_ms":0,"saved_at":1567733700834}` + "\n"

// TestCorrupt: no file that says something else than we write is taken for one
// that says nothing.
func TestCorrupt(t *testing.T) {
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatal("nothing to replace: " + old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, text := range map[string]string{
		"empty":                    "",
		"blank":                    " \n",
		"zeros, as after a crash":  string(make([]byte, 200)),
		"truncated":                good[:100],
		"without its last brace":   strings.TrimSuffix(good, "}\n"),
		"text":                     "worker 7",
		"null":                     "null",
		"list":                     "[" + good + "]",
		"two objects":              good + good,
		"no object":                "{}",
		"later version":            change(`"version":1`, `"version":2`),
		"version is text":          change(`"version":1`, `"version":"1"`),
		"no version":               change(`"version":1,`, ``),
		"worker ID 5000":           change(`"worker_id":7`, `"worker_id":5000`),
		"worker ID 1024":           change(`"worker_id":7`, `"worker_id":1024`),
		"worker ID -2":             change(`"worker_id":7`, `"worker_id":-2`),
		"worker ID is null":        change(`"worker_id":7`, `"worker_id":null`),
		"worker ID is missing":     change(`"worker_id":7,`, ``),
		"no worker ID, reserved":   change(`"worker_id":7`, `"worker_id":-1`),
		"negative reservation":     change(`5000`, `-5000`),
		"negative expiry":          change(`6000`, `-1`),
		"negative epoch":           change(`:1288834974657`, `:-1`),
		"reservation is missing":   change(`"reserved_until":5000,`, ``),
		"reservation is a word":    change(`5000`, `"5000"`),
		"reservation is a half":    change(`5000`, `5000.5`),
		"reservation out of range": change(`5000`, `99999999999999999999`),
		"second spelling":          change(`"worker_id":7`, `"worker_id":7,"Worker_ID":8`),
		"unknown key":              change(`"worker_id":7`, `"worker_id":7,"more":8`),
		"short identity":           change(`00112233445566778899aabbccddeeff`, `0011`),
		"identity of letters":      change(`00112233445566778899aabbccddeeff`, `xx112233445566778899aabbccddeeff`),
		"no registry":              change(`"zk"`, `""`),
		"no address":               change(`"10.0.0.5:8080"`, `""`),
		"too long":                 strings.Repeat(" ", maxSize) + good,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, fileName, text)
			_, err := Open(options(dir))
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("got %v, want ErrCorrupt", err)
			}
			for _, word := range []string{filepath.Join(dir, fileName), "delete it", "until its last lease has run out"} {
				if !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if kept, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil || string(kept) != text {
				t.Errorf("the file was changed: %q, %v", kept, err)
			}
		})
	}
}

// TestUnreadable: what cannot be read is not taken for absent.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	check.Must(t, os.Mkdir(filepath.Join(dir, fileName), 0o700))
	if f, err := Open(options(dir)); err == nil {
		t.Errorf("opened with identity %s", f.Identity())
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(fresh))
	f.Add([]byte(good[:100]))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			return
		}
		if r.WorkerID < noWorker || r.WorkerID >= model.SnowflakeWorkers || min(r.ReservedUntil, r.ExpiresAt, r.EpochMs) < 0 {
			t.Errorf("accepted %+v", r)
		}
		if again, err := parse(r.text()); err != nil || again != r {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}
