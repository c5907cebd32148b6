package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/model/witness"
)

// errServerChanged: the row of shardid_deployment names another life of the database
// than the one that answers. inTx notes it and runs the transaction again.
var errServerChanged = errors.New("the database server has changed")

// deploymentRow is the row of shardid_deployment, and what the server that holds it
// says of itself in the same statement. Times are Unix ms but for BootedAt, Unix s.
type deploymentRow struct {
	Deployment string
	Server     string
	BootedAt   int64
	Since      int64
	BeatAt     int64
	OldestCopy int64
	JumpFrom   int64
	ListRate   int64
	TagRate    int64
	RatesFrom  int64
	NodeLast   int64
	NodeDoubt  int64
	NodeTokens int64
	NodeAt     int64
	NodeChange int64
	NodeLost   int64
	// Changes is the number of the last change of the server (witness.go), Witness who
	// knows all numbers that were taken since it was named, and WitnessPlace where it is.
	Changes      int64
	Witness      string
	WitnessPlace string
	// ServerLife is model.Server.Life; empty since an upgrade, until the next heartbeat.
	ServerLife string
	// Region is model.Region.String of the IDs that are issued.
	Region string

	Now  int64
	Host string
	Life string
	// Connection is another one for each connection and each start of a server, also behind a proxy that keeps
	// the client's connection when it opens another one to the server.
	Connection string
	// Group, of MySQL's group replication, and Status, what the server counts since its start, as name=value
	// and in lower case, are read once for each connection; see serverStart.
	Group  string
	Status string
	// MadeAt is when the tables were made on this server, 0: they are older than what this
	// process has seen of the row, or nobody knows.
	MadeAt int64  `gorm:"-"`
	Frozen string // whether the server is read-only
}

// moment is what a transaction must know of the server it runs on.
type moment struct {
	deploymentRow
	server model.Server
	now    time.Time // by the server's clock
	local  time.Time // by this machine's, at most model.MaxClockApart later than now unless apart
	apart  error     // model.ErrClockApart when this machine's clock is too far from it
	// kept is since when, Unix ms, the database has forgotten nothing for sure: it has
	// served in this life, as the row says.
	kept int64
	// listRate and tagRate are the highest rates that this process may use at present;
	// 0 is no bound.
	listRate, tagRate int64
	changes           []changeRow // read so far, see moment.readChanges
	members           []memberRow // see toSeeOthers
	settled           bool        // see toDecide
	region            model.Region
}

// lastSeen holds what this process last read of the row; a row that has less went back.
type lastSeen struct {
	mu sync.Mutex
	witness.Seen
	deployment string // see Store.Deployment
	witness    string // a state of witness.Vouching, "" before the first heartbeat
	// starts has what servers said when a connection was new, by deploymentRow.Connection.
	starts map[string]serverStart
}

// A need is what a transaction asks of the row of the deployment, beside that it is this server's.
type need int

const (
	// toShare and toOwn lock the row, so that nobody names another witness until the transaction ends. A
	// transaction that writes the row owns it.
	toShare need = iota
	toOwn
	// toOwnNow is toOwn that fails where it would have to wait; see isLocked.
	toOwnNow
	// toCount is for what hands out times: how old a copy is can only be told while the clocks agree.
	toCount
	// toTake is for what takes numbers: clocks agree, and others have had the time to say what a copy lacks.
	toTake
	// toDecide is for an operator's word, which takes no numbers: where nothing is left to be settled the
	// rows have all that the witness knows, and it need not be asked.
	toDecide
	// toSeeOthers reads the rows of all replicas with the same statement, and without a lock.
	toSeeOthers
)

