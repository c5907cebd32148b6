//go:build unix

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// baiduNodes is the table as Baidu's script makes it, with what its library leaves
// there: a row for each start.
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
		baiduStart("10.1.1.1", "1567733700834-5", 2), baiduStart("10.1.1.2", "8080", 1), baiduStart("10.1.1.1", "1567733999000-99999", 2)}
}

// baiduStart is the statement of WorkerNodeDAO.addWorkerNode.
func baiduStart(host, port string, kind int) string {
	return fmt.Sprintf("INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) VALUES ('%s', '%s', %d, '2019-09-06', NOW(), NOW())", host, port, kind)
}

// TestE2EUIDWorkersRunOut: with two worker bits there are three worker IDs. They
// are used again when a mark says that their time has passed, and only then.
func TestE2EUIDWorkersRunOut(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn := migrated(t)
	query(t, dsn, baiduStart("10.1.1.1", "1-1", 2)) // 1: nobody knows what it issued
	s := uidAlone(dsn).With(settings{"UID_TIME_BITS": "48", "UID_WORKER_BITS": "2", "UID_SEQ_BITS": "13"})
	books := &uidBooks{bits: uidBits{worker: 2, seq: 13, epoch: uidDefaults().epoch}}
	second, third := serveUID(t, t.TempDir(), s, books), serveUID(t, t.TempDir(), s, books)
	second.Kill()

	late := serve(t, s) // the mark of the one that was killed is ahead of the clock
	var a answer
	eventually(t, startLimit, "refused", func() bool { a = late.get("/api/uid/get"); return strings.Contains(a.Message, "worker ID") })
	for _, part := range []string{"no worker ID is free", "1…3 of WORKER_NODE", "wait until the marks", "uid.worker_bits"} {
		if !strings.Contains(a.Message, part) {
			t.Errorf("no %q in %s", part, a.body)
		}
	}
	if a.status != 503 || a.Code != -1 || a.header.Get("Retry-After") == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	eventually(t, startLimit, "/readyz says so too", func() bool {
		a := late.get("/readyz/uid")
		return a.status == 503 && strings.Contains(a.Message, "no worker ID is free")
	})
	if n := len(nodeRows(t, dsn)); n != 3 {
		t.Errorf("%d rows after a start that got none", n)
	}

	mark := books.lastSecond() // the truth
	query(t, dsn, fmt.Sprintf("UPDATE WORKER_NODE SET USED_UNTIL = %d WHERE ID = 2", mark))
	eventually(t, startLimit, "served", func() bool { return takeUIDs(late, books, 1).status == 200 })
	if v := uidStatus(t, late); v.WorkerID != 2 || number(t, dsn, "SELECT USED_BEFORE FROM WORKER_NODE WHERE ID = 2") != mark {
		t.Errorf("%+v", v)
	}
	takeUIDs(late, books, 10_000)
	takeUIDs(third, books, 10_000)
	if workers := books.by(books.bits.workerOf); len(workers) != 2 || workers[2] != 10_002 || workers[3] != 10_001 {
		t.Errorf("UIDs by worker ID: %v", workers)
	}
	if rows := nodeRows(t, dsn); len(rows) != 3 || rows[0].host != "10.1.1.1" {
		t.Errorf("%+v", rows)
	}
	// An operator who knows what the first one issued may say so.
	query(t, dsn, "UPDATE WORKER_NODE SET USED_UNTIL = UNIX_TIMESTAMP() - 3600 WHERE ID = 1")
	if v := uidStatus(t, serveUID(t, t.TempDir(), s, books)); v.WorkerID != 1 {
		t.Errorf("%+v", v)
	}
	books.Settle(t)
}

// TestE2EUIDLayoutChanged: the widths and the epoch of IDs that were issued stay, in both modes that
// have them; a start with others ends, with the reason on one line.
func TestE2EUIDLayoutChanged(t *testing.T) {
	story(t)
	dir, books := t.TempDir(), &uidBooks{bits: uidDefaults()}
	d := serveUID(t, dir, nil, books)
	eventuallyID(t, d, snowflakeGet)
	d.Kill()
	const uid, snowflake = "uid IDs have been issued with time_bits=28 worker_bits=22 seq_bits=13 epoch=2026-01-01T00:00:00Z", "epoch_ms=1288834974657"
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
		if code != 1 || len(said) != 1 || !strings.Contains(said[0], c.says) || c.says == uid && d.Said("listening") != "" ||
			!strings.Contains(said[0], "Set the recorded values again; only where IDs of both never meet") {
			t.Errorf("%v: exit %d, %q", c.change, code, said)
		}
	}
	takeUIDs(serveUID(t, dir, settings{"UID_MODE": "default", "UID_BOOST_POWER": "5"}, books), books, 100)
	if workers := books.by(books.bits.workerOf); len(workers) != 2 || workers[2] != 101 {
		t.Errorf("UIDs by worker ID: %v: a start that was refused got one", workers)
	}
	books.Settle(t)
}

// TestE2EUIDTakesBaidusTableOver: the rows stay, shardid's follow them, and a Java
// process may go on beside it.
func TestE2EUIDTakesBaidusTableOver(t *testing.T) {
	story(t)
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	query(t, dsn, baiduNodes()...)
	for range 2 {
		must(t, onMariaDB(dsn), "migrate")
	}
	books := &uidBooks{bits: uidDefaults()}
	for _, worker := range []int64{4, 6} {
		d := serveUID(t, t.TempDir(), onMariaDB(dsn), books)
		if v := uidStatus(t, d); v.WorkerID != worker {
			t.Errorf("%+v, want worker %d", v, worker)
		}
		query(t, dsn, baiduStart("10.1.1.3", "1-1", 2)) // 5 and 7
	}
	rows := nodeRows(t, dsn)
	if len(rows) != 7 {
		t.Fatalf("%+v", rows)
	}
	for i, want := range []string{"1 10.1.1.1 1567733700834-5 2 2019-09-06", "2 10.1.1.2 8080 1 2019-09-06", "3 10.1.1.1 1567733999000-99999 2 2019-09-06"} {
		if r := rows[i]; fmt.Sprint(r.id, " ", r.host, " ", r.port, " ", r.kind, " ", r.launched) != want {
			t.Errorf("row %+v, want %s", r, want)
		}
	}
	books.Settle(t)
}
