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

// good is a file as it was written once; files of today must be readable by
// later versions.
const good = `{"version":1,"identity":"00112233445566778899aabbccddeeff","registry":"zk","address":"10.0.0.5:8080",` +
	`"worker_id":7,"reserved_until":5000,"expires_at":6000,"epoch_ms":1288834974657,"saved_at":1567733700834}` + "\n"

const fresh = `{"version":1,"identity":"00112233445566778899aabbccddeeff","registry":"","address":"",` +
	`"worker_id":-1,"reserved_until":0,"expires_at":0,"epoch_ms":0,"saved_at":1567733700834}` + "\n"

func TestRecordedFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, fileName, good)
	f := open(t, options(dir))
	wantLease(t, f, 7, 5000)
	if text, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil || string(text) != good {
		t.Errorf("written back as %s, %v", text, err)
	}
}

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
