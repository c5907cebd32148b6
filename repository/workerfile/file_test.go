package workerfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const address = "10.0.0.5:8080"

func options(dir string) Options {
	return Options{Dir: dir, Registry: "zk", Address: address,
		Layout: model.SnowflakeLayout(1_288_834_974_657, 10, 12)}
}

func open(t *testing.T, o Options) *File {
	t.Helper()
	f, err := Open(o)
	check.Must(t, err)
	t.Cleanup(func() { check.OK(t, f.Close()) })
	return f
}

func closeFile(t *testing.T, f *File) {
	t.Helper()
	check.Must(t, f.Close())
}

func lease(worker int, reserved int64) model.Lease {
	return model.Lease{WorkerID: worker, Owner: model.Owner{Address: address, Token: "t"},
		Reserved: reserved, Expires: reserved + 1000}
}

func store(t *testing.T, f *File, l model.Lease) {
	t.Helper()
	check.Must(t, f.Store(l))
}

// wantLease wants the lease to be loaded, as an earlier life stored it.
func wantLease(t *testing.T, f *File, worker int, reserved int64) {
	t.Helper()
	got, ok := f.Load()
	want := model.Lease{WorkerID: worker, Registry: "zk", Owner: model.Owner{Address: address, Identity: f.Identity()},
		After: reserved, Reserved: reserved, Expires: reserved + 1000}
	if !ok || got != want {
		t.Fatalf("loaded %+v, %v, want %+v", got, ok, want)
	}
}

// put writes a file as something else than this package would.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// The files of version 0.3, which later versions read: of an instance that had worker ID 7, of one whose IDs have other
// widths than Leaf's, and of one that never had a worker ID.
const (
	good = `{"version":1,"identity":"00112233445566778899aabbccddeeff","registry":"zk","address":"10.0.0.5:8080",` +
		`"worker_id":7,"reserved_until":5000,"expires_at":6000,"epoch_ms":1288834974657,"saved_at":1567733700834}` +
		"\n"
	wide = `{"version":1,"identity":"00112233445566778899aabbccddeeff","registry":"zk","address":"10.0.0.5:8080",` +
		`"worker_id":31,"reserved_until":5000,"expires_at":6000,"epoch_ms":1288834974657,"saved_at":1567733700834,` +
		`"worker_bits":5,"seq_bits":7}` + "\n"
	fresh = `{"version":1,"identity":"00112233445566778899aabbccddeeff","registry":"","address":"",` +
		`"worker_id":-1,"reserved_until":0,"expires_at":0,"epoch_ms":0,"saved_at":1567733700834}` + "\n"
)

func narrow(o *Options) { o.Layout.WorkerBits, o.Layout.SeqBits = 5, 7 }

// TestFilesOfBefore: they are read, and the same is written again.
func TestFilesOfBefore(t *testing.T) {
	spaced := strings.ReplaceAll(good, ",", ",\n  ")
	for text, worker := range map[string]int{good: 7, wide: 31, fresh: noWorker, spaced: 7} {
		dir := t.TempDir()
		put(t, dir, fileName, text)
		o := options(dir)
		if text == wide {
			narrow(&o)
		}
		f := open(t, o)
		if worker == noWorker {
			_, ok := f.Load()
			check.Equal(t, ok, false, "a lease")
			continue
		}
		wantLease(t, f, worker, 5000)
		kept, err := os.ReadFile(filepath.Join(dir, fileName))
		check.Must(t, err)
		if text == good || text == wide {
			check.Equal(t, string(kept), text)
		}
	}
}

