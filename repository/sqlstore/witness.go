package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// Who vouches for the counters of a database that may go back in time: the protocol of docs/design.md, whose
// model is scripts/prove/witness.pml. The row of the deployment names a witness, a life of Redis that has a mark of
// each number that was taken since, or nobody. This file tells it from top to bottom:
//
//  1. What a replica says of itself. With each heartbeat (Beat) it looks at the row of the deployment and at what the
//     other replicas use. Where the named life is the one that all of them use, it holds the witness, once it has
//     written so (writeMembership); else it gives its hold up, first in its memory and then in the table.
//  2. What one replica decides for all (writeDecision): to name a witness while all use one life, to name nobody once
//     nobody holds the one that is named, the time of the heartbeat, and the rates.
//  3. Who takes numbers asks the witness for marks and raises them before the commit. Where it does not answer,
//     nothing is taken (errWitnessAway); where a mark has moved meanwhile, the transaction begins anew (errMarkMoved).
//  4. A change of the server. A transaction that finds another server, or a row that says less than this process has
//     read, ends with errServerChanged, and noteServer writes the change down: a replica that holds the witness lets
//     it vouch, any other waits for one that does (errWaitingForHolder), and after that nobody vouches.
//  5. After a change that the witness vouched for, its holder settles the rows: it brings them up to the marks, so that
//     Redis may be lost again.

// errWitnessAway: the row names a witness that does not answer, or not to this process.
var errWitnessAway = errors.New("waiting for Redis, which would vouch for what is issued, or for the database " +
	"to do without it")

// errNoWitness is why it does not answer to a process without Redis.
var errNoWitness = errors.New("this process has no Redis, and others have")

// errMarkMoved: the witness has seen higher numbers of the counter than a moment ago.
var errMarkMoved = errors.New("the mark has risen meanwhile")

// errWaitingForHolder: another replica may let the witness vouch; it is waited for.
var errWaitingForHolder = errors.New("waiting for a replica that can let Redis vouch")

const (
	// witnessTimeout bounds one call of the witness.
	witnessTimeout = 300 * time.Millisecond
	// awayFor is how long it does not answer before this process counts as one without a witness.
	awayFor = 2 * time.Second
	// witnessPatience is how long a change of the server waits for a witness that does not answer before it is noted
	// without.
	witnessPatience = 10 * time.Second
	// holderPatience is the same for a replica that holds the witness: each sends a heartbeat every second.
	holderPatience = 4 * time.Second
	// settleFor bounds the part of a settling that one heartbeat does.
	settleFor = time.Second
)

// Witness remembers, in another store, how far counters have come, so that it can vouch
// for them when the database went back in time. A life names a time in which the other
// store has forgotten nothing; calls that name one fail with model.ErrLifeChanged in
// another. Safe for concurrent use.
type Witness interface {
	// Place names the store as this process reaches it.
	Place() string
	// Life is the present life; the error is also that of a store that takes no writes.
	Life(ctx context.Context) (string, error)
	// Confirm is Life through a new connection, of the store that the majority takes for
	// the present one where there is a majority to ask.
	Confirm(ctx context.Context) (string, error)
	// Raise raises marks and gives what they were before, 0 for none. A mark of 0 is only read; life may be "" for
	// marks that are all read, and then names the present one.
	Raise(ctx context.Context, life string, marks []model.Mark) ([]int64, error)
	// Scan gives some marks; each that exists all the time comes at least once until next
	// is 0.
	Scan(ctx context.Context, life string, from uint64) (marks []model.Mark, next uint64, err error)
}

// hold is the right of this process to let a witness vouch.
type hold struct {
	witness string
	since   time.Time // when the server was noted on which that was said
	at      time.Time // when the database heard of it last
	began   time.Time // when this process began to hold it
}

// lasts says whether the hold has not run out: a clock that stands still while a machine
// sleeps, and one that is set, count both.
func (h hold) lasts(now time.Time) bool {
	return h.witness != "" && max(now.Sub(h.at), now.Round(0).Sub(h.at.Round(0))) <= model.HoldLasts
}

