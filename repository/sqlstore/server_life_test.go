//go:build unix

package sqlstore

import (
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// A restart is another life of the server, and on MariaDB also one within a second: a server that shares name, port,
// folder and second of its start with the one that wrote last is another one, as a container beside another.
func TestRestartIsNoted(t *testing.T) {
	t.Parallel()
	server, changes := testserver.MariaDB(t), 0
	s := openMigrated(t, Options{Driver: MySQL, DSN: server.NewDatabase(t),
		OnServerChange: func(time.Duration, bool) { changes++ }})
	provision(t, s, app(1))
	check.Must(t, s.Beat(t.Context()))
	if testserver.OnMySQL() {
		time.Sleep(7 * time.Second) // more than two boot times may differ by
	}
	server.Restart()
	if !testserver.OnMySQL() { // as if the other had just begun
		run(t, s, fmt.Sprint("UPDATE shardid_deployment SET booted_at = ", time.Now().Unix()))
	}
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, changes, 1, "changes")
	check.Is(t, one(s, key(1, 0), 0).Err, model.ErrJumping, "nobody vouches")
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, changes, 1, "changes, once it is noted")
	if testserver.OnMySQL() {
		return
	}

	// It waits less for the same server than for another one, whose clock may differ.
	wait := "SELECT jump_from - since FROM shardid_deployment"
	check.Equal(t, count(t, s, wait), 6000, "after a restart")
	run(t, s, "UPDATE shardid_deployment SET server_life = REPLACE(server_life, SUBSTR(server_life, 6), "+
		"'02fc00000002-1')")
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, count(t, s, wait), 24_000, "another machine")
	run(t, s, "SET GLOBAL server_id = 77")
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, changes, 3, "changes with another server_id")
}

// A dump carries the row of the very life of the server that it is put into. Its tables are younger
// than its heartbeat, so a process that has seen nothing notes a change, once.
func TestDumpPutBack(t *testing.T) {
	t.Parallel()
	server, changes := testserver.SharedMariaDB(t), 0
	opts := Options{Driver: MySQL, DSN: server.NewDatabase(t), OnServerChange: func(time.Duration, bool) { changes++ }}
	source, elsewhere := openMigrated(t, opts), server.NewDatabase(t)
	provision(t, source, app(1))
	check.Must(t, check.Err(source.CreateName(t.Context(), aName("orders"))))
	check.Must(t, source.Beat(t.Context()))
	copied := open(t, Options{Driver: MySQL, DSN: elsewhere})
	time.Sleep(1100 * time.Millisecond) // the age of a table is in whole seconds
	copyTables(t, source, copied)
	copyTables(t, copied, source)
	for schema, dsn := range map[string]string{"the same schema": opts.DSN, "another schema": elsewhere} {
		opts.DSN, changes = dsn, 0
		var s *Store
		for range 2 {
			s = open(t, opts)
			check.Must(t, s.Beat(t.Context()))
			check.Equal(t, changes, 1, schema)
		}
		check.Is(t, one(s, key(1, 0), 0).Err, model.ErrJumping, schema)
		if l := leased(t, s, "orders", "pod"); l.After < l.Now+holdMs {
			t.Errorf("%s: a lease begins above %d at %d, that is not above those that the dump lacks", schema, l.After,
				l.Now)
		}
	}
}

