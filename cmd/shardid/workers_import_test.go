package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workerfile"
	"shardid/scripts/check"
)

// What Java Leaf keeps on the disk becomes the worker file of an instance, whose IDs start above it.
func TestWorkersImport(t *testing.T) {
	t.Chdir(t.TempDir())
	in := func(more string, args ...string) (int, string, string) {
		t.Helper()
		check.Must(t, os.WriteFile("config.yaml", []byte("snowflake: {advertise: '10.0.0.5:8080', worker: {mode: local, local_map: {'10.0.0.5:8080': 7}}}\n"+more), 0o600))
		return try(t, args...)
	}
	at := time.Now().Add(time.Hour)
	check.Must(t, os.WriteFile("workerID.json", fmt.Appendf(nil, `{"ip":"10.0.0.5","port":"8080","workId":7,"timestamp":%d}`, at.UnixMilli()), 0o600))
	check.Must(t, os.WriteFile("other.json", []byte(`{"ip":"10.0.0.6","port":"8080","workId":7}`), 0o600))
	check.Must(t, os.WriteFile("workerID.properties", []byte("workerID=8"), 0o600))
	for _, c := range []struct {
		args, want string
		exit       int
	}{
		{"workers import workerID.json", "there is no database at data/shardid.db: nothing was made; begin with `shardid migrate`", exitFailed},
		{"migrate", "", exitDone},
		{"workers import other.json", "the file is that of 10.0.0.6:8080 and snowflake.advertise is 10.0.0.5:8080", exitUsage},
		{"workers import workerID.properties", "does not give 10.0.0.5:8080 the worker ID 8 of the file", exitUsage},
		{"workers import --snowflake.advertise= workerID.json", "snowflake.advertise is empty", exitUsage},
		{"workers import --snowflake.worker.mode=mysql workerID.json", "snowflake.worker.mode is mysql: this command is for mode local", exitUsage},
		{"workers import config.yaml", "config.yaml: it has no line workerID=N", exitUsage},
		{"workers import .", "it is a directory and no regular file", exitUsage},
		{"workers import workerID.json", "", exitDone},
	} {
		exit, stdout, stderr := in("", strings.Fields(c.args)...)
		if exit != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %d, %q, %q", c.args, exit, stdout, stderr)
		}
	}
	f, err := workerfile.Open(workerfile.Options{Dir: "data/shardid/8080", Registry: "local", Address: "10.0.0.5:8080",
		Layout: model.SnowflakeLayout{EpochMs: 1288834974657, WorkerBits: 10, SeqBits: 12}})
	check.Must(t, err)
	if lease, ok := f.Load(); !ok || lease.WorkerID != 7 || lease.After <= at.UnixMilli() {
		t.Errorf("%+v, %t", lease, ok)
	}
	if _, _, stderr := in("", "workers", "import", "workerID.json"); !strings.Contains(stderr, "another process uses the folder") {
		t.Error(stderr)
	}
	check.Must(t, f.Close())
}
