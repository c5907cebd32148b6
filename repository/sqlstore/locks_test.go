//go:build unix

package sqlstore

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// What a transaction that takes numbers has locked between the marks that it reads and those that it raises. Two that
// share a lock which one of them needs alone would wait for each other.
func TestLocks(t *testing.T) {
	s, w := witnessed(t)
	check.Must(t, s.Beat(t.Context())) // names the witness
	addSpace(t, s, "s", 2)
	fence(t, s, "a", "b")
	grants(t, s, sectionAsk(0, "a-1", 0, 0), sectionAsk(1, "a-1", 0, 0))
	arrive(t, s)
	claim := sectionAsk(1, "b-1", 0, 0)
	claim.Claim = true
	const deployment, fenceOfA = "shardid_deployment", "shardid_fence WHERE server = 'a'"
	lists := func() error { return one(s, key(1, 0), 0).Err }
	more := func() error { return grants(t, s, sectionAsk(0, "a-1", 1, 10))[0].Err }
	for _, c := range []struct {
		name  string
		take  func() error
		rows  string
		alone bool
	}{
		{"lists", lists, deployment, false},
		{"lists", lists, "id_alloc WHERE app_id = 1 AND shard_id = 0", true},
		{"a tag", func() error { nextTag(t, s); return nil }, "leaf_alloc WHERE biz_tag = 't'", true},
		{"a section", more, fenceOfA, false},
		{"a section that goes to another life", func() error { return grants(t, s, claim)[0].Err }, fenceOfA, true},
	} {
		var toShare, toOwn error
		w.next = func() {
			toShare, toOwn = tryLock(t, s, c.rows, false), tryLock(t, s, c.rows, true)
		}
		check.OK(t, c.take(), c.name)
		check.Equal(t, w.next == nil, true, c.name, "the marks were read")
		check.Equal(t, isLocked(toOwn), true, c.name, "locks", c.rows)
		check.Equal(t, isLocked(toShare), c.alone, c.name, "locks alone", c.rows)
		arrive(t, s)
	}
	check.Must(t, check.Err(s.CreateName(t.Context(), aName("n"))))
	check.Must(t, s.inTx(t.Context(), "a name", func(tx *gorm.DB) error {
		defer func() {
			check.Equal(t, isLocked(tryLock(t, s, "shardid_name WHERE name = 'n'", true)), true, "a name")
		}()
		return check.Err(s.presentName(tx, "n"))
	}))
}

// tryLock locks rows of a table for a moment, and waits for nobody.
func tryLock(t *testing.T, s *Store, rows string, alone bool) error {
	lock := " LOCK IN SHARE MODE NOWAIT"
	if testserver.OnMySQL() {
		lock = " FOR SHARE NOWAIT"
	}
	if alone {
		lock = " FOR UPDATE NOWAIT"
	}
	tx, err := s.pool.BeginTx(t.Context(), nil)
	check.Must(t, err)
	_, err = tx.Exec("SELECT 1 FROM " + rows + lock)
	check.Must(t, tx.Rollback())
	return err
}

// held locks the row of the deployment until the test ends it, or ends.
func held(t *testing.T, s *Store) *sql.Tx {
	t.Helper()
	tx, err := s.pool.BeginTx(t.Context(), nil)
	check.Must(t, err)
	_, err = tx.Exec("SELECT 1 FROM shardid_deployment LOCK IN SHARE MODE")
	check.Must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// Each statement of a transaction reads what is committed, as another one may have deleted what is made again.
func TestReadCommitted(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	check.Must(t, s.inTx(t.Context(), "read twice", func(tx *gorm.DB) error {
		const rows = "SELECT COUNT(*) FROM leaf_alloc"
		before, err := query[int](tx, "read", rows)
		addTag(t, s, "added meanwhile", 10)
		after, again := query[int](tx, "read", rows)
		check.Equal(t, after, before+1, "rows")
		check.OK(t, again)
		return err
	}))
}

// A heartbeat does not queue at a row that others have locked for long, as all who came after it would wait with it.
// One that is too old does, and the end of a witness.
func TestHeartbeatLeavesALockedRow(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	age := func(d time.Duration) {
		run(t, s, "UPDATE shardid_deployment SET beat_at = beat_at - "+ms(d))
		s.seen.mu.Lock()
		defer s.seen.mu.Unlock()
		s.seen.Beat = s.seen.Beat.Add(-d)
	}
	const beat = "SELECT beat_at FROM shardid_deployment"
	age(12 * time.Second)
	tx, was := held(t, s), count(t, s, beat)
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, count(t, s, beat), was, "while it is locked")
	check.Must(t, tx.Rollback())
	check.Must(t, s.Beat(t.Context()))
	if now := count(t, s, beat); now == was {
		t.Error("no heartbeat once the lock was free")
	}

	var known moment
	check.Must(t, s.inMoment(t.Context(), "read", nil, func(_ *gorm.DB, m *moment) error {
		known = *m
		return nil
	}))
	old := known
	old.BeatAt -= 16_000 // soon enough for a cluster, whose restored nodes are told by twice BeatEvery
	for _, d := range []struct {
		known   moment
		retires bool
	}{{old, false}, {known, true}} { // a retired witness is one that nobody may ask any more
		tx, ended := held(t, s), make(chan error, 1)
		go func() { ended <- s.writeDecision(t.Context(), d.known, "", d.retires) }()
		waitFor(t, func() bool {
			return count(t, s, "SELECT COUNT(*) FROM information_schema.processlist "+
				"WHERE info LIKE '%deployment FOR UPDATE' AND db = DATABASE()") > 0
		})
		check.Must(t, tx.Rollback())
		check.OK(t, <-ended, "it waited, retires:", d.retires)
	}
}

// A check does not queue behind transactions that wait, and says nothing of a database that answers.
func TestCheckBesideAFullPool(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	for range poolSize {
		conn, err := s.pool.Conn(t.Context())
		check.Must(t, err)
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // it would wait for ever
	defer cancel()
	check.OK(t, s.Check(ctx))
}

// What this process knows of the database can be read while the database is asked what has changed.
func TestSeenWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	s.seen.mu.Lock()
	s.seen.Changes, s.seen.Since = 1, s.seen.Since.Add(-time.Second)
	s.seen.mu.Unlock()
	conn, err := s.pool.Conn(t.Context())
	check.Must(t, err)
	defer conn.Close()
	lock := func(statement string) { check.Must(t, check.Err(conn.ExecContext(context.Background(), statement))) }
	lock("LOCK TABLES shardid_change WRITE")
	done := make(chan error, 1)
	go func() {
		done <- s.inMoment(t.Context(), "read", nil, func(*gorm.DB, *moment) error { return nil })
	}()
	waitFor(t, func() bool {
		return count(t, s, "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%' "+
			"AND db = DATABASE()") > 0
	})
	check.Equal(t, s.Changes(), 1, "changes, while another call waits")
	lock("UNLOCK TABLES")
	check.OK(t, <-done)
}
