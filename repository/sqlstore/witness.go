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
	"shardid/model/witness"
)

// Who vouches for the counters of a database that may go back in time: the protocol of docs/design.md, whose
// model is scripts/prove/witness.pml. The row of the deployment names a witness, a life of Redis that has a mark of
// each number that was taken since, or nobody. What is decided is told in model/witness (Judge, Seen); here it is read
// and written. This file tells it from top to bottom:
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
var errNoWitness = errors.New("this process has none, and others have")

// errMarkMoved: the witness has seen higher numbers of the counter than a moment ago.
var errMarkMoved = errors.New("the mark has risen meanwhile")

// errWaitingForHolder: another replica may let the witness vouch; it is waited for.
var errWaitingForHolder = errors.New("waiting for a replica that can let Redis vouch")

const (
	// witnessTimeout bounds one call of the witness.
	witnessTimeout = 300 * time.Millisecond
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
	Raise(ctx context.Context, life string, marks []witness.Mark) ([]int64, error)
	// Scan gives some marks; each that exists all the time comes at least once until next
	// is 0.
	Scan(ctx context.Context, life string, from uint64) (marks []witness.Mark, next uint64, err error)
}

// Vouching says who vouches for the database. It asks no store, and is nil for SQLite, which
// needs nobody to.
func (s *Store) Vouching() *witness.Vouching {
	if s.server == nil {
		return nil
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	v := witness.Vouching{State: cmp.Or(s.seen.witness, witness.Unknown)}
	if h := s.seen.Hold; h.Lasts(s.opts.Now()) {
		v.HeldSince = h.Began.UTC()
	}
	return &v
}

// member is what this process has said of itself, and what it knows to say it. Only Beat
// uses it.
type member struct {
	mu      sync.Mutex
	uses    witness.Using
	written witness.Member
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
	s.member.uses.Hear(life, err == nil, now)
	s.reached.Store(err == nil)
	return s.member.uses.Life
}

// Beat writes a heartbeat: a copy of the database that is found later is at least that new.
// It notes a change of the server, and does what this replica has to do about the witness
// (witness.Judge). A replica that serves calls it every second or so: most calls are one statement, which writes
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
	if err == nil && (m.needsWrite(d) || m.Witness != "" && !d.Hold && s.reachesPlaceOf(m)) {
		if err = s.writeDecision(ctx, m, uses, d.Retire); err == nil && uses != "" && !d.Hold {
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
func (s *Store) lookAround(ctx context.Context, uses string) (m moment, d witness.Duty, said bool) {
	if s.membershipDue() {
		return m, d, false
	}
	m, err := s.moment(s.gorm.WithContext(ctx), toCount, toSeeOthers)
	if err != nil {
		return m, d, false
	}
	d = m.judge(s.asMember(uses), "")
	_, due := s.membership(m, d, uses)
	return m, d, !due
}

// membershipDue says whether the row of this replica is to be written, whatever it says.
func (s *Store) membershipDue() bool {
	return s.opts.Now().Sub(s.member.at) >= witness.MemberEvery-time.Second/2
}

// asMember is this replica, as far as its row does not depend on what the others say.
func (s *Store) asMember(uses string) witness.Member {
	rates := witness.Rates{ListRate: s.opts.ListRate, TagRate: s.opts.TagRate}
	return witness.Member{ID: s.id, Uses: uses, Rates: rates}
}

// membership is what the row of this replica is to say, and whether that is due. What it gives up it forgets at once.
func (s *Store) membership(m moment, d witness.Duty, uses string) (me witness.Member, due bool) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.witness = witness.Named; m.Witness == "" {
		s.seen.witness = witness.None
	}
	me, known := s.seen.Say(s.asMember(uses), m.found(), d)
	return me, me != s.member.written || !known || s.membershipDue()
}

// writeMembership writes what this replica uses and holds. What it holds it knows only once that is stored.
func (s *Store) writeMembership(ctx context.Context, uses string) (m moment, d witness.Duty, err error) {
	now := s.opts.Now()
	var me witness.Member
	due := false
	err = s.inTx(ctx, "heartbeat", func(tx *gorm.DB) error {
		if m, err = s.moment(tx, toShare, toCount, toSeeOthers); err != nil {
			return err
		}
		d = m.judge(s.asMember(uses), "")
		if me, due = s.membership(m, d, uses); !due {
			return nil
		}
		return write(tx, "say what this replica uses", "REPLACE INTO "+replicaTable+
			" (id, uses, holds, list_rate, tag_rate, seen_at) VALUES (?, ?, ?, ?, ?, ?)",
			me.ID, me.Uses, me.Holds, me.ListRate, me.TagRate, m.Now)
	})
	if err != nil || !due {
		return m, d, err
	}
	s.member.written, s.member.at = me, now
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	s.seen.Said(m.found(), d, now)
	return m, d, nil
}

// memberRow is a row of shardid_replica: what a replica uses and holds, and the rates that it is configured with.
type memberRow struct {
	Peer, Uses, Holds string
	MaxListRate       int64
	MaxTagRate        int64
	SeenAt            int64 // Unix ms
}

const (
	memberColumns = "peer, uses, holds, max_list_rate, max_tag_rate, seen_at"
	members       = "(SELECT id AS peer, uses, holds, list_rate AS max_list_rate, tag_rate AS max_tag_rate, " +
		"seen_at FROM " +
		replicaTable + ") AS r"
)

// judge asks witness.Judge, with what the others say of themselves.
func (m moment) judge(me witness.Member, replaced string) witness.Duty {
	var all []witness.Member
	for _, r := range m.members {
		if r.Peer != "" { // else there is none
			all = append(all, witness.Member{ID: r.Peer, Uses: r.Uses, Holds: r.Holds, Seen: time.UnixMilli(r.SeenAt),
				Rates: witness.Rates{ListRate: r.MaxListRate, TagRate: r.MaxTagRate}})
		}
	}
	return witness.Judge(m.Witness, me, all, replaced, m.now)
}

// needsWrite says whether the row of the deployment has to change: a heartbeat is due, or the
// witness or a rate is not what it should be.
func (m moment) needsWrite(d witness.Duty) bool {
	return m.heartbeatDue() || d.Name || d.Retire || m.rates() != d.Rates
}

func (m moment) heartbeatDue() bool {
	return m.Now-m.BeatAt >= (model.BeatEvery - time.Second).Milliseconds()
}

// reachesPlaceOf says whether this process reaches its Redis where the witness is.
func (s *Store) reachesPlaceOf(m moment) bool {
	return s.opts.Witness != nil && m.WitnessPlace == s.opts.Witness.Place()
}

// writeDecision writes the heartbeat and the witness into the row of the deployment. A place that
// has another life than the witness is one where nobody can ask for it any more. While others use the row it leaves
// that for the next heartbeat, unless it retires a witness or the last one is old: all who came after it would wait
// with it for an allocation that waits for a row that somebody has locked. A cluster takes two periods for a restore.
func (s *Store) writeDecision(ctx context.Context, known moment, uses string, retires bool) error {
	replaced := ""
	if known.Witness != "" && witness.Life(known.Witness) != uses && s.reachesPlaceOf(known) {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		life, err := s.opts.Witness.Confirm(asking)
		cancel()
		if err == nil && life != witness.Life(known.Witness) {
			replaced = known.Witness
		}
	}
	needs := []need{toOwnNow, toCount}
	if retires || replaced != "" || known.Now-known.BeatAt > (3*model.BeatEvery/2).Milliseconds() {
		needs[0] = toOwn
	}
	err := s.inMoment(ctx, "note the witness", needs, func(tx *gorm.DB, m *moment) (err error) {
		// Under the lock: a replica may have said meanwhile that it holds the witness.
		m.members, err = query[[]memberRow](tx, "read what the other replicas use",
			"SELECT "+memberColumns+" FROM "+members)
		if err != nil {
			return err
		}
		d := m.judge(s.asMember(uses), replaced)
		if d.Retire {
			m.Witness, m.WitnessPlace = "", ""
		}
		if d.Name {
			m.Witness, m.WitnessPlace = uses+" "+rand.Text()[:16], s.opts.Witness.Place()
		}
		if m.rates() != m.rates().Max(d.Rates) {
			m.RatesFrom = m.Now + model.RaiseDelay.Milliseconds()
		}
		beats := m.heartbeatDue()
		if beats {
			m.BeatAt, m.ServerLife = m.Now, m.server.Life
		}
		err = write(tx, "write the decision", "UPDATE "+deploymentTable+" SET witness = ?, witness_place = ?, "+
			"beat_at = ?, server_life = ?, rates_from = ?, list_rate = ?, tag_rate = ?",
			m.Witness, m.WitnessPlace, m.BeatAt, m.ServerLife, m.RatesFrom, d.ListRate, d.TagRate)
		if err == nil && beats {
			err = forgetFences(tx, m)
		}
		if err == nil && beats && d.Forget {
			err = write(tx, "forget replicas that are gone", "DELETE FROM "+replicaTable+" WHERE seen_at < ?",
				m.Now-witness.MemberForgotten.Milliseconds())
		}
		return err
	})
	if needs[0] == toOwnNow && isLocked(err) {
		return nil
	}
	return err
}

// giveUpHold forgets what this process held.
func (s *Store) giveUpHold() {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	s.seen.Hold = witness.Hold{}
}

// leaveDeployment gives up what this process holds, so that nobody waits for it.
func (s *Store) leaveDeployment() {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	if s.member.at.IsZero() {
		return
	}
	s.giveUpHold()
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
		read := make([]witness.Mark, len(counters))
		for i, counter := range counters {
			read[i].Counter = counter
		}
		var found []int64
		if found, err = s.opts.Witness.Raise(asking, witness.Life(m.Witness), read); err == nil {
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
func (s *Store) raiseMarks(ctx context.Context, m *moment, marks []witness.Mark, known []int64) error {
	if m.Witness == "" || m.settled || len(marks) == 0 {
		return nil
	}
	if s.opts.Witness == nil {
		return fmt.Errorf("%w: %w", errWitnessAway, errNoWitness)
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	before, err := s.opts.Witness.Raise(ctx, witness.Life(m.Witness), marks)
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

func (r changeRow) change() witness.Change {
	return witness.Change{
		Number: r.Number, Rates: witness.Rates{ListRate: r.ListRate, TagRate: r.TagRate}, Witness: r.Witness,
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
// for it when it is used (countedRow.counter).
func (s *Store) noteServer(ctx context.Context) error {
	var noted moment
	var next model.ServerTimes
	var change witness.Change
	_, err := s.tryTx(ctx, func(tx *gorm.DB) error {
		m, err := s.readMoment(tx, exclusive)
		if err != nil {
			return err
		}
		changed, found, err := s.changed(tx, m)
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
		vouched, err := s.witnessKnows(ctx, found)
		if err != nil {
			return err
		}
		s.seen.mu.Lock()
		next, change = s.seen.Note(found, m.now, m.recorded().Again(m.server), vouched)
		s.seen.mu.Unlock()
		m.Changes, m.Witness = change.Number, change.Witness
		if err := storeChange(tx, change); err != nil {
			return err
		}
		return storeServer(tx, m, next)
	})
	if err != nil {
		return fmt.Errorf("note the database server: %w", err)
	}
	if !next.Since.IsZero() { // others may note it too before this process reads what it wrote
		s.seen.mu.Lock()
		s.seen.Meet(witness.Database{ServerTimes: next, Changes: change.Number, Witness: change.Witness})
		s.seen.mu.Unlock()
	}
	if s.opts.OnServerChange != nil && noted.Server != "" {
		s.opts.OnServerChange(noted.now.Sub(time.UnixMilli(noted.BeatAt)), change.Witness != "")
	}
	return nil
}

// witnessKnows says whether the witness that the row names knows what the copy lacks (witness.Seen.Vouches). What it
// waits for is an error.
func (s *Store) witnessKnows(ctx context.Context, d witness.Database) (bool, error) {
	s.seen.mu.Lock()
	holds := s.seen.MayVouch(d, s.opts.Now())
	s.seen.mu.Unlock()
	life, err := "", errWaitingForHolder
	if holds {
		life, err = s.opts.Witness.Confirm(ctx)
	}
	if err != nil {
		life = ""
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	vouched, wait := s.seen.Vouches(d, holds, life, s.opts.Now())
	if wait > 0 {
		return false, fmt.Errorf("%w: waiting up to %v for Redis, which knows what was issued: %w", errServerChanged,
			wait, err)
	}
	return vouched, nil
}

// storeServer makes the row that of the server that holds it.
func storeServer(tx *gorm.DB, m moment, t model.ServerTimes) error {
	return write(tx, "note the server", "UPDATE "+deploymentTable+" SET server = ?, booted_at = ?, server_life = ?, "+
		"since = ?, beat_at = ?, oldest_copy = ?, jump_from = ?, list_rate = ?, tag_rate = ?, changes = ?, witness = ?",
		m.server.ID, max(0, m.server.BootedAt.Unix()), m.server.Life, t.Since.UnixMilli(), t.Beat.UnixMilli(),
		max(0, t.Oldest.UnixMilli()), max(0, t.JumpFrom.UnixMilli()),
		m.ListRate, m.TagRate, m.Changes, m.Witness)
}

// storeChange adds the change, which the row is to count.
func storeChange(tx *gorm.DB, c witness.Change) error {
	return write(tx, "note a change of the server", "INSERT INTO "+changeTable+
		" (number, noted_at, known_at, slack, reach_at, again, list_rate, tag_rate, witness) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		c.Number, c.Gap.Now.UnixMilli(), c.Gap.Known.UnixMilli(), c.Gap.Slack.Milliseconds(),
		max(0, c.Gap.Reach.UnixMilli()), c.Gap.Again, c.ListRate, c.TagRate, c.Witness)
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
	if at.done == at.changes || m.found().Objecting(m.now) > 0 {
		return nil
	}
	for began := s.opts.Now(); ; {
		asking, cancel := context.WithTimeout(ctx, witnessTimeout)
		marks, next, err := s.opts.Witness.Scan(asking, witness.Life(m.Witness), at.next)
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
		// Rows may have been raised by the marks of another witness, or of none, or on another server.
		if now.Witness != m.Witness || now.Changes != at.changes {
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
func (s *Store) settleRows(ctx context.Context, marks []witness.Mark) error {
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