// moment reads the row for a transaction that writes, on its own connection, as a proxy may send another one
// elsewhere. Errors: errServerChanged and errNoRegion, after which inTx does what is missing and runs the
// transaction again; errReadOnly, even for a user who may write to a server that is no primary;
// model.ErrLayoutChanged for another region; for times and numbers model.ErrClockApart, and for numbers
// model.ErrJumping.
func (s *Store) moment(tx *gorm.DB, needs ...need) (moment, error) {
	lock, others := "", slices.Contains(needs, toSeeOthers)
	switch {
	case slices.Contains(needs, toOwn):
		lock = exclusive
	case slices.Contains(needs, toOwnNow):
		lock = exclusive + " NOWAIT"
	case slices.Contains(needs, toShare):
		lock = share
	}
	m, err := s.readRow(tx, s.lock(lock), others)
	if err != nil {
		return m, err
	}
	if isOn(m.Frozen) {
		return m, errReadOnly
	}
	if err := s.inRegion(m.deploymentRow); err != nil {
		return m, err
	}
	switch changed, _, err := s.changed(tx, m); {
	case err != nil:
		return m, err
	case changed:
		return m, errServerChanged
	}
	takes := slices.Contains(needs, toTake)
	if m.apart != nil && (takes || slices.Contains(needs, toCount)) {
		return m, m.apart
	}
	if wait := m.found().Objecting(m.now); takes && wait > 0 {
		return m, fmt.Errorf("%w: %v to go, for replicas that have seen more of the database",
			model.ErrJumping, wait.Round(time.Millisecond))
	}
	if m.Witness != "" && slices.Contains(needs, toDecide) {
		open, err := query[int64](tx, "look for changes that are not settled",
			"SELECT COUNT(*) FROM "+changeTable+" WHERE settled = 0 AND witness <> ''")
		if err != nil {
			return m, err
		}
		m.settled = open == 0
	}
	return m, nil
}

const (
	deploymentColumns = "deployment, server, booted_at, since, beat_at, oldest_copy, jump_from, list_rate, " +
		"tag_rate, rates_from, node_last, node_doubt, node_tokens, node_at, node_change, node_lost, changes, " +
		"witness, witness_place, server_life, region"
)

// readMoment reads the row and checks nothing.
func (s *Store) readMoment(tx *gorm.DB, lock string) (moment, error) {
	return s.readRow(tx, lock, false)
}

// readRow reads the row, the server that holds it, and, with others, the rows of all replicas. What the server says of
// its start is read when the connection is new, and once more before the server is taken for another one than the row
// names: a server may have joined a group since.
func (s *Store) readRow(tx *gorm.DB, lock string, others bool) (moment, error) {
	m, err := s.selectRow(tx, lock, others, "")
	if err != nil || s.server == nil {
		return m, err
	}
	madeAt, err := s.madeAt(tx, m)
	if err != nil {
		return m, err
	}
	m.MadeAt = madeAt
	s.seen.mu.Lock()
	start, known := s.seen.starts[m.Connection]
	s.seen.mu.Unlock()
	if m.server = m.identify(start); !known || !m.recorded().Is(m.server) {
		if m, err = s.selectRow(tx, lock, others, ", "+startColumns); err != nil {
			return m, err
		}
		if start, err = m.start(); err != nil {
			return m, err
		}
		m.MadeAt = madeAt
		m.server = m.identify(start)
		s.keepStart(m.Connection, start)
	}
	// A higher rate than before waits until copies know of it.
	m.listRate, m.tagRate = min(s.opts.ListRate, m.ListRate), min(s.opts.TagRate, m.TagRate)
	if m.Now < m.RatesFrom {
		m.listRate, m.tagRate = min(m.listRate, DefaultListRate), min(m.tagRate, DefaultTagRate)
	}
	m.kept = m.Since
	if !m.server.BootedAt.IsZero() { // in whole seconds: it had started by the end of that one
		m.kept = max(m.kept, min(m.Now, (m.server.BootedAt.Unix()+1)*1000))
	}
	return m, nil
}

