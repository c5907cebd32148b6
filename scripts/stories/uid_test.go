//go:build unix

// UIDs, as Baidu's uid-generator makes them: each row of a table is a worker ID, and the layout of IDs that were issued
// stays.

package stories_test

import (
	"strings"
	"testing"
)

const uidGet = "/api/uid/get"

// uidWorkerOf takes a UID of Baidu's widths apart, without the help of shardid: below the worker ID are 13 bits.
func uidWorkerOf(id int64) int64 { return id >> 13 & (1<<22 - 1) }

// uidWorkers counts UIDs by their worker IDs.
func uidWorkers(books *ledger) map[int64]int {
	counts := map[int64]int{}
	for _, id := range books.IDs() {
		counts[uidWorkerOf(id)]++
	}
	return counts
}

// serveUID starts a replica and waits for its first UID, which is entered.
func serveUID(t *testing.T, dir string, s settings, books *ledger) *daemon {
	t.Helper()
	d := serveIn(t, dir, s)
	books.Rise(0, number64(t, eventuallyID(t, d, uidGet)))
	return d
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
	if workers := uidWorkers(books); workers[2] != 1 {
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
