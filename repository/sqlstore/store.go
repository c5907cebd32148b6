// Package sqlstore keeps in MySQL, MariaDB or SQLite what must never be forgotten:
//
//   - id_alloc, which indices of the queue mode have been issued;
//   - leaf_alloc, which IDs of each segment tag;
//   - leaf_workerid_alloc, which instance may use which snowflake worker ID, and up
//     to which time;
//   - WORKER_NODE, the same for the UID mode;
//   - shardid_worker_claim, until when instances of each registry of worker IDs issue;
//   - id_layout, the layouts that IDs have been issued with;
//   - shardid_scramble, which apps have scrambled IDs;
//   - shardid_number, which tags have business numbers;
//   - shardid_deployment and shardid_change, which server wrote last, and what it may have
//     lost (deployment.go, witness.go);
//   - shardid_name and shardid_lease, which worker IDs of a name are leased (leases.go);
//   - shardid_sequence, shardid_section and shardid_fence, which numbers of sequences have been
//     issued, and which life of Redis may give them (sections.go, spaces.go);
//   - shardid_replica, which replica may let Redis vouch for that (witness.go).
//
// A segment is taken in one transaction under the rows' locks and belongs to the
// caller only when COMMIT was acknowledged; any other outcome drops it, which
// costs a gap and never a repeat. Nothing is retried unless the server said that
// the transaction was rolled back.
//
// Every failure is a *model.StoreError that says what was tried and what an
// operator should do; none of them holds a password.
package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"shardid/model"
	"shardid/model/witness"
)

// The drivers.
const (
	MySQL  = "mysql" // MySQL 8.0.16+ and MariaDB 10.11+
	SQLite = "sqlite"
)

// The tables of the modes.
const (
	table           = "id_alloc" // of the queue mode, and of all functions that name none
	tagTable        = "leaf_alloc"
	layoutTable     = "id_layout"
	workerTable     = "leaf_workerid_alloc"
	claimTable      = "shardid_worker_claim"
	nodeTable       = "WORKER_NODE" // in upper case, as Baidu's programs write it
	mutexTable      = "shardid_lock"
	deploymentTable = "shardid_deployment"
	deletedTable    = "id_alloc_deleted"
	deletedTagTable = "leaf_alloc_deleted"
	scrambleTable   = "shardid_scramble"
	numberTable     = "shardid_number"
	replicaTable    = "shardid_replica"
	changeTable     = "shardid_change"
	nameTable       = "shardid_name"
	leaseTable      = "shardid_lease"
	sequenceTable   = "shardid_sequence"
	sectionTable    = "shardid_section"
	fenceTable      = "shardid_fence"
	// deletedSequenceTable has what spaces of sequences had issued before they were deleted.
	deletedSequenceTable = "shardid_sequence_deleted"
)

// Options say where the database is.
type Options struct {
	Driver string // MySQL or SQLite
	// DSN is a go-sql-driver DSN for MySQL, user:password@tcp(host:3306)/db, and
	// the path of the file for SQLite, whatever characters it has.
	DSN string
	// Existing refuses, with ErrNoDatabase, a SQLite file that has no tables of shardid, and makes none.
	Existing bool
	// Hosts are host:port of servers of which one takes writes, and that one is used: a primary
	// and what may be promoted in its place. They replace the address in the DSN; none: that one.
	Hosts []string
	// TLS encrypts the connections to MySQL; nil leaves that to the DSN.
	TLS *tls.Config
	// ListRate and TagRate bound how fast a list and a tag hand out, in a second, on a
	// MySQL server; 0 means DefaultListRate and DefaultTagRate.
	ListRate, TagRate int64
	// Region is the part of IDs that other deployments do not have. What has issued IDs of another
	// one, or of none, is refused; see AdoptRegion.
	Region model.Region
	// Witness can vouch for what was issued when the server has changed; nil: nothing can.
	Witness Witness
	// OnServerChange is told that another life of the database was met: its copy is at
	// most that old, and the witness vouches for what the copy lacks, or does not. It
	// may be nil.
	OnServerChange func(gap time.Duration, vouched bool)
	// OnBadRow is told of each row that cannot be used, whenever it is read. It may be nil.
	OnBadRow func(error)
	// Observe watches the transactions and the reads of all lists and tags; nil: nothing does.
	Observe model.Observe
	// Now is this machine's clock, and that of a SQLite file; nil means time.Now.
	Now func() time.Time
}

// Store is the database. It is safe for concurrent use, over processes too.
type Store struct {
	opts    Options
	pool    *sql.DB
	checks  *sql.DB // the pool of Check, which does not queue behind what waits for locks
	gorm    *gorm.DB
	server  *gosql.Config // nil for SQLite
	hosts   *primary      // nil for one host alone
	file    string        // SQLite's file
	made    bool          // the file, by this process
	seen    lastSeen
	id      string // of this process, as a member of the deployment
	member  member
	reached atomic.Bool // the witness answered last
	serves  atomic.Bool // a heartbeat was sent
}

// The rates that are enforced unless Options say otherwise: far above what lists and
// tags are used for, and low enough for a jump to be cheap.
const (
	DefaultListRate = 100_000
	DefaultTagRate  = 1_000_000
)