// TestLives: what one life stores is what the next one loads, at whatever address, and the folder keeps its identity;
// a lease of another kind of registry, or of IDs of another layout, is not loaded, and not forgotten.
func TestLives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "shardid", "8080")
	f := open(t, options(dir))
	if l, ok := f.Load(); ok {
		t.Errorf("a new folder holds %+v", l)
	}
	identity := f.Identity()
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, fileName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	closeFile(t, f) // a process that dies before it gets a worker ID keeps its name
	f = open(t, options(dir))
	l := lease(1023, 5000)
	l.Registry = "zk shardid 4fae"
	store(t, f, lease(0, 1000))
	store(t, f, l)
	closeFile(t, f)
	for name, c := range map[string]struct {
		change func(*Options)
		loads  bool
	}{
		"the same":           {func(*Options) {}, true},
		"another address":    {func(o *Options) { o.Address = "10.0.0.6:8080" }, true},
		"another registry":   {func(o *Options) { o.Registry = "mysql" }, false},
		"another epoch":      {func(o *Options) { o.Layout.Epoch++ }, false},
		"other widths":       {narrow, false},
		"a shorter sequence": {func(o *Options) { o.Layout.SeqBits = 11 }, false},
	} {
		o := options(dir)
		c.change(&o)
		f := open(t, o)
		got, ok := f.Load()
		want := model.Lease{}
		if c.loads {
			want = model.Lease{WorkerID: 1023, Registry: "zk shardid 4fae", After: 5000, Reserved: 5000, Expires: 6000,
				Owner: model.Owner{Address: o.Address, Identity: identity}}
		}
		if ok != c.loads || got != want || f.Identity() != identity {
			t.Errorf("%s: loaded %+v, %v, identity %s, want %+v", name, got, ok, f.Identity(), want)
		}
		closeFile(t, f)
	}
	if other := open(t, options(t.TempDir())); len(identity) != 32 || other.Identity() == identity {
		t.Errorf("identities %q and %q", identity, other.Identity())
	}
}

// TestStoreFails: what was not written is not held, and nothing is after the end.
func TestStoreFails(t *testing.T) {
	dir := t.TempDir()
	f := open(t, options(dir))
	store(t, f, lease(7, 5000))
	inTheWay := filepath.Join(dir, tempName)
	check.Must(t, os.Mkdir(inTheWay, 0o700))
	wantUnwritable(t, f.Store(lease(7, 9000)), dir)
	wantLease(t, f, 7, 5000)
	check.Must(t, os.Remove(inTheWay))
	store(t, f, lease(7, 9500))
	wantLease(t, f, 7, 9500)
	closeFile(t, f)
	check.Is(t, f.Store(lease(7, 1)), os.ErrClosed)
	check.Must(t, os.Mkdir(inTheWay, 0o700)) // it shows before the first lease
	for range 2 {                            // and the lock is given back
		wantUnwritable(t, check.Err(Open(options(dir))), dir)
	}
}

func wantUnwritable(t *testing.T, err error, path string) {
	t.Helper()
	for _, word := range []string{path, "cannot be written", "data_dir"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %s", err, word)
		}
	}
}

// TestFolderCannotBeMade works for root too, whom no mode stops.
func TestFolderCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file", "")
	check.Must(t, os.MkdirAll(filepath.Join(dir, "taken", lockName), 0o700))
	for _, path := range []string{"file", "file/8080", "taken"} {
		path = filepath.Join(dir, path)
		wantUnwritable(t, check.Err(Open(options(path))), path)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	f := open(t, options(dir))
	closeFile(t, f)
	next := open(t, options(dir))
	closeFile(t, f) // takes nothing from the next one
	for range 2 {
		err := check.Err(Open(options(dir)))
		check.Is(t, err, ErrLocked)
		check.Has(t, err.Error(), dir)
	}
	store(t, next, lease(7, 6000))
}

