package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"shardid/model"
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
	NodeLife   string
	// WitnessLife is that of the witness at the last heartbeat. Marks of lists are
	// known to be of it only while it goes on.
	WitnessLife string

	Now    int64
	Host   string
	Group  string // of MySQL's group replication
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
}

// seen holds what this process last read of the row; a row that has less went back.
type seen struct {
	mu        sync.Mutex
	times     model.ServerTimes
	changedAt time.Time // when a change was met that is not noted yet; zero without one
	witness   time.Time // when the witness answered last; the start before that
}

// moment reads the row for a transaction that writes, on its own connection, as a proxy
// may send another one elsewhere. The error may be errServerChanged, and errReadOnly
// even for a user who may write to a server that is no primary.
func (s *Store) moment(tx *gorm.DB) (moment, error) {
	m, err := s.readMoment(tx, "")
	switch {
	case err != nil:
		return m, err
	case isOn(m.Frozen):
		return m, errReadOnly
	case s.changed(m):
		return m, errServerChanged
	}
	return m, nil
}

// counting is moment for what hands out numbers: how old a copy is can only be told
// while the clocks agree. The error may be model.ErrClockApart too.
func (s *Store) counting(tx *gorm.DB) (moment, error) {
	m, err := s.moment(tx)
	return m, cmp.Or(err, m.apart)
}

const (
	deploymentColumns = "deployment, server, booted_at, since, beat_at, oldest_copy, jump_from, list_rate, tag_rate, rates_from, node_last, node_doubt, node_tokens, node_at, node_life, witness_life"
	// serverNow is the server's clock, Unix ms.
	serverNow = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000"
	// identityColumns are the server's own name and that of its group, if it is a member
	// of one. Only MariaDB reads a comment of the first kind, only MySQL the second.
	identityColumns = "/*M!100000 CONCAT_WS('|', @@hostname, @@port, @@datadir) *//*!80000 @@server_uuid */ AS host, " +
		"/*M!100000 '' *//*!80000 COALESCE((SELECT variable_value FROM performance_schema.global_variables WHERE variable_name = 'group_replication_group_name'), '') */ AS `group`"
)