// Vouching is how the last heartbeat found the witness.
type Vouching struct {
	Known bool      // there was a heartbeat
	Named bool      // the database names a witness
	Since time.Time // when this process began to hold it; zero while it does not
}

// Vouching says who vouches for the database. It asks no store, and is nil for SQLite, which
// needs nobody to.
func (s *Store) Vouching() *Vouching {
	if s.server == nil {
		return nil
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	v := s.seen.vouching
	if h := s.seen.hold; h.lasts(s.opts.Now()) {
		v.Since = h.began
	}
	return &v
}

// mayVouch says whether this process may let the witness vouch for the copy whose row it has
// read: that names the server on which this process has said that it holds the witness, and
// this process knows of no later one.
func (s *Store) mayVouch(m moment) bool {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	h := s.seen.hold
	return h.lasts(s.opts.Now()) && h.witness == m.Witness &&
		h.since.Equal(m.times().Since) && h.since.Equal(s.seen.times.Since)
}

// member is what this process has said of itself, and what it knows to say it. Only Beat
// uses it.
type member struct {
	mu      sync.Mutex
	uses    string    // the life that answered last; "" once it has not for a while
	usedAt  time.Time // when it did
	written model.Member
	at      time.Time // when that was
	scan    settling
}

// lifeInUse is the life that this process uses, "" without one. Callers hold member.mu.
func (s *Store) lifeInUse(ctx context.Context) string {
	if s.opts.Witness == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	now := s.opts.Now()
	life, err := s.opts.Witness.Life(ctx) // its own condition reports what fails
	if err == nil {
		s.member.uses, s.member.usedAt = life, now
	} else if now.Sub(s.member.usedAt) >= awayFor {
		s.member.uses = ""
	}
	s.reached.Store(err == nil)
	return s.member.uses
}

// Beat writes a heartbeat: a copy of the database that is found later is at least that new.
// It notes a change of the server, and does what this replica has to do about the witness
// (model.Judge). A replica that serves calls it every second or so: most calls are one statement, which writes
// nothing. Errors: *model.StoreError.
func (s *Store) Beat(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	s.serves.Store(true)
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	uses := s.lifeInUse(ctx)
	m, d, said := s.lookAround(ctx, uses)
	var err error
	if !said {
		m, d, err = s.writeMembership(ctx, uses)
	}
	if err == nil && (d.needsWrite(m) || m.Witness != "" && !d.Hold && s.reachesPlaceOf(m)) {
		if err = s.writeDecision(ctx, m, uses); err == nil && uses != "" && !d.Hold {
			m, d, err = s.writeMembership(ctx, uses) // who has named a witness holds it at once
		}
	}
	if err == nil && d.Hold {
		err = s.settle(ctx, m)
	}
	return s.fail(ctx, "heartbeat", err)
}

// lookAround says what this replica is to do, and whether its row has said all that it has to say. It locks and writes
// nothing. What fails is tried again in a transaction, which also notes a change of the server.
func (s *Store) lookAround(ctx context.Context, uses string) (m moment, d duty, said bool) {
	if s.membershipDue() {
		return m, d, false
	}
	m, err := s.moment(s.gorm.WithContext(ctx), toCount, toSeeOthers)
	if err != nil {
		return m, d, false
	}
	d = s.decide(m, uses, false)
	_, due := s.membership(m, d, uses)
	return m, d, !due
}

// membershipDue says whether the row of this replica is to be written, whatever it says.
func (s *Store) membershipDue() bool {
	return s.opts.Now().Sub(s.member.at) >= model.MemberEvery-time.Second/2
}

// membership is what the row of this replica is to say, and whether that is due. What it gives up it forgets at once.
func (s *Store) membership(m moment, d duty, uses string) (me model.Member, due bool) {
	me = model.Member{ID: s.id, Uses: uses}
	if d.Hold {
		me.Holds = m.Witness
	}
	holds := s.giveUpHold(me.Holds, m.times().Since)
	s.seen.mu.Lock()
	s.seen.vouching = Vouching{Known: true, Named: m.Witness != ""}
	s.seen.mu.Unlock()
	return me, me != s.member.written || holds != d.Hold || s.membershipDue()
}

// writeMembership writes what this replica uses and holds. What it holds it knows only once that is stored.
func (s *Store) writeMembership(ctx context.Context, uses string) (m moment, d duty, err error) {
	now := s.opts.Now()
	var me model.Member
	due := false
	err = s.inTx(ctx, "heartbeat", func(tx *gorm.DB) error {
		if m, err = s.moment(tx, toShare, toCount, toSeeOthers); err != nil {
			return err
		}
		d = s.decide(m, uses, false)
		if me, due = s.membership(m, d, uses); !due {
			return nil
		}
		return write(tx, "say what this replica uses", "REPLACE INTO "+replicaTable+
			" (id, uses, holds, list_rate, tag_rate, seen_at) VALUES (?, ?, ?, ?, ?, ?)",
			me.ID, me.Uses, me.Holds, s.opts.ListRate, s.opts.TagRate, m.Now)
	})
	if err != nil || !due {
		return m, d, err
	}
	s.member.written, s.member.at = me, now
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if h := &s.seen.hold; d.Hold && h.witness == m.Witness {
		h.at = now
	} else if d.Hold {
		*h = hold{witness: m.Witness, since: m.times().Since, at: now, began: now}
	}
	return m, d, nil
}

// memberRow is a row of shardid_replica: what a replica uses and holds, and the rates that it is configured with.
type memberRow struct {
	Member, Uses, Holds string
	MaxListRate         int64
	MaxTagRate          int64
	SeenAt              int64 // Unix ms
}

const (
	memberColumns = "member, uses, holds, max_list_rate, max_tag_rate, seen_at"
	members       = "(SELECT id AS member, uses, holds, list_rate AS max_list_rate, tag_rate AS max_tag_rate, " +
		"seen_at FROM " +
		replicaTable + ") AS r"
)

// duty is what this replica is to do, and the highest rates that any replica is configured
// with.
type duty struct {
	model.Duty
	listRate, tagRate int64
	forget            bool // there are rows of replicas that are gone since long
}

// decide asks model.Judge, with what the others say of themselves.
func (s *Store) decide(m moment, uses string, replaced bool) duty {
	d := duty{listRate: s.opts.ListRate, tagRate: s.opts.TagRate}
	var others []model.Member
	for _, r := range m.members {
		if r.Member == s.id || r.Member == "" { // the latter: there is none
			continue
		}
		quiet := time.Duration(m.Now-r.SeenAt) * time.Millisecond
		others = append(others, model.Member{ID: r.Member, Uses: r.Uses, Holds: r.Holds, Quiet: quiet})
		if quiet <= model.HoldLasts {
			d.listRate, d.tagRate = max(d.listRate, r.MaxListRate), max(d.tagRate, r.MaxTagRate)
		}
		d.forget = d.forget || quiet > 4*model.HoldLasts
	}
	d.Duty = model.Judge(m.Witness, model.Member{ID: s.id, Uses: uses}, others, replaced)
	return d
}

// needsWrite says whether the row of the deployment has to change: a heartbeat is due, or the
// witness or a rate is not what it should be.
func (d duty) needsWrite(m moment) bool {
	return m.heartbeatDue() || d.Name || d.Retire || m.ListRate != d.listRate || m.TagRate != d.tagRate
}

func (m moment) heartbeatDue() bool {
	return m.Now-m.BeatAt >= (model.BeatEvery - time.Second).Milliseconds()
}

// reachesPlaceOf says whether this process reaches its Redis where the witness is.
func (s *Store) reachesPlaceOf(m moment) bool {
	return s.opts.Witness != nil && m.WitnessPlace == s.opts.Witness.Place()
}

// giveUpHold forgets what this process held, but for one witness on the server that was noted
// then: what it holds must be said anew on each. It says whether that is held.
func (s *Store) giveUpHold(but string, since time.Time) bool {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.hold.witness != but || !s.seen.hold.since.Equal(since) {
		s.seen.hold = hold{}
	}
	return s.seen.hold.witness != ""
}

// writeDecision writes the heartbeat and the witness into the row of the deployment. A place that
// has another life than the witness is one where nobody can ask for it any more. While others use the row it leaves
// that for the next heartbeat, but for too old ones: all who came after it would wait with it for an allocation that
// waits for a row that somebody has locked.
func (s *Store) writeDecision(ctx context.Context, known moment, uses string) error {
	replaced := false
	if known.Witness != "" && model.WitnessLife(known.Witness) != uses && s.reachesPlaceOf(known) {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		life, err := s.opts.Witness.Confirm(asking)
		cancel()
		replaced = err == nil && life != model.WitnessLife(known.Witness)
	}
	needs := []need{toOwnNow, toCount}
	if known.Now-known.BeatAt > (3 * model.BeatEvery).Milliseconds() {
		needs[0] = toOwn
	}
	err := s.inMoment(ctx, "note the witness", needs, func(tx *gorm.DB, m *moment) (err error) {
		// Under the lock: a replica may have said meanwhile that it holds the witness.
		m.members, err = query[[]memberRow](tx, "read what the other replicas use",
			"SELECT "+memberColumns+" FROM "+members)
		if err != nil {
			return err
		}
		d := s.decide(*m, uses, replaced && m.Witness == known.Witness)
		if d.Retire {
			m.Witness, m.WitnessPlace = "", ""
		}
		if d.Name {
			m.Witness, m.WitnessPlace = uses+" "+rand.Text()[:16], s.opts.Witness.Place()
		}
		if m.ListRate < d.listRate || m.TagRate < d.tagRate {
			m.RatesFrom = m.Now + model.RaiseDelay.Milliseconds()
		}
		beats := m.heartbeatDue()
		if beats {
			m.BeatAt, m.ServerLife = m.Now, m.server.Life
		}
		err = write(tx, "write the decision", "UPDATE "+deploymentTable+" SET witness = ?, witness_place = ?, "+
			"beat_at = ?, server_life = ?, rates_from = ?, list_rate = ?, tag_rate = ?",
			m.Witness, m.WitnessPlace, m.BeatAt, m.ServerLife, m.RatesFrom, d.listRate, d.tagRate)
		if err == nil && beats {
			err = forgetFences(tx, m)
		}
		if err == nil && beats && d.forget {
			err = write(tx, "forget replicas that are gone", "DELETE FROM "+replicaTable+" WHERE seen_at < ?",
				m.Now-4*model.HoldLasts.Milliseconds())
		}
		return err
	})
	if needs[0] == toOwnNow && isLocked(err) {
		return nil
	}
	return err
}

// leaveDeployment gives up what this process holds, so that nobody waits for it.
func (s *Store) leaveDeployment() {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	if s.member.at.IsZero() {
		return
	}
	s.giveUpHold("", time.Time{})
	s.member.at = time.Time{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = s.pool.ExecContext(ctx, "DELETE FROM "+replicaTable+" WHERE id = ?", s.id) // others wait a little longer
}

// readMarks asks the witness that the row names how far counters have come that account for the changes up to oldest;
// those after it are read. Where no witness is named, marks that are there all the same count too: they vouch for
// nothing, but what they say was issued. The moment must be locked.
func (s *Store) readMarks(tx *gorm.DB, m *moment, counters []string, oldest int64) ([]int64, error) {
	marks, err := make([]int64, len(counters)), errNoWitness
	if s.opts.Witness != nil && (m.Witness != "" || s.reached.Load()) {
		asking, cancel := context.WithTimeout(tx.Statement.Context, witnessTimeout)
		defer cancel()
		read := make([]model.Mark, len(counters))
		for i, counter := range counters {
			read[i].Counter = counter
		}
		var found []int64
		if found, err = s.opts.Witness.Raise(asking, model.WitnessLife(m.Witness), read); err == nil {
			marks = found
		}
	}
	if err != nil && m.Witness != "" && !m.settled {
		return nil, fmt.Errorf("%w: %w", errWitnessAway, err)
	}
	return marks, m.readChanges(tx, oldest)
}

// raiseMarks raises marks at the witness that the row names. It must come before the
// transaction is committed, and so before its numbers are used. known, if it is not nil, are
// the marks that were read: higher ones refuse.
func (s *Store) raiseMarks(ctx context.Context, m *moment, marks []model.Mark, known []int64) error {
	if m.Witness == "" || m.settled || len(marks) == 0 {
		return nil
	}
	if s.opts.Witness == nil {
		return fmt.Errorf("%w: %w", errWitnessAway, errNoWitness)
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	before, err := s.opts.Witness.Raise(ctx, model.WitnessLife(m.Witness), marks)
	if err != nil {
		return fmt.Errorf("%w: %w", errWitnessAway, err)
	}
	for i := range known {
		if before[i] > known[i] {
			return errMarkMoved
		}
	}
	return nil
}

// changeRow is a row of shardid_change: a change of the server, as it was noted. Times are
// Unix ms, Slack ms.
type changeRow struct {
	Number            int64
	NotedAt, KnownAt  int64
	Slack             int64
	ReachAt           int64 // 0: none
	Again             bool
	ListRate, TagRate int64
	Witness           string
}

func (r changeRow) change() model.Change {
	return model.Change{
		Number: r.Number, ListRate: r.ListRate, TagRate: r.TagRate, Witness: r.Witness,
		Gap: model.Gap{
			Known: time.UnixMilli(r.KnownAt), Now: time.UnixMilli(r.NotedAt),
			Slack: time.Duration(r.Slack) * time.Millisecond,
			Reach: atMilli(r.ReachAt), Again: r.Again,
		},
	}
}

// noteServer writes down that another life of the database answers, how much it may
// lack, and who knows what that is. Only then is anything issued again. It happens in one
// transaction, once, however many processes try, and touches no counter: each accounts
// for it when it is used (counterRow.counter).
func (s *Store) noteServer(ctx context.Context) error {
	var noted moment
	var next model.ServerTimes
	vouched := false
	_, err := s.tryTx(ctx, func(tx *gorm.DB) error {
		m, err := s.readMoment(tx, exclusive)
		if err != nil {
			return err
		}
		changed, lacks, err := s.changed(tx, m)
		if err != nil || !changed {
			return err
		}
		if isOn(m.Frozen) {
			return errReadOnly
		}
		noted = m
		if m.Server == "" { // the first server ever
			m.ListRate, m.TagRate = s.opts.ListRate, s.opts.TagRate
			return storeServer(tx, m, model.ServerTimes{Since: m.now, Beat: m.now})
		}
		if m.apart != nil {
			return m.apart
		}
		if vouched, err = s.witnessKnows(ctx, m, lacks); err != nil {
			return err
		}
		s.seen.mu.Lock()
		var gap model.Gap
		next, gap = m.times().Note(s.seen.times, m.now, m.recorded().Again(m.server), lacks)
		s.seen.mu.Unlock()
		if err := s.storeChange(tx, &m, gap, vouched); err != nil {
			return err
		}
		return storeServer(tx, m, next)
	})
	if err != nil {
		return fmt.Errorf("note the database server: %w", err)
	}
	if !next.Since.IsZero() { // others may note it too before this process reads what it wrote
		s.seen.mu.Lock()
		s.seen.times, s.seen.changes = next, noted.Changes+1
		s.seen.mu.Unlock()
	}
	if s.opts.OnServerChange != nil && noted.Server != "" {
		s.opts.OnServerChange(noted.now.Sub(time.UnixMilli(noted.BeatAt)), vouched)
	}
	return nil
}

// witnessKnows says whether the witness that the row names knows what the copy lacks: this
// process must hold it, and the Redis at its place must still have that life. For who can
// vouch, and for a Redis that does not answer, it waits by errors. But where another process
// has noted the server already, which does not know the change that the database lacks, that one
// takes numbers soon: then nobody vouches, at once.
func (s *Store) witnessKnows(ctx context.Context, m moment, lacks bool) (bool, error) {
	if m.Witness == "" || lacks && m.recorded().Is(m.server) {
		return false, nil
	}
	patience, err := holderPatience, errWaitingForHolder
	if s.mayVouch(m) {
		var life string
		if life, err = s.opts.Witness.Confirm(ctx); err == nil {
			return life == model.WitnessLife(m.Witness), nil
		}
		patience = witnessPatience
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.changedAt.IsZero() {
		s.seen.changedAt = s.opts.Now()
	}
	if s.opts.Now().Sub(s.seen.changedAt) < patience {
		return false, fmt.Errorf("%w: waiting up to %v for Redis, which knows what was issued: %w",
			errServerChanged, patience, err)
	}
	return false, nil
}

// storeServer makes the row that of the server that holds it.
func storeServer(tx *gorm.DB, m moment, t model.ServerTimes) error {
	return write(tx, "note the server", "UPDATE "+deploymentTable+" SET server = ?, booted_at = ?, server_life = ?, "+
		"since = ?, beat_at = ?, oldest_copy = ?, jump_from = ?, list_rate = ?, tag_rate = ?, changes = ?, witness = ?",
		m.server.ID, max(0, m.server.BootedAt.Unix()), m.server.Life, t.Since.UnixMilli(), t.Beat.UnixMilli(),
		max(0, t.Oldest.UnixMilli()), max(0, t.JumpFrom.UnixMilli()),
		m.ListRate, m.TagRate, m.Changes, m.Witness)
}

// storeChange adds the change, which the row is to count. Without a witness that vouches nobody is the witness any
// more. The rates are the highest that any process may have used, as far as is known.
func (s *Store) storeChange(tx *gorm.DB, m *moment, gap model.Gap, vouched bool) error {
	m.Changes++
	if !vouched {
		m.Witness = ""
		s.giveUpHold("", time.Time{})
	}
	s.seen.mu.Lock()
	list, tag := max(m.ListRate, s.seen.rates.list, s.opts.ListRate), max(m.TagRate, s.seen.rates.tag, s.opts.TagRate)
	s.seen.mu.Unlock()
	return write(tx, "note a change of the server", "INSERT INTO "+changeTable+
		" (number, noted_at, known_at, slack, reach_at, again, list_rate, tag_rate, witness) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		m.Changes, gap.Now.UnixMilli(), gap.Known.UnixMilli(), gap.Slack.Milliseconds(),
		max(0, gap.Reach.UnixMilli()), gap.Again, list, tag, m.Witness)
}

// readChanges makes the moment know the changes after one that a row accounts for.
func (m *moment) readChanges(tx *gorm.DB, after int64) error {
	if m.Changes <= after || len(m.changes) > 0 && m.changes[0].Number <= after+1 {
		return nil
	}
	var err error
	m.changes, err = query[[]changeRow](tx, "read the changes of the server",
		"SELECT number, noted_at, known_at, slack, reach_at, again, list_rate, tag_rate, witness FROM "+changeTable+
			" WHERE number > ? AND settled = 0 ORDER BY number", after)
	return err
}

// settling is how far it has come.
type settling struct {
	witness string
	changes int64  // it settles the changes up to this one; all up to done are settled
	done    int64  // by this witness
	next    uint64 // where the marks are read on
}

// settle brings the rows up to the marks of the witness, in parts, after a change of the
// server that it vouched for. From then on Redis may be lost. Callers hold member.mu.
func (s *Store) settle(ctx context.Context, m moment) error {
	at := &s.member.scan
	if at.witness != m.Witness || at.changes != m.Changes {
		*at = settling{witness: m.Witness, changes: m.Changes}
	}
	if at.done == at.changes || m.now.Sub(m.times().Since) < model.ObjectFor {
		return nil
	}
	for began := s.opts.Now(); ; {
		asking, cancel := context.WithTimeout(ctx, witnessTimeout)
		marks, next, err := s.opts.Witness.Scan(asking, model.WitnessLife(m.Witness), at.next)
		cancel()
		if err == nil {
			err = s.settleRows(ctx, marks)
		}
		if err != nil {
			return err
		}
		if at.next = next; next == 0 {
			break
		}
		if s.opts.Now().Sub(began) > settleFor {
			return nil // the next heartbeat continues
		}
	}
	err := s.inMoment(ctx, "note that the rows are settled", nil, func(tx *gorm.DB, now *moment) error {
		if now.Witness != m.Witness { // rows may have been raised by the marks of another one, or of none
			return errWitnessAway
		}
		return write(tx, "note that the rows are settled",
			"UPDATE "+changeTable+" SET settled = 1 WHERE witness = ? AND number <= ? AND settled = 0", m.Witness,
			at.changes)
	})
	if err == nil {
		at.done = at.changes
	}
	return err
}

// settleRows raises the rows of counters that are below their marks. One that is not there
// gets a tombstone: should it be made again, it continues above its mark.
func (s *Store) settleRows(ctx context.Context, marks []model.Mark) error {
	var lists []model.AllocRequest
	var sections []model.SectionKey
	tags, spaces := map[string]int64{}, map[string]int64{}
	for _, mark := range marks {
		kind, name, _ := strings.Cut(mark.Counter, ":")
		switch kind {
		case "l":
			var app, shard int64
			if _, err := fmt.Sscanf(name, "%d_%d", &app, &shard); err != nil {
				continue
			}
			if key, err := model.NewListKey(app, shard); err == nil {
				lists = append(lists, model.AllocRequest{Key: key, Floor: mark.Value})
			}
		case "t":
			tags[name] = mark.Value
		case sectionMark:
			if key, ok := parseSection(name); ok {
				sections = append(sections, key)
			}
		case spaceMark:
			spaces[name] = mark.Value
		case nodeCounter:
			if err := s.settleStarts(ctx); err != nil {
				return err
			}
		}
	}
	return cmp.Or(s.settleLists(ctx, lists), s.settleTags(ctx, tags), s.settleSections(ctx, sections),
		s.settleSpaces(ctx, spaces))
}

func (s *Store) settleStarts(ctx context.Context) error {
	return s.inMoment(ctx, "raise the starts", []need{toOwn}, func(tx *gorm.DB, m *moment) error {
		row, err := s.countStarts(tx, m)
		if err != nil {
			return err
		}
		row.further = func(next model.Counter) []any { return []any{m.NodeLost + next.Last - row.last} }
		_, err = s.raise(tx, m, startStorage(), []countedRow{row}, false)
		return err
	})
}

func (s *Store) settleLists(ctx context.Context, lists []model.AllocRequest) error {
	if len(lists) == 0 {
		return nil
	}
	return s.inMoment(ctx, "raise the lists", []need{toShare}, func(tx *gorm.DB, m *moment) error {
		_, gone, err := s.raiseLists(tx, m, lists, false)
		if err != nil {
			return err
		}
		return s.buryLists(tx, gone)
	})
}

// settleTags looks first which tags are below: after a change they are few.
func (s *Store) settleTags(ctx context.Context, tags map[string]int64) error {
	if len(tags) == 0 {
		return nil
	}
	names := slices.Collect(maps.Keys(tags))
	rows, err := query[[]tagRow](s.gorm.WithContext(ctx), "read the tags that are marked",
		"SELECT biz_tag, max_id FROM "+tagTable+" WHERE biz_tag IN ?", names)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.MaxID > tags[row.BizTag] {
			delete(tags, row.BizTag)
		}
	}
	for name, mark := range tags {
		err := s.inMoment(ctx, "raise a tag", []need{toShare}, func(tx *gorm.DB, m *moment) error {
			row, err := s.lockTag(tx, name)
			if errors.Is(err, model.ErrUnknownTag) {
				return s.buryTag(tx, name, mark+1)
			}
			if err == nil {
				_, err = s.raise(tx, m, tagStorage(), []countedRow{row.counted(m)}, false)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settleSections does so for sections. Which server gave what the database lacks is not known.
func (s *Store) settleSections(ctx context.Context, keys []model.SectionKey) error {
	for part := range slices.Chunk(keys, 64) {
		err := s.inMoment(ctx, "settle sections", []need{toShare}, func(tx *gorm.DB, m *moment) error {
			found, err := s.lockSections(tx, part)
			if err == nil {
				_, err = s.raiseSections(tx, m, slices.Collect(maps.Values(found)), false)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settleSpaces leaves tombstones for spaces of which there are marks and no rows.
func (s *Store) settleSpaces(ctx context.Context, marks map[string]int64) error {
	for name, mark := range marks {
		err := s.inTx(ctx, "settle a space", func(tx *gorm.DB) error {
			m, _, err := s.lockSpace(tx, name)
			if errors.Is(err, model.ErrUnknownSpace) {
				return s.burySpace(tx, name, mark, m.Now)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
