//go:build unix

package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// A COMMIT whose reply is lost fails the items, although the server did it: the
// segment is a gap, and nobody gets it again.
func TestLostCommitReply(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	provision(t, s, app(1))
	addTag(t, s, "a", 1000)
	through, p := behindProxy(t, s)
	wantSegment(t, one(through, key(1, 0), 0), 1, 1000)
	p.cutAfterCommit.Store(true)
	for i, got := range through.Allocate(context.Background(), ask(key(1, 0), key(1, 1), key(9, 9))) {
		wantAdvice(t, got.Err, "broke; it is opened again")
		check.Equal(t, got.Segment, (model.Segment{}), "answer", i, got)
	}
	got, err := through.AllocateTag(t.Context(), model.TagRequest{Tag: "a"})
	wantAdvice(t, err, "broke; it is opened again")
	check.Equal(t, got, (model.TagSegment{}), "with an error")
	p.cutAfterCommit.Store(false)
	check.Equal(t, p.commits.Load(), 3, "COMMITs were sent: an unclear one must not be tried again")
	waitFor(t, func() bool {
		return maxID(t, s, 0) == 2000 && maxID(t, s, 1) == 1000 && count(t, s, "SELECT max_id FROM leaf_alloc") == 1001
	})
	wantTag(t, through, model.TagRequest{Tag: "a"}, model.TagSegment{First: 1001, End: 2001, Step: 1000})
	wantSegment(t, one(through, key(1, 0), 0), 2001, 3000)
	wantSegment(t, one(s, key(1, 1), 0), 1001, 2000)
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

// proxy stands between a client and MySQL.
type proxy struct {
	commits        atomic.Int64
	cutAfterCommit atomic.Bool // cut the client off, and forward COMMIT
}

// behindProxy is another store on the database of s, through a proxy.
func behindProxy(t *testing.T, s *Store) (*Store, *proxy) {
	t.Helper()
	p := &proxy{}
	addr := testserver.Fake(t, func(client net.Conn) {
		testserver.Forward(client, s.server.Addr, func(request []byte) []byte {
			if bytes.Contains(request, []byte("COMMIT")) {
				p.commits.Add(1)
				if p.cutAfterCommit.Load() {
					_ = client.Close()
				}
			}
			return request
		}, nil)
	})
	return open(t, Options{Driver: MySQL, DSN: withDSN(t, s.opts.DSN, func(c *gosql.Config) { c.Addr = addr })}), p
}

// kill -9 of the server under load: the store goes on by itself when the server
// is back, and no index was handed out twice.
func TestServerKilledAndBack(t *testing.T) {
	check.Deep(t)
	server := testserver.MariaDB(t)
	opts := Options{Driver: MySQL, DSN: server.NewDatabase(t)}
	s := openMigrated(t, opts)
	provision(t, s, app(1))
	books := fill(s, 8, func(error) bool {
		time.Sleep(5 * time.Millisecond)
		return true
	}, key(1, 0))
	for range 2 {
		time.Sleep(300 * time.Millisecond)
		server.Kill()
		wantAdvice(t, s.Check(context.Background()), "no database server answers at "+s.server.Addr)
		wantAdvice(t, one(s, key(1, 0), 0).Err, "no database server answers at "+s.server.Addr)
		server.Restart()
	}
	time.Sleep(300 * time.Millisecond)
	books.end(t) // with a gap where the doubt of a restart was left out
	check.OK(t, s.Check(context.Background()))
	for _, segment := range books.all[0] {
		check.Equal(t, segment.Len(), 1000)
	}
}

// A server that was made read-only is no primary, not even for root, who could
// still write to it.
func TestReadOnlyServer(t *testing.T) {
	server := testserver.MariaDB(t)
	s := openMigrated(t, Options{Driver: MySQL, DSN: server.NewDatabase(t)})
	ctx := context.Background()
	provision(t, s, app(1))
	run(t, s, "CREATE USER u@'127.0.0.1'", "GRANT ALL ON *.* TO u@'127.0.0.1'",
		"REVOKE "+testserver.BypassReadOnly()+" ON *.* FROM u@'127.0.0.1'")
	as := func(dsn string) *Store {
		return open(t, Options{Driver: MySQL, DSN: withDSN(t, dsn, func(c *gosql.Config) { c.User = "u" })})
	}
	user, unmigrated := as(server.DSN(s.server.DBName)), as(server.NewDatabase(t))
	wantSegment(t, one(user, key(1, 0), 0), 1, 1000)
	addTag(t, s, "a", 1000)
	lease := acquire(t, user.Workers(WorkersOptions{}), workertest.Owner(0))
	lease.Reserved, lease.Expires = 1, 1
	node := register(t, user, nodeStart("a", 5, 1_800_000_000))
	run(t, s, "SET GLOBAL read_only = ON")
	for _, store := range []*Store{s, user} {
		wantAdvice(t, store.Check(ctx), "point database.dsn at the primary")
		wantAdvice(t, one(store, key(1, 0), 0).Err, "point database.dsn at the primary")
		w := store.Workers(WorkersOptions{})
		_, tag := store.AllocateTag(ctx, model.TagRequest{Tag: "a"})
		_, renew := w.Renew(ctx, lease)
		_, get := w.Acquire(ctx, lease.Owner)
		_, start := store.RegisterNode(ctx, nodeStart("b", 5, 1_800_000_000))
		for _, err := range []error{tag, renew, get, start, w.Release(ctx, lease),
			store.MarkNode(ctx, node, 1_900_000_000)} {
			wantAdvice(t, err, "point database.dsn at the primary")
		}
	}
	_, layout := user.LayoutOnce(ctx, model.LayoutRecord{Kind: "uid", Layout: "x"})
	wantAdvice(t, layout, "point database.dsn at the primary")
	wantAdvice(t, check.Err(user.CreateApp(context.Background(), app(2))), "point database.dsn at the primary")
	wantAdvice(t, unmigrated.Migrate(ctx, nil), "point database.dsn at the primary")
	run(t, s, "SET GLOBAL read_only = OFF")
	wantSegment(t, one(s, key(1, 0), 0), 1001, 2000)
	wantSegment(t, one(user, key(1, 0), 0), 2001, 3000)
}

func TestServerRefusals(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	ctx := context.Background()
	run(t, s, "DROP USER IF EXISTS pw@'127.0.0.1'", "CREATE USER pw@'127.0.0.1' IDENTIFIED BY 'right-word'")
	dsn := s.opts.DSN
	for _, c := range []struct {
		change func(*gosql.Config)
		advice string
	}{
		{func(c *gosql.Config) { c.User, c.Passwd = "pw", "wrong-word" }, "correct user and password"},
		{func(c *gosql.Config) { c.User, c.Passwd = "pw", "right-word" }, "grant the user"},
		{func(c *gosql.Config) { c.DBName = "not_there" }, "create the database"},
		{func(c *gosql.Config) { c.Addr = "127.0.0.1:1" }, "no database server answers at 127.0.0.1:1"},
		{func(c *gosql.Config) { c.Addr = "no.such.host.invalid:3306" }, "no database server answers at " +
			"no.such.host.invalid"},
	} {
		bad := open(t, Options{Driver: MySQL, DSN: withDSN(t, dsn, c.change)})
		for _, err := range []error{bad.Check(ctx), one(bad, key(1, 0), 0).Err, bad.Migrate(ctx, nil),
			check.Err(bad.CreateApp(context.Background(), app(1)))} {
			wantAdvice(t, err, c.advice)
			if err != nil && strings.Contains(err.Error(), "-word") {
				t.Errorf("a password: %v", err)
			}
		}
	}
}

func TestBadDSN(t *testing.T) {
	for _, dsn := range []string{"", "root:pass-word@tcp(h:1)", "root:pass/word@tcp(h:1", "root:pass-word@tcp(h:1)/",
		"root:pass-word@tcp(h:1)/db?tls=pass-word", "x:pass-word@tcp(h:1)/db?parseTime=pass-word"} {
		_, err := Open(context.Background(), Options{Driver: MySQL, DSN: dsn})
		if !errors.Is(err, model.ErrInvalidArgument) || strings.Contains(err.Error(), "pass-") || strings.Contains(err.Error(), "pass/") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
	check.Is(t, check.Err(Open(context.Background(), Options{Driver: "oracle"})), model.ErrInvalidArgument)
}

func TestDSNSettings(t *testing.T) {
	cfg, err := parseDSN("u:p@tcp(h:1)/d?multiStatements=true&parseTime=false&charset=latin1&collation=latin1_swedish_ci&readTimeout=2s")
	check.Must(t, err)
	if cfg.MultiStatements || !cfg.ParseTime || !cfg.RejectReadOnly || cfg.Timeout != dialTimeout ||
		cfg.ReadTimeout != 2*time.Second || cfg.WriteTimeout != writeTimeout || cfg.Collation != "utf8mb4_general_ci" {
		t.Errorf("%+v", cfg)
	}
	check.Has(t, cfg.FormatDSN(), "charset=utf8mb4")
}

// A row that another holds for long costs an error that says so, not a broken
// connection; a wait that ends in time costs nothing.
func TestLockWait(t *testing.T) {
	opts := backends()[0].empty(t)
	s := openMigrated(t, opts)
	provision(t, s, app(1))
	hasty := open(t, Options{Driver: MySQL, DSN: opts.DSN + "&innodb_lock_wait_timeout=1"})
	tx, err := plain(t, opts.DSN).Begin()
	check.Must(t, err)
	check.Must(t, check.Err(tx.Exec("UPDATE id_alloc SET max_id = 500 WHERE app_id = 1 AND shard_id = 0")))
	start := time.Now()
	wantAdvice(t, one(hasty, key(1, 0), 0).Err, "")
	if d := time.Since(start); d < 2500*time.Millisecond || d > 6*time.Second {
		t.Errorf("three tries of a second took %v", d)
	}
	wantSegment(t, one(hasty, key(1, 1), 0), 1, 1000) // other rows are not held
	waiting := make(chan model.Allocation)
	go func() { waiting <- one(s, key(1, 0), 0) }()
	time.Sleep(200 * time.Millisecond)
	check.Must(t, tx.Commit())
	wantSegment(t, <-waiting, 501, 1500) // the latest committed row
}

// MariaDB 11 refuses a locking read of a row that changed since the statement
// began; that transaction was rolled back and is run again.
func TestSnapshotIsolation(t *testing.T) {
	check.Deep(t)
	opts := backends()[0].empty(t)
	if openMigrated(t, opts); testserver.OnMySQL() {
		t.Skip("MySQL does not have it")
	}
	opts.DSN += "&innodb_snapshot_isolation=1"
	stores := []*Store{open(t, opts), open(t, opts)}
	provision(t, stores[0], app(1))
	contiguous(t, allocateConcurrently(t, stores, 2, 20)[key(1, 0)])
}

// A row that is not as it was read, whatever the reason, undoes everything.
func TestChangedRowIsNotWritten(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		run(t, s, "UPDATE id_alloc SET max_id = 10 WHERE shard_id = 1")
		var rows []storedRow
		for shard := range 3 {
			rows = append(rows, storedRow{
				key: model.Shards + shard, as: []any{1, shard, 0}, next: model.Counter{Last: 100},
				further: []any{100, 100},
			})
		}
		err := s.inTx(context.Background(), "test", func(tx *gorm.DB) error {
			return s.storeRows(tx, &moment{}, s.listStorage(), rows)
		})
		check.Is(t, err, errRowChanged)
		wantAdvice(t, s.explain("allocate", err), "engine is not InnoDB")
		check.Equal(t, count(t, s, "SELECT SUM(max_id) FROM id_alloc"), 10, "stored")
		addTag(t, s, "a", 1000)
		err = s.inTx(t.Context(), "test", func(tx *gorm.DB) error {
			return storeTag(tx, &moment{}, tagRow{BizTag: "a", Stored: 2}, model.Counter{Last: 100})
		})
		check.Is(t, err, errRowChanged)
		check.Equal(t, count(t, s, "SELECT max_id FROM leaf_alloc"), 1, "stored")
	})
}

