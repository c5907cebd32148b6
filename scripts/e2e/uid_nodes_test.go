//go:build unix

package e2e_test

import (
	"database/sql"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"shardid/scripts/check"
)

// nodeRow is a row of WORKER_NODE as Baidu has it.
type nodeRow struct {
	id         int64
	host, port string
	kind       int
	launched   string
	age        int64 // seconds since CREATED or MODIFIED, the larger one
}

func nodeRows(t *testing.T, dsn string) (rows []nodeRow) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found, err := db.QueryContext(t.Context(), `SELECT ID, HOST_NAME, PORT, TYPE, DATE_FORMAT(LAUNCH_DATE, '%Y-%m-%d'),
		GREATEST(ABS(TIMESTAMPDIFF(SECOND, CREATED, NOW())), ABS(TIMESTAMPDIFF(SECOND, MODIFIED, NOW()))) FROM WORKER_NODE ORDER BY ID`)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var r nodeRow
		if err := found.Scan(&r.id, &r.host, &r.port, &r.kind, &r.launched, &r.age); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// wantRow checks a row that a start has written.
func (r nodeRow) want(t *testing.T, host, port string, kind int) {
	t.Helper()
	days := []string{time.Now().Format(time.DateOnly), time.Now().Add(-time.Minute).Format(time.DateOnly)}
	if r.host != host || !regexp.MustCompile(port).MatchString(r.port) || r.kind != kind || !slices.Contains(days, r.launched) || r.age > 90 {
		t.Errorf("row %+v; want %s, %s, type %d, %s", r, host, port, kind, days[0])
	}
}

// machine is what a start writes that nobody tells where it runs: this machine's
// name, Baidu's port of milliseconds and a random number, and 1 in a container, 2
// elsewhere.
func machine(t *testing.T) (host, port string, kind int) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	kind = 2
	for _, sign := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(sign); err == nil {
			kind = 1
		}
	}
	return host, `^\d{13}-\d{1,5}$`, kind
}

// uidAlone is a replica without the other modes that use the database, so that
// readiness is the UID mode's.
func uidAlone(dsn string) settings {
	return onMariaDB(dsn).With(settings{"SNOWFLAKE_ENABLED": "false", "SEGMENT_ENABLED": "false"})
}

// TestE2EUIDReplicas: two replicas share a database and nothing else. A million
// UIDs, none twice, each with the worker ID of its replica's row.
func TestE2EUIDReplicas(t *testing.T) {
	story(t)
	dsn := migrated(t)
	books := &uidBooks{bits: uidDefaults()}
	l := uidLoad(books, func(caller int) int { return []int{10_000, 1000, 999, 5000}[caller/2%4] },
		serveUID(t, t.TempDir(), onMariaDB(dsn), books), serveUID(t, t.TempDir(), onMariaDB(dsn), books))
	l.start(t, 8)
	l.reach(t, 100_000)
	l.stop()
	books.Settle(t)

	rows := nodeRows(t, dsn)
	if len(rows) != 2 || rows[0].port == rows[1].port {
		t.Fatalf("%+v", rows)
	}
	workers := slices.Sorted(maps.Keys(books.by(books.bits.workerOf)))
	for i, d := range l.replicas {
		host, port, kind := machine(t)
		rows[i].want(t, host, port, kind)
		v := uidStatus(t, d)
		if v.WorkerID != rows[i].id || v.NodeID != rows[i].id || len(workers) != 2 || workers[i] != v.WorkerID || v.Mode != "cached" {
			t.Errorf("replica %d: %+v, rows %+v, UIDs of %v", i, v, rows, workers)
		}
		if mark := number(t, dsn, fmt.Sprint("SELECT USED_UNTIL FROM WORKER_NODE WHERE ID = ", rows[i].id)); mark < books.lastSecond() {
			t.Errorf("replica %d: the mark %d is below what was issued", i, mark)
		}
	}
}

// TestE2EUIDKilled: kill -9 under load, again and again, in both modes: each life
// has a worker ID of its own, and no UID comes twice.
func TestE2EUIDKilled(t *testing.T) {
	check.Deep(t)
	story(t)
	const lives = 6
	dir, books := t.TempDir(), &uidBooks{bits: uidDefaults()}
	for life := range lives {
		mode := []string{"cached", "default"}[life%2]
		d := serveUID(t, dir, settings{"UID_MODE": mode}, books)
		killedUnderLoad(t, uidLoad(books, batchOf(7), d), 3000)
		if workers := books.by(books.bits.workerOf); workers[int64(life+1)] < 3000 || len(workers) != life+1 {
			t.Errorf("life %d: UIDs by worker ID: %v", life, workers)
		}
	}
	books.Settle(t)
}