func (s *Store) readMoment(tx *gorm.DB, lock string) (moment, error) {
	var m moment
	var rows []deploymentRow
	columns := s.either(serverNow+" AS now, @@global.read_only AS frozen, "+identityColumns, "0 AS now, '0' AS frozen")
	before := s.opts.Now()
	if err := tx.Raw("SELECT " + deploymentColumns + ", " + columns + " FROM " + deploymentTable + lock).Scan(&rows).Error; err != nil {
		return m, fmt.Errorf("read %s: %w", deploymentTable, err)
	}
	if len(rows) == 0 {
		return m, fmt.Errorf("%w: %s", errNoLockRow, deploymentTable)
	}
	m.deploymentRow = rows[0]
	if s.server == nil {
		m.now = s.opts.Now()
		m.local = m.now
		m.Now = m.now.UnixMilli()
		return m, nil
	}
	m.now, m.local = time.UnixMilli(m.Now), before
	m.apart = clockApart(m.now, before, s.opts.Now())
	var err error
	if m.server, err = identify(tx, m); err != nil {
		return m, err
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

// clockApart refuses a server whose clock is further from this machine's than the age
// of a copy allows. It was asked between the two readings; the smaller difference counts.
func clockApart(server, before, after time.Time) error {
	apart := max(before.Sub(server), server.Sub(after))
	if apart <= model.MaxClockApart {
		return nil
	}
	return fmt.Errorf("%w by %v, more than %v: set both clocks (NTP); nothing is handed out until then", model.ErrClockApart, apart.Round(time.Millisecond), model.MaxClockApart)
}

// identify says which life of which server the transaction runs on. A restored or
// restarted server has a new boot time, one that took over another name. In a cluster
// that certifies commits every node has what another one acknowledged, so the cluster
// is the server, and it has no boot time.
func identify(tx *gorm.DB, m moment) (model.Server, error) {
	var found []struct {
		Name  string `gorm:"column:Variable_name"`
		Value string `gorm:"column:Value"`
	}
	err := tx.Raw("SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'wsrep_cluster_state_uuid')").Scan(&found).Error // without any privilege
	if err != nil {
		return model.Server{}, fmt.Errorf("identify the server: %w", err)
	}
	status := map[string]string{}
	for _, variable := range found {
		status[strings.ToLower(variable.Name)] = variable.Value
	}
	for _, cluster := range []string{m.Group, status["wsrep_cluster_state_uuid"]} {
		if strings.Trim(cluster, "0-") != "" {
			return model.Server{ID: "cluster " + cluster}, nil
		}
	}
	up, err := strconv.ParseInt(status["uptime"], 10, 64)
	if err != nil {
		return model.Server{}, fmt.Errorf("identify the server: uptime %q: %w", status["uptime"], err)
	}
	sum := sha256.Sum256([]byte(m.Host))
	return model.Server{ID: hex.EncodeToString(sum[:20]), BootedAt: time.Unix(m.now.Unix()-up, 0)}, nil
}

// recorded is the server that the row names.
func (r deploymentRow) recorded() model.Server {
	server := model.Server{ID: r.Server}
	if r.BootedAt > 0 {
		server.BootedAt = time.Unix(r.BootedAt, 0)
	}
	return server
}

func (r deploymentRow) times() model.ServerTimes {
	return model.ServerTimes{Since: atMilli(r.Since), Beat: atMilli(r.BeatAt), Oldest: atMilli(r.OldestCopy), JumpFrom: atMilli(r.JumpFrom)}
}

// changed says whether the row was written by another life of the server, or says less
// than it has said to this process before. A cluster's node may lag a little behind
// another one and still misses no commit of its own.
func (s *Store) changed(m moment) bool {
	if s.server == nil {
		return false
	}
	if !m.recorded().Is(m.server) {
		return true
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if !m.server.BootedAt.IsZero() && m.times().Behind(s.seen.times) {
		return true
	}
	s.seen.times, s.seen.changedAt = m.times(), time.Time{}
	return false
}

// noteServer writes down that another life of the database answers, and how much each
// counter may lack. Only then is anything handed out again. Everything happens in one
// transaction, once, however many processes try.
func (s *Store) noteServer(ctx context.Context) error {
	var noted moment
	vouched := false
	_, err := s.tryTx(ctx, func(tx *gorm.DB) error {
		m, err := s.readMoment(tx, s.forUpdate())
		if err != nil || !s.changed(m) {
			return err
		}
		if isOn(m.Frozen) {
			return errReadOnly
		}
		noted = m
		if m.Server == "" { // the first server ever
			return storeServer(tx, m, model.ServerTimes{Since: m.now, Beat: m.now}, s.opts)
		}
		if m.apart != nil {
			return m.apart
		}
		if vouched, err = s.vouched(ctx, m.WitnessLife); err != nil {
			return err
		}
		s.seen.mu.Lock()
		next, gap := m.times().Note(s.seen.times, m.now, m.recorded().ID == m.server.ID)
		s.seen.mu.Unlock()
		if err := s.doubt(tx, m, gap, vouched); err != nil {
			return err
		}
		return storeServer(tx, m, next, s.opts)
	})
	if err != nil {
		return fmt.Errorf("note the database server: %w", err)
	}
	if s.opts.OnServerChange != nil && noted.Server != "" {
		s.opts.OnServerChange(noted.now.Sub(time.UnixMilli(noted.BeatAt)), vouched)
	}
	return nil
}

// storeServer makes the row that of the server that holds it.
func storeServer(tx *gorm.DB, m moment, t model.ServerTimes, opts Options) error {
	return tx.Exec("UPDATE "+deploymentTable+" SET server = ?, booted_at = ?, since = ?, beat_at = ?, oldest_copy = ?, jump_from = ?, list_rate = ?, tag_rate = ?",
		m.server.ID, max(0, m.server.BootedAt.Unix()), t.Since.UnixMilli(), t.Beat.UnixMilli(), max(0, t.Oldest.UnixMilli()), max(0, t.JumpFrom.UnixMilli()),
		max(m.ListRate, opts.ListRate), max(m.TagRate, opts.TagRate)).Error
}

// doubt adds to each counter what its row may lack, as model.Gap.Doubt says. Without a
// witness that vouches, no mark of the past counts any more.
func (s *Store) doubt(tx *gorm.DB, m moment, gap model.Gap, vouched bool) error {
	nodes := gap.Doubt(nodeRate, atMilli(m.NodeAt), m.NodeDoubt)
	for _, t := range []struct{ name, doubt, mark string }{
		{table, "doubt = " + doubtSQL(gap, max(m.ListRate, s.opts.ListRate)), "list_history"},
		{tagTable, "doubt = " + doubtSQL(gap, max(m.TagRate, s.opts.TagRate)), "mark_life"},
		{deploymentTable, fmt.Sprint("node_doubt = ", nodes), "node_life"},
	} {
		sql := "UPDATE " + t.name + " SET " + t.doubt
		if !vouched {
			sql += ", " + t.mark + " = ''"
		}
		if err := write(tx, "note what "+t.name+" may lack", sql); err != nil {
			return err
		}
	}
	return nil
}

// doubtSQL is model.Gap.Doubt for all rows of a table at once. A test holds them
// together.
func doubtSQL(gap model.Gap, rate int64) string {
	slack := gap.Slack.Milliseconds()
	age := strconv.FormatInt(gap.Now.Sub(gap.Known).Milliseconds(), 10)
	if gap.Rows {
		age = fmt.Sprintf("(%s - GREATEST(0, taken_at - %d))", age, gap.Known.UnixMilli())
	}
	more := strconv.FormatInt(slack, 10)
	if gap.Rows && gap.Again {
		more = fmt.Sprintf("CASE WHEN doubt = 0 THEN %d ELSE 0 END", slack)
	}
	ms := fmt.Sprintf("GREATEST(0, %s + %s)", age, more)
	r := fmt.Sprintf("GREATEST(step, CASE WHEN max_rate > 0 THEN max_rate ELSE %d END)", rate)
	doubt := fmt.Sprintf("2 * %s * (%s DIV 1000) + 2 * %s * (%s MOD 1000) DIV 1000 + 1", r, ms, r, ms)
	if gap.Rows {
		doubt = "doubt + " + doubt
	} else {
		doubt = "GREATEST(doubt, " + doubt + ")"
	}
	return fmt.Sprintf("CASE WHEN %s < %d OR %s > %d THEN %d ELSE LEAST(%d, %s) END",
		age, -slack, age, model.MaxGap.Milliseconds(), model.UnknownDoubt, model.UnknownDoubt, doubt)
}

// Beat writes a heartbeat to the database and to the witness: a copy of either that is
// found later is at least that new. It notes a change of the server, and
// brings up to date what the witness does not cover, so that a restart of one store
// never adds up with a later one of the other. A replica that serves calls it every
// second or so; it writes every model.BeatEvery. Errors: *model.StoreError.
func (s *Store) Beat(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	met, life := s.met(), ""
	if met {
		life = s.beatWitness(ctx)
	}
	var due, nodes bool
	err := s.inTx(ctx, func(tx *gorm.DB) error {
		m, err := s.counting(tx)
		if err != nil {
			return err
		}
		due = m.Now-m.BeatAt >= (model.BeatEvery - time.Second).Milliseconds()
		nodes = m.NodeLife != life
		if due {
			err = tx.Exec("UPDATE "+deploymentTable+" SET beat_at = ? WHERE beat_at < ?", m.Now, m.Now).Error
		}
		if err == nil && (m.ListRate < s.opts.ListRate || m.TagRate < s.opts.TagRate) {
			err = tx.Exec("UPDATE "+deploymentTable+" SET rates_from = ?, list_rate = CASE WHEN list_rate < ? THEN ? ELSE list_rate END, "+
				"tag_rate = CASE WHEN tag_rate < ? THEN ? ELSE tag_rate END",
				m.Now+model.RaiseDelay.Milliseconds(), s.opts.ListRate, s.opts.ListRate, s.opts.TagRate, s.opts.TagRate).Error
		}
		if err == nil && life != "" && m.WitnessLife != life {
			// Lists are marked in the new life at the next sweep. What an earlier one says of
			// them never counts again, not even when it is back.
			err = write(tx, "note another life of Redis", "UPDATE "+deploymentTable+" SET witness_life = ?", life)
			if err == nil {
				err = write(tx, "note another life of Redis", "UPDATE "+table+" SET list_history = '' WHERE list_history <> ''")
			}
		}
		return err
	})
	if err == nil && due && life != "" && nodes {
		err = s.settleStarts(ctx)
	}
	if err == nil && due && life != "" {
		err = s.settleTags(ctx, life)
	}
	if err == nil && !met {
		s.beatWitness(ctx) // so that it vouches from the start; the next heartbeat notes its life
	}
	return s.fail(ctx, "heartbeat", err)
}

// Deployment is the random ID of the deployment that the database belongs to. Errors:
// *model.StoreError.
func (s *Store) Deployment(ctx context.Context) (id string, err error) {
	err = s.gorm.WithContext(ctx).Raw("SELECT deployment FROM " + deploymentTable).Row().Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: %s", errNoLockRow, deploymentTable)
	}
	if err != nil {
		return "", s.explain("read the deployment", err)
	}
	return id, nil
}

// Adopt makes the database that of another deployment: it takes the place of one that
// is gone, with what Redis keeps for it. It gives 0 when it is that one's already.
// Errors: model.ErrInvalidArgument, *model.StoreError.
func (s *Store) Adopt(ctx context.Context, deployment string) (databases int64, err error) {
	if !regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`).MatchString(deployment) {
		return 0, fmt.Errorf("%w: deployment %q: it is the ID that the error names", model.ErrInvalidArgument, deployment)
	}
	return s.confirm(ctx, "take the place of another deployment", nil,
		"UPDATE "+deploymentTable+" SET deployment = ? WHERE deployment <> ?", deployment, deployment)
}