// A host that falls silent between its lock and its COMMIT stops no other for more
// than 10 s, and nothing that it did is stored.
func TestSilentOwner(t *testing.T) {
	check.Deep(t)
	for name, c := range map[string]struct {
		lock  func(s *Store, tx *gorm.DB) error
		other func(ctx context.Context, s *Store) error
	}{
		"list": {
			func(_ *Store, tx *gorm.DB) error {
				return tx.Exec("UPDATE id_alloc SET max_id = max_id + 1000 WHERE app_id = 1").Error
			},
			func(ctx context.Context, s *Store) error {
				got := s.Allocate(ctx, ask(key(1, 0)))[0]
				if got.Err == nil && got.Segment.First != 1 {
					return errors.New("the silent owner's segment was stored")
				}
				return got.Err
			},
		},
		"tag": {
			func(s *Store, tx *gorm.DB) error {
				_, locked := s.moment(tx, toShare)
				_, err := s.lockTag(tx, "orders")
				return cmp.Or(locked, err)
			},
			func(ctx context.Context, s *Store) error {
				_, err := s.AllocateTag(ctx, model.TagRequest{Tag: "orders"})
				return err
			},
		},
		"worker nodes": {
			func(s *Store, tx *gorm.DB) error { _, err := s.lockNamed(tx, nodeTable); return err },
			func(ctx context.Context, s *Store) error {
				_, err := s.RegisterNode(ctx, nodeStart("new", 100, time.Now().Unix()))
				return err
			},
		},
		"migration": {
			func(_ *Store, tx *gorm.DB) error {
				return tx.Exec("UPDATE shardid_schema_lock SET locked = false").Error
			},
			func(ctx context.Context, s *Store) error { return s.Migrate(context.Background(), nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := backends()[0].empty(t)
			silent, s := openMigrated(t, opts), open(t, opts)
			provision(t, s, app(1))
			check.Must(t, check.Err(s.CreateTag(t.Context(), model.Tag{Name: "orders", MaxID: 1, Step: 1000})))
			wakes, holds := make(chan struct{}), make(chan error)
			ended := make(chan error)
			go func() {
				ended <- silent.inTx(context.Background(), "test", func(tx *gorm.DB) error {
					holds <- c.lock(silent, tx)
					<-wakes
					return nil
				})
			}()
			check.Must(t, <-holds)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			begun := time.Now()
			err := c.other(ctx, s)
			took := time.Since(begun)
			close(wakes)
			if err != nil || took < time.Second || took > 10*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
			if err := <-ended; !isBroken(err) {
				t.Errorf("the silent owner's COMMIT: %v", err)
			}
		})
	}
}

// What the pool keeps is never what the server has ended: after a rest, however
// long, the first call succeeds.
func TestRestedPool(t *testing.T) {
	check.Deep(t)
	s := openMigrated(t, backends()[0].empty(t))
	provision(t, s, app(1))
	wantSegment(t, one(s, key(1, 0), 0), 1, 1000)
	time.Sleep(poolIdle + 1500*time.Millisecond)
	check.Equal(t, s.pool.Stats().OpenConnections, 0, "connections are kept")
	wantSegment(t, one(s, key(1, 0), 0), 1001, 2000)
}