// selectRow is the statement of readRow, with some further columns.
func (s *Store) selectRow(tx *gorm.DB, lock string, others bool, further string) (moment, error) {
	var m moment
	columns := s.either(serverNow+" AS now, @@global.read_only AS frozen, "+identityColumns+further,
		"0 AS now, '0' AS frozen")
	before := s.opts.Now()
	from := deploymentTable
	if others {
		columns, from = columns+", "+memberColumns, from+" LEFT JOIN "+members+" ON TRUE"
	}
	rows, err := query[[]struct {
		Row    deploymentRow `gorm:"embedded"`
		Member memberRow     `gorm:"embedded"`
	}](tx, "read "+deploymentTable, "SELECT "+deploymentColumns+", "+columns+" FROM "+from+lock)
	first, err := oneRow(rows, err, errNoDeployment)
	if err != nil {
		return m, err
	}
	m.deploymentRow, m.region = first.Row, s.opts.Region
	for _, row := range rows {
		m.members = append(m.members, row.Member)
	}
	if s.server == nil {
		m.now = s.opts.Now()
		m.local = m.now
		m.Now = m.now.UnixMilli()
		return m, nil
	}
	m.now, m.local = time.UnixMilli(m.Now), before
	m.apart = clockApart(m.now, before, s.opts.Now())
	return m, nil
}

// madeAt is when the tables were made on the server, in ms: a dump makes them anew. It is asked once
// for each heartbeat that is found, of a table that shardid never alters. What lies ahead of the
// server's clock does not count.
func (s *Store) madeAt(tx *gorm.DB, m moment) (int64, error) {
	s.seen.mu.Lock()
	known := m.times().Since.Equal(s.seen.Since) && m.times().Beat.Equal(s.seen.Beat)
	s.seen.mu.Unlock()
	if known {
		return 0, nil
	}
	at, err := query[int64](tx, "look how old the tables are", "SELECT COALESCE(UNIX_TIMESTAMP(create_time), 0) * 1000"+
		" FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", mutexTable)
	if at > m.Now {
		at = 0
	}
	return at, err
}

// clockApart refuses a server whose clock is further from this machine's than the age
// of a copy allows. It was asked between the two readings; the smaller difference counts.
func clockApart(server, before, after time.Time) error {
	apart := max(before.Sub(server), server.Sub(after))
	if apart <= model.MaxClockApart {
		return nil
	}
	return &model.NotBegunError{Err: fmt.Errorf("%w: nothing is issued, as %w by %v, more than %v",
		model.Do("set both clocks (NTP)"), model.ErrClockApart, apart.Round(time.Millisecond), model.MaxClockApart)}
}

// sentInGroup counts, since the start of a server, what it has sent to its group: MySQL 8.1 and newer
// tell it without any privilege, and only with the plugin of group replication.
const sentInGroup = "gr_total_messages_sent_count"

// isOutside says whether a server that may have a group has not been a member since its start. It then
// lacks what the group has committed, whatever name of a group its configuration has.
func isOutside(sent string) bool { return sent == "0" }

// serverStart is what a server says of itself since its start.
type serverStart struct {
	booted  time.Time // by the server's clock; it stays the same while that is set
	cluster string    // that certifies the commits of its nodes; "" without one
}

// start reads that from a row with startColumns. A node that is outside its group is a server like any other.
func (m moment) start() (serverStart, error) {
	status := map[string]string{}
	for _, variable := range strings.Fields(m.Status) {
		name, value, _ := strings.Cut(variable, "=")
		status[name] = value
	}
	// Below 0, without a sign, while the clock is set to before the start; some give 32 bits.
	up, err := strconv.ParseUint(status["uptime"], 10, 64)
	if err != nil {
		return serverStart{}, fmt.Errorf("identify the server: uptime %q: %w", status["uptime"], err)
	}
	start := serverStart{booted: time.Unix(m.now.Unix()-int64(int32(up)), 0)}
	if isOutside(status[sentInGroup]) {
		m.Group = ""
	}
	for _, cluster := range []string{m.Group, status["wsrep_cluster_state_uuid"]} {
		if strings.Trim(cluster, "0-") != "" {
			start.cluster = cluster
			break
		}
	}
	return start, nil
}

// keepStart keeps what was said on a connection. Connections that are gone are forgotten now and then.
func (s *Store) keepStart(connection string, start serverStart) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.starts == nil || len(s.seen.starts) > 4*poolSize {
		s.seen.starts = map[string]serverStart{}
	}
	s.seen.starts[connection] = start
}

