package workerfile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
)

// crasherEnv makes the test binary the process that is killed, see crash_test.go.
const crasherEnv = "WORKERFILE_CRASHER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crasherEnv); dir != "" {
		if err := storeForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

const address = "10.0.0.5:8080"

func options(dir string) Options {
	return Options{Dir: dir, Registry: "zk", Address: address, EpochMs: 1_288_834_974_657}
}

func open(t *testing.T, o Options) *File {
	t.Helper()
	f, err := Open(o)
	check.Must(t, err)
	t.Cleanup(func() {
		check.OK(t, f.Close())
	})
	return f
}

func closeFile(t *testing.T, f *File) {
	t.Helper()
	check.Must(t, f.Close())
}

func lease(worker int, reserved int64) model.Lease {
	return model.Lease{WorkerID: worker, Owner: model.Owner{Address: address, Token: "t"}, Reserved: reserved, Expires: reserved + 1000}
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