// TestNotUnderstood: no file that says something else than we write is taken for one that says nothing.
func TestNotUnderstood(t *testing.T) {
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatal("nothing to replace: " + old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, text := range map[string]string{
		"empty":                  "",
		"truncated":              good[:100],
		"later version":          change(`"version":1`, `"version":2`),
		"worker ID 1024":         change(`"worker_id":7`, `"worker_id":1024`),
		"negative reservation":   change(`5000`, `-5000`),
		"reservation is missing": change(`"reserved_until":5000,`, ``),
		"reservation is null":    change(`5000`, `null`),
		"a key twice":            change(`"worker_id":7`, `"worker_id":7,"worker_id":7`),
		"unknown key":            change(`"worker_id":7`, `"worker_id":7,"more":8`),
		"one width":              strings.Replace(wide, `"worker_bits":5,`, ``, 1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, fileName, text)
			_, err := Open(options(dir))
			for _, word := range []string{filepath.Join(dir, fileName), "not understood", "delete it"} {
				if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if kept, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil || string(kept) != text {
				t.Errorf("the file was changed: %q, %v", kept, err)
			}
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		dir := t.TempDir()
		check.Must(t, os.Mkdir(filepath.Join(dir, fileName), 0o700))
		check.Equal(t, check.Err(Open(options(dir))) != nil, true, "an error")
	})
}

// TestPowerCut: what may lie beside the file when the machine stops between two steps of a Store is not read.
func TestPowerCut(t *testing.T) {
	newer := strings.Replace(good, "5000", "9000", 1)
	for _, temp := range []string{"", newer[:len(newer)/2], string(make([]byte, len(newer))), newer} {
		dir := t.TempDir()
		put(t, dir, fileName, good)
		put(t, dir, tempName, temp)
		f := open(t, options(dir))
		wantLease(t, f, 7, 5000)
		store(t, f, lease(7, 10_000))
		closeFile(t, f)
		wantLease(t, open(t, options(dir)), 7, 10_000)
	}
}

// TestLocal: each address of the map has its worker ID, whose bounds nobody else keeps, and no other has one.
func TestLocal(t *testing.T) {
	const other = "10.0.0.6:8080"
	registry := Local(map[string]int{address: 1023, other: 0})
	for at, id := range map[string]int{address: 1023, other: 0} {
		o := model.Owner{Address: at, Token: "t"}
		lease, err := registry.Acquire(t.Context(), o)
		check.Must(t, err)
		check.Equal(t, lease, model.Lease{WorkerID: id, Owner: o, Registry: ModeLocal})
		lease.Reserved, lease.Expires = 5, 7
		renewed, err := registry.Renew(t.Context(), lease)
		check.Must(t, err)
		check.Equal(t, renewed, lease)
	}
	unlisted := model.Owner{Address: "10.0.0.7:8080", Token: "t"}
	check.Is(t, check.Err(registry.Acquire(t.Context(), unlisted)), model.ErrNoWorkerID)
}

func TestOrdinalOfAHost(t *testing.T) {
	for host, want := range map[string]int{
		"shardid-0": 0, "shardid-31": 31, "a-b-7": 7, "shardid-12.shardid-pods.ids.svc.cluster.local": 12,
	} {
		lease, err := Ordinal(host, 32).Acquire(t.Context(), model.Owner{Address: address, Token: "t"})
		check.OK(t, err, host)
		set, _, _ := strings.Cut(host, ".")
		set = set[:strings.LastIndexByte(set, '-')]
		if lease.WorkerID != want || lease.Registry != "ordinal "+set {
			t.Errorf("%s: %+v", host, lease)
		}
	}
	for host, says := range map[string]string{
		"shardid-32": "not a worker ID, 0…31", "shardid-99999999999999999999": "not a worker ID, 0…31",
		"shardid": "does not end in a hyphen and a number", "": "does not end", "-3": "does not end",
		"3":          "does not end",
		"shardid-03": "does not end", "shardid-x2": "does not end", "shardid-3-": "does not end",
		"shardid-7d9f8b6c5-x2x4z": "does not end",
		"shardid.example-3":       "does not end", "shardid3": "does not end", "shardid-+3": "does not end",
	} {
		lease, err := Ordinal(host, 32).Acquire(t.Context(), model.Owner{Address: address, Token: "t"})
		if !errors.Is(err, model.ErrNoWorkerID) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v, want %s", host, lease, err, says)
		}
	}
}

// TestOrdinalFile: a file that is new, or of another mode, says nothing of what an earlier
// life reserved, so that is left out; one of another pod is refused.
func TestOrdinalFile(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Registry = ModeOrdinal
	f, err := Ordinal("shardid-3", 32).Open(o)
	check.Must(t, err)
	store(t, f, lease(3, 5000))
	closeFile(t, f)
	_, err = Ordinal("shardid-4", 32).Open(o)
	check.Is(t, err, model.ErrInvalidArgument, "the file of another pod")
	check.Has(t, err.Error(), "give each pod the volume of its own, or delete the worker file")
	f, err = Ordinal("shardid-3", 32).Open(o) // it is not locked by the one that was refused
	check.Must(t, err)
	closeFile(t, f)
	f, err = Ordinal("shardid", 32).Open(o) // its Acquire says what is wrong
	check.Must(t, err)
	closeFile(t, f)
}