// Open prepares the store. It connects to no MySQL server, which may be unreachable; a
// SQLite file is created together with its folder, and is this process' until Close. Errors: model.ErrInvalidArgument
// for impossible options, and ErrHeld, ErrNoDatabase, *model.StoreError for a SQLite file that cannot be used.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s := &Store{opts: opts, id: rand.Text()}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	s.opts.ListRate = cmp.Or(s.opts.ListRate, DefaultListRate)
	s.opts.TagRate = cmp.Or(s.opts.TagRate, DefaultTagRate)
	s.seen.Rates = witness.Rates{ListRate: s.opts.ListRate, TagRate: s.opts.TagRate}
	switch s.opts.Driver {
	case MySQL:
		return s, s.openMySQL()
	case SQLite:
		return s, s.openSQLite(ctx)
	}
	return nil, fmt.Errorf("%w: database.driver must be %s or %s, not %q", model.ErrInvalidArgument, MySQL, SQLite,
		s.opts.Driver)
}

// gormConfig: transactions are begun where they are needed, errors are logged
// where they are handled, and nothing is sent before it is asked for.
func gormConfig() *gorm.Config {
	return &gorm.Config{
		Logger:                 logger.Discard,
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
	}
}

// Close says goodbye to the other replicas and closes the connections. It may be called
// twice.
func (s *Store) Close() error {
	s.leaveDeployment()
	return s.explain("close", errors.Join(s.pool.Close(), s.checks.Close()))
}

// probe reads no row: of id_alloc columns that the article's table lacks, of the others the last that is made.
const probe = "SELECT current_step, taken_at, last_change FROM " + table + " WHERE 1 = 0 AND NOT EXISTS " +
	"(SELECT name, max_id, deleted_at FROM " + deletedSequenceTable + ")"

// Check says whether segments can be taken: the server answers, is a writable
// primary, and has the schema. It is cheap: two queries that read no row. Errors:
// *model.StoreError with what to do.
func (s *Store) Check(ctx context.Context) error {
	err := s.checkPrimary(ctx)
	if err == nil {
		_, err = s.checks.ExecContext(ctx, probe)
	}
	return s.explain("check", err)
}

// checkPrimary returns errReadOnly for a server or a file that takes no writes.
// super_read_only switches read_only on as well.
func (s *Store) checkPrimary(ctx context.Context) error {
	if s.server == nil { // take the write lock and give it back
		tx, err := s.checks.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		return tx.Rollback()
	}
	var readOnly, innodb string
	err := s.checks.QueryRowContext(ctx, "SELECT @@global.read_only, @@global.innodb_read_only").
		Scan(&readOnly, &innodb)
	switch {
	case err != nil:
		return fmt.Errorf("ask for the server's state: %w", err)
	case isOn(readOnly) || isOn(innodb):
		return errReadOnly
	}
	return nil
}

// LayoutOnce records the layout of a kind of IDs unless one is recorded. Of several starters at once with different
// layouts one wins. A record is never changed, so a call that failed may be repeated. Errors: model.ErrLayoutChanged
// when another one is recorded, *model.StoreError.
func (s *Store) LayoutOnce(ctx context.Context, want model.LayoutRecord) error {
	if found, err := s.HasLayout(ctx, want); found || err != nil {
		return err
	}
	err := s.gorm.WithContext(ctx).Exec("INSERT INTO "+layoutTable+" (kind, layout) VALUES (?, ?)", want.Kind,
		want.Layout).Error
	if isDuplicate(err) { // another starter was faster
		_, err = s.HasLayout(ctx, want)
		return err
	}
	return s.answer(ctx, "record the layout", err)
}

// HasLayout says whether the layout is recorded, and records nothing. Errors:
// model.ErrLayoutChanged when another one is, *model.StoreError.
func (s *Store) HasLayout(ctx context.Context, want model.LayoutRecord) (bool, error) {
	found, err := query[[]string](s.gorm.WithContext(ctx), "read", "SELECT layout FROM "+layoutTable+" WHERE kind = ?",
		want.Kind)
	if err == nil && len(found) > 0 && found[0] != want.Layout {
		err = fmt.Errorf("%w: %w: %s IDs have been issued with %s, the configuration says %s: IDs of both could be "+
			"equal",
			model.Do("set the recorded values again; only where IDs of both never meet in one column, or cannot be "+
				"equal (docs/uid.md), delete the row of %s in id_layout", want.Kind),
			model.ErrLayoutChanged, want.Kind, found[0], want.Layout)
	}
	return err == nil && len(found) > 0, s.answer(ctx, "read the layout", err)
}

// LayoutAge is for how long IDs of a kind may have been issued, to the millisecond: since
// their layout was recorded, by the database's clock, and 0 when none is. A database that has
// noted a change of its server may lack an earlier record: there it is since 1970. Errors:
// *model.StoreError.
func (s *Store) LayoutAge(ctx context.Context, kind string) (time.Duration, error) {
	return within(ctx, s, "read the layout", func(tx *gorm.DB) (time.Duration, error) {
		m, err := s.moment(tx)
		if err == nil && m.Changes == 0 {
			m.Now, err = query[int64](tx, "read", "SELECT "+s.ageOf("recorded_at")+" FROM "+layoutTable+
				" WHERE kind = ?", kind)
		}
		return time.Duration(m.Now) * time.Millisecond, err
	})
}