// identify says which life of which server the transaction runs on. A restored or
// restarted server has a new boot time, one that took over another name. In a cluster
// that certifies commits every node has what another one acknowledged, so the cluster
// is the server, and it has no boot time. Its life is the start of the node that noted it: one
// that started, or whose tables were made, after the heartbeat that it has is of a cluster that was
// restored.
func (m moment) identify(start serverStart) model.Server {
	if start.cluster != "" {
		return model.Server{ID: "cluster " + start.cluster, Life: m.clusterLife(start.booted)}
	}
	sum := sha256.Sum256([]byte(m.Host))
	return model.Server{ID: hex.EncodeToString(sum[:20]), BootedAt: start.booted, Life: m.Life}
}

// clusterLife is the life of a cluster of which a node has started then.
func (r deploymentRow) clusterLife(booted time.Time) string {
	began := max(booted.Unix(), r.MadeAt/1000)
	if r.ServerLife == "" || time.Unix(began, 0).Sub(time.UnixMilli(r.BeatAt)) > 2*model.BeatEvery {
		return fmt.Sprint("cluster-", began)
	}
	return r.ServerLife
}

// recorded is the server that the row names. A row that is older than its table has come with a dump:
// it names no life of a server.
func (r deploymentRow) recorded() model.Server {
	server := model.Server{ID: r.Server, Life: r.ServerLife}
	if r.BootedAt > 0 && r.MadeAt <= r.BeatAt {
		server.BootedAt = time.Unix(r.BootedAt, 0)
	}
	return server
}

func (r deploymentRow) times() model.ServerTimes {
	return model.ServerTimes{Since: atMilli(r.Since), Beat: atMilli(r.BeatAt), Oldest: atMilli(r.OldestCopy),
		JumpFrom: atMilli(r.JumpFrom)}
}

func (r deploymentRow) rates() witness.Rates {
	return witness.Rates{ListRate: r.ListRate, TagRate: r.TagRate}
}

// found is what the transaction finds of the database, but for whether it lacks something.
func (m moment) found() witness.Database {
	return witness.Database{
		ServerTimes: m.times(), Rates: m.rates(), Changes: m.Changes, Witness: m.Witness,
		Same: m.recorded().Is(m.server), Cluster: m.server.BootedAt.IsZero(),
	}
}

// changed says whether a change of the server is to be noted (witness.Seen.Changed), and what was found. What has not
// changed this process has met.
func (s *Store) changed(tx *gorm.DB, m moment) (changed bool, found witness.Database, err error) {
	if s.server == nil {
		return false, found, nil
	}
	found = m.found()
	s.seen.mu.Lock()
	looks, number, since := s.seen.Looks(found), s.seen.Changes, s.seen.Since
	s.seen.mu.Unlock()
	if looks {
		n, err := query[int64](tx, "look for the last change of the server", "SELECT COUNT(*) FROM "+changeTable+
			" WHERE number = ? AND noted_at = ?", number, since.UnixMilli())
		if err != nil {
			return false, found, err
		}
		found.Lacks = n == 0
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.Changed(found) {
		return true, found, nil
	}
	s.seen.Meet(found)
	s.seen.deployment = m.Deployment
	return false, found, nil
}

// Changes is the number of the last change of the server that this process has seen; 0 before
// the first. It asks no store.
func (s *Store) Changes() int64 {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	return s.seen.Changes
}

// Deployment is the random ID of the deployment that the database belongs to, as the last transaction on a server
// has read it; the first call asks. Errors: *model.StoreError.
func (s *Store) Deployment(ctx context.Context) (id string, err error) {
	s.seen.mu.Lock()
	id = s.seen.deployment
	s.seen.mu.Unlock()
	if id != "" {
		return id, nil
	}
	found, err := query[[]string](s.gorm.WithContext(ctx), "read", "SELECT deployment FROM "+deploymentTable)
	id, err = oneRow(found, err, errNoDeployment)
	return id, s.explain("read the deployment", err)
}
