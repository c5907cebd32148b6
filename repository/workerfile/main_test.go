package workerfile

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
)

// crasherEnv makes the test binary the process that is killed, see storeForEver.
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
	return Options{Dir: dir, Registry: "zk", Address: address,
		Layout: model.SnowflakeLayout{EpochMs: 1_288_834_974_657, WorkerBits: 10, SeqBits: 12}}
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

// addresses is how many the map of the contract test lists; the last is that of
// its successor.
const addresses = 300

func TestLocalContract(t *testing.T) {
	ids := map[string]int{}
	for i := range addresses {
		ids[workertest.Address(i)] = model.SnowflakeWorkers - 1 - i
	}
	registry, err := Local(ids, model.SnowflakeWorkers)
	check.Must(t, err)
	workertest.Run(t, func(*testing.T) workertest.Backend {
		return workertest.Backend{
			New:        func(*testing.T) workertest.Registry { return registry },
			Max:        addresses,
			Fill:       func(*testing.T) {}, // whoever is not listed finds it full
			PerAddress: true, FixedIDs: true, Stateless: true,
		}
	})
}

func TestLocalRefuses(t *testing.T) {
	for word, ids := range map[string]map[string]int{
		"10.0.0.1:80 and 10.0.0.2:80": {"10.0.0.1:80": 5, "10.0.0.2:80": 5, "10.0.0.3:80": 6},
		"worker ID 1024 of 10.0.0.1":  {"10.0.0.1:80": 1024},
		"worker ID -1 of 10.0.0.1":    {"10.0.0.1:80": -1},
		"worker ID 32 of 10.0.0.9":    {"10.0.0.9:80": 32},
		`"10.0.0.1" is not ip:port`:   {"10.0.0.1": 1},
		`":80" is not ip:port`:        {":80": 1},
		`"" is not ip:port`:           {"": 1},
	} {
		workers := model.SnowflakeWorkers
		if word == "worker ID 32 of 10.0.0.9" {
			workers = 32
		}
		registry, err := Local(ids, workers)
		if registry != nil || !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), word) ||
			!strings.Contains(err.Error(), "snowflake.worker.local_map") {
			t.Errorf("got %v, want one that says %s", err, word)
		}
	}
}

func TestLocal(t *testing.T) {
	ids := map[string]int{"10.0.0.1:80": 0, "[::1]:80": 1023}
	registry, err := Local(ids, model.SnowflakeWorkers)
	check.Must(t, err)
	ids["10.0.0.1:80"] = 7 // the caller's own
	lease, err := registry.Acquire(t.Context(), model.Owner{Address: "10.0.0.1:80", Token: "t"})
	if err != nil || lease.WorkerID != 0 || lease.ServerTime != 0 || lease.KeptSince != 0 {
		t.Errorf("%+v, %v", lease, err)
	}
	lease.Reserved, lease.Expires = 5, math.MaxInt64
	if got, err := registry.Renew(t.Context(), lease); err != nil || got != lease {
		t.Errorf("%+v, %v, want %+v", got, err, lease)
	}
	_, err = registry.Acquire(t.Context(), model.Owner{Address: "10.0.0.9:80"})
	for _, word := range []string{"10.0.0.9:80", "snowflake.worker.local_map"} {
		if !errors.Is(err, model.ErrNoWorkerID) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %s", err, word)
		}
	}
}

// TestPowerCut: what may lie beside the file when the machine stops between two
// steps of a Store.
func TestPowerCut(t *testing.T) {
	newer := strings.Replace(good, "5000", "9000", 1)
	for name, temp := range map[string]string{
		"before the first byte": "",
		"in the middle":         newer[:len(newer)/2],
		"blocks not written":    string(make([]byte, len(newer))),
		"before the rename":     newer,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, fileName, good)
			put(t, dir, tempName, temp)
			f := open(t, options(dir))
			wantLease(t, f, 7, 5000)
			store(t, f, lease(7, 10_000))
			closeFile(t, f)
			wantLease(t, open(t, options(dir)), 7, 10_000)
		})
	}
	t.Run("in the first life", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, tempName, good[:50])
		if l, ok := open(t, options(dir)).Load(); ok {
			t.Errorf("loaded %+v", l)
		}
	})
}

// storeForEver is another process: it stores ever higher reservations and says
// which ones are done, until it is killed.
func storeForEver(dir string) error {
	f, err := Open(options(dir))
	if err != nil {
		return err
	}
	last, _ := f.Load()
	for i := last.Reserved + 1; ; i++ {
		if err := f.Store(lease(7, i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// TestKilled: kill -9 at any moment loses nothing that a Store has returned
// for, and frees the folder.
func TestKilled(t *testing.T) {
	dir, stored := t.TempDir(), int64(0)
	for round := range 8 {
		stored = killed(t, dir, 5+7*round)
		f := open(t, options(dir))
		got, ok := f.Load()
		if !ok || got.Reserved < stored || got.Reserved > stored+1000 {
			t.Fatalf("loaded %+v, %v, want at least %d", got, ok, stored)
		}
		closeFile(t, f)
	}
	if stored < 100 {
		t.Errorf("only %d were stored", stored)
	}
}

// killed runs storeForEver, kills it after so many reservations and returns the
// highest that was stored for sure.
func killed(t *testing.T, dir string, after int) (stored int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crasherEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	limit := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if stored, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			check.Is(t, check.Err(Open(options(dir))), ErrLocked, "opened what another process uses")
		}
		if n == after {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait() // reports the kill
	return stored
}
