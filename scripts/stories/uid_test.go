//go:build unix

// UIDs, as Baidu's uid-generator makes them: replicas share a table, each of its rows is a worker ID, and the
// layout of IDs that were issued stays.

package stories_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
)

const uidGet = "/api/uid/get"

// uidBits is how the stories take a UID apart, without the help of shardid.
type uidBits struct {
	worker, seq uint
	epoch       int64 // Unix seconds
}

// uidDefaults are Baidu's widths and shardid's epoch, 2026-01-01.
func uidDefaults() uidBits { return uidBits{worker: 22, seq: 13, epoch: 1767225600} }

func (b uidBits) workerOf(id int64) int64 { return id >> b.seq & (1<<b.worker - 1) }

// lastSecond is the latest that any ID carries.
func (b uidBits) lastSecond(books *ledger) int64 { return books.Last()>>(b.worker+b.seq) + b.epoch }

// workers counts UIDs by their worker IDs.
func (b uidBits) workers(books *ledger) map[int64]int {
	counts := map[int64]int{}
	for _, id := range books.IDs() {
		counts[b.workerOf(id)]++
	}
	return counts
}

// takeUIDs asks for a batch and enters it; it gives the answer.
func takeUIDs(d *daemon, books *ledger, count int) answer {
	d.t.Helper()
	ids, a, err := d.take(uidGet, count)
	if err != nil {
		d.t.Fatalf("%v: %.200s", err, a.body)
	}
	books.Rise(0, ids...)
	return a
}

// serveUID starts a replica and waits for its first UID, which is entered.
func serveUID(t *testing.T, dir string, s settings, books *ledger) *daemon {
	t.Helper()
	d := serveIn(t, dir, s)
	eventually(t, startLimit, "the first UID", func() bool { return takeUIDs(d, books, 1).status == 200 })
	return d
}

// uidWorker is the worker ID that /api/status tells.
func (d *daemon) uidWorker() int64 {
	d.t.Helper()
	return fromJSON[struct{ UID struct{ WorkerID int64 } }](d.t, d.want("/api/status", 200, 0)).UID.WorkerID
}

// nodeRows are the rows of WORKER_NODE: ID, host, port, type and day of the start.
func nodeRows(t *testing.T, dsn string) []string {
	t.Helper()
	rows := valueOf[string](t, dsn, `SELECT GROUP_CONCAT(CONCAT_WS(' ', ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE)
		ORDER BY ID SEPARATOR '\n') FROM WORKER_NODE`)
	return strings.Split(rows, "\n")
}

// TestUIDReplicas: two replicas share a database and nothing else. No UID comes twice, each has the worker
// ID of its replica's row, and a mark in the row is above all that was issued.
func TestUIDReplicas(t *testing.T) {
	story(t)
	dsn, books, bits := migrated(t), &ledger{}, uidDefaults()
	var replicas []*daemon
	var draws []draw
	for range 2 {
		d := serveUID(t, t.TempDir(), onMariaDB(dsn), books)
		replicas = append(replicas, d)
		for _, batch := range []int{10_000, 999} {
			draws = append(draws, draw{place: at(d), target: uidGet, batch: batch, books: books})
		}
	}
	callers := gather(t, 2, draws...)
	reach(t, books, 100_000)
	callers.Stop()
	books.Settle(t)
	host, err := os.Hostname()
	check.Must(t, err)
	rows, workers := nodeRows(t, dsn), bits.workers(books)
	if len(rows) != 2 || len(workers) != 2 {
		t.Fatalf("rows %q, UIDs by worker ID %v, want two", rows, workers)
	}
	for i, d := range replicas {
		worker := d.uidWorker()
		want := fmt.Sprintf(`^%d %s \d{13}-\d{1,5} [12] 20\d\d-\d\d-\d\d$`, worker, regexp.QuoteMeta(host))
		if !regexp.MustCompile(want).MatchString(rows[i]) {
			t.Errorf("row %q, want %s", rows[i], want)
		}
		if workers[worker] == 0 {
			t.Errorf("no UID is of worker %d: %v", worker, workers)
		}
		mark := valueOf[int64](t, dsn, fmt.Sprint("SELECT USED_UNTIL FROM WORKER_NODE WHERE ID = ", worker))
		if last := bits.lastSecond(books); mark < last {
			t.Errorf("replica %d: the mark %d is below %d, which was issued", i, mark, last)
		}
	}
}

// TestUIDLayoutChanged: the widths and the epoch of IDs that were issued stay, in both modes that have
// them. A start with others ends, with the reason on one line, and takes no worker ID.
func TestUIDLayoutChanged(t *testing.T) {
	story(t)
	dir, books := t.TempDir(), &ledger{}
	d := serveUID(t, dir, nil, books)
	eventuallyID(t, d, snowflakeGet)
	d.Kill()
	const uid = "uid IDs have been issued with time_bits=28 worker_bits=22 seq_bits=13 epoch=2026-01-01T00:00:00Z"
	const snowflake = "epoch_ms=1288834974657"
	const advice = "Set the recorded values again; only where IDs of both never meet"
	for _, c := range []struct {
		change settings
		says   string
	}{
		{settings{"UID_TIME_BITS": "29", "UID_WORKER_BITS": "21"}, uid},
		{settings{"UID_EPOCH": "2026-01-02"}, uid},
		{settings{"UID_EPOCH": "2026-01-01T00:00:00+08:00"}, uid},
		{settings{"SNOWFLAKE_EPOCH_MS": "1600000000000"}, snowflake},
		{settings{"SNOWFLAKE_WORKER_BITS": "9"}, snowflake},
		{settings{"SNOWFLAKE_SEQ_BITS": "11"}, snowflake},
	} {
		d := launch(t, command(t, dir, c.change, serving(nil)...))
		code, said := d.Exit(startLimit), d.Lines("shardid: ")
		if code != 1 || len(said) != 1 || !strings.Contains(said[0], c.says) || !strings.Contains(said[0], advice) {
			t.Errorf("%v: exit %d, %q, want 1 and a line with %q and %q", c.change, code, said, c.says, advice)
		}
	}
	serveUID(t, dir, settings{"UID_MODE": "default", "UID_BOOST_POWER": "5"}, books)
	if workers := uidDefaults().workers(books); workers[2] != 1 {
		t.Errorf("UIDs by worker ID: %v, want the second one of worker 2", workers)
	}
	books.Settle(t)
}

// baiduNodes is the table as Baidu's script makes it, with what its library leaves there: a row for each start.
func baiduNodes() []string {
	return []string{`CREATE TABLE WORKER_NODE (
			ID BIGINT NOT NULL AUTO_INCREMENT COMMENT 'auto increment id',
			HOST_NAME VARCHAR(64) NOT NULL COMMENT 'host name',
			PORT VARCHAR(64) NOT NULL COMMENT 'port',
			TYPE INT NOT NULL COMMENT 'node type: ACTUAL or CONTAINER',
			LAUNCH_DATE DATE NOT NULL COMMENT 'launch date',
			MODIFIED TIMESTAMP NOT NULL COMMENT 'modified time',
			CREATED TIMESTAMP NOT NULL COMMENT 'created time',
			PRIMARY KEY(ID)
		) COMMENT='DB WorkerID Assigner for UID Generator', ENGINE = INNODB`,
		`INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) VALUES
			('10.1.1.1', '1567733700834-5', 2, '2019-09-06', NOW(), NOW()),
			('10.1.1.2', '8080', 1, '2019-09-06', NOW(), NOW()),
			('10.1.1.1', '1567733999000-99999', 2, '2019-09-06', NOW(), NOW())`}
}