// copyTables makes each table of a store anew in the schema of another one, as a dump does.
func copyTables(t *testing.T, from, to *Store) {
	t.Helper()
	tables, err := query[[]string](from.gorm.WithContext(t.Context()), "list the tables",
		"SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
	check.Must(t, err)
	for _, name := range tables {
		old := from.server.DBName + "." + name
		run(t, to, "DROP TABLE IF EXISTS "+name, "CREATE TABLE "+name+" LIKE "+old,
			"INSERT INTO "+name+" SELECT * FROM "+old)
	}
}

// A cluster that is restored whole has the name that it had, and no life of its own: its
// nodes have started since the heartbeat that they find. One node that restarts finds a later
// one.
func TestClusterRestored(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	if testserver.OnMySQL() || !testserver.HasGalera() {
		t.Skip("needs Galera")
	}
	addr := testserver.FreeAddrs(t, 1)[0]
	server := testserver.MariaDB(t, "--wsrep-on=ON", "--wsrep-provider="+testserver.GaleraProvider,
		"--wsrep-cluster-address=gcomm://", "--wsrep-new-cluster",
		"--binlog-format=ROW", "--wsrep-node-address="+addr,
		"--wsrep-provider-options=gmcast.listen_addr=tcp://"+addr+";gcache.size=8M")
	empty := open(t, Options{Driver: MySQL, DSN: server.DSN("mysql")})
	check.Eventually(t, "the node is ready", func() error {
		return check.Err(empty.pool.Exec("CREATE DATABASE ready"))
	})
	changes := 0
	opts := Options{Driver: MySQL, DSN: server.NewDatabase(t), OnServerChange: func(time.Duration, bool) { changes++ }}
	provision(t, openMigrated(t, opts), app(1))
	beat := func(want int) *Store {
		t.Helper()
		s := open(t, opts) // a process that has seen nothing
		check.Must(t, s.Beat(t.Context()))
		check.Equal(t, changes, want, "changes")
		return s
	}
	s := beat(0)
	check.Equal(t, count(t, s, "SELECT server LIKE 'cluster %' FROM shardid_deployment"), 1, "it is a cluster")
	// of another node, before this one was back
	run(t, s, "UPDATE shardid_deployment SET beat_at = beat_at - 15000, server_life = 'cluster-1'")
	beat(0)
	run(t, s, "UPDATE shardid_deployment SET since = since - 3600000, beat_at = beat_at - 3600000")
	s = beat(1)
	check.Is(t, one(s, key(1, 0), 0).Err, model.ErrJumping, "nobody vouches")
	check.Equal(t, count(t, s, "SELECT jump_from - since FROM shardid_deployment"), 24_000, "clocks of nodes differ")
	beat(1)
}

// A node of a group that has sent nothing since its start is outside, and a server like any other; older ones do not
// tell. Uptime has no sign while the clock is set to before the start.
func TestIdentify(t *testing.T) {
	for status, booted := range map[string]int64{ // 0: the group is the server
		"uptime=9": 0, "uptime=9 gr_total_messages_sent_count=1": 0, "uptime=9 gr_total_messages_sent_count=0": 991,
		"uptime=4294967287 gr_total_messages_sent_count=0":           1009,
		"uptime=18446744073709551607 gr_total_messages_sent_count=0": 1009,
	} {
		m := moment{deploymentRow: deploymentRow{Group: "g", Status: status}, now: time.Unix(1000, 0)}
		start, err := m.start()
		check.Must(t, err)
		server := m.identify(start)
		check.Equal(t, server.ID == "cluster g", booted == 0, status)
		check.Equal(t, max(0, server.BootedAt.Unix()), booted, status)
	}
}

// A server that has joined a group since the connection was new is asked again before it is taken for another one.
func TestJoinedSince(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{OnServerChange: func(time.Duration, bool) { t.Error("a change was noted") }})
	s.seen.mu.Lock()
	for connection, start := range s.seen.starts {
		start.cluster = "that the row does not name"
		s.seen.starts[connection] = start
	}
	s.seen.mu.Unlock()
	wantSegment(t, one(s, key(1, 0), 0), 1, 1000)
}

// What a server has kept for sure it has stored since its start, even if that lies too near to another one to be a
// change.
func TestKeptSinceTheStart(t *testing.T) {
	t.Parallel()
	s, booted := mariaDB(t, Options{}), time.Now().Unix()-10
	run(t, s, fmt.Sprint("UPDATE shardid_deployment SET since = since - 60000, booted_at = ", booted))
	for connection := range s.seen.starts {
		s.seen.starts[connection] = serverStart{booted: time.Unix(booted, 0)}
	}
	check.Must(t, s.inTx(t.Context(), "read", func(tx *gorm.DB) error {
		m, err := s.readMoment(tx, "")
		check.Equal(t, m.kept, 1000*(booted+1), "kept since")
		return err
	}))
}

// Each node of a cluster may have made its tables, or have started, at another time than the others: what
// is not later than a heartbeat, or only a little, is no other life.
func TestClusterLife(t *testing.T) {
	t.Parallel()
	row := deploymentRow{ServerLife: "cluster-7", BeatAt: 1_000_000}
	for _, c := range []struct {
		booted, made int64 // Unix s
		life         string
	}{
		{900, 0, "cluster-7"},
		{900, 950, "cluster-7"},
		{1020, 1020, "cluster-7"},
		{900, 1021, "cluster-1021"}, // a dump, put into the running cluster
		{1021, 900, "cluster-1021"},
	} {
		row.MadeAt = c.made * 1000
		check.Equal(t, row.clusterLife(time.Unix(c.booted, 0)), c.life, c)
	}
}
