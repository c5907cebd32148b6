package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// witnessTimeout bounds one call of the witness, and awayFor is how long it does not answer
// before this process counts as one without a witness.
const (
	witnessTimeout = 300 * time.Millisecond
	awayFor        = 2 * time.Second
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
	// Marks are those of the counters, 0 for none.
	Marks(ctx context.Context, life string, counters []string) ([]int64, error)
	// Raise raises marks and gives what they were before.
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

// holds says whether this process may let the witness vouch for the copy whose row it has
// read: that names the server on which this process has said that it holds the witness, and
// this process knows of no later one.
func (s *Store) holds(m moment) bool {
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
	scan    scan
}

// present is the life that this process uses, "" without one. Callers hold member.mu.
func (s *Store) present(ctx context.Context) string {
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
// (model.Judge). A replica that serves calls it every second or so. Errors:
// *model.StoreError.
func (s *Store) Beat(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	s.serves.Store(true)
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	uses := s.present(ctx)
	m, v, err := s.attend(ctx, uses)
	if err == nil && (v.ruling(m) || m.Witness != "" && !v.Hold && m.place(s)) {
		if err = s.rule(ctx, m, uses); err == nil && uses != "" && !v.Hold {
			m, v, err = s.attend(ctx, uses) // who has named a witness holds it at once
		}
	}
	if err == nil && v.Hold {
		err = s.settleCounters(ctx, m)
	}
	return s.fail(ctx, "heartbeat", err)
}

// attend writes what this replica uses and holds. What it gives up it forgets before, and
// what it holds it knows only once that is stored.
func (s *Store) attend(ctx context.Context, uses string) (m moment, v duty, err error) {
	now, me := s.opts.Now(), model.Member{ID: s.id, Uses: uses}
	due := false
	err = s.inTx(ctx, "heartbeat", func(tx *gorm.DB) error {
		if m, err = s.moment(tx, toShare, toCount); err != nil {
			return err
		}
		if v, err = s.judge(tx, m, uses, false); err != nil {
			return err
		}
		if me.Holds = ""; v.Hold {
			me.Holds = m.Witness
		}
		holds := s.giveUp(me.Holds, m.times().Since)
		if due = me != s.member.written || holds != v.Hold || now.Sub(s.member.at) >= model.MemberEvery-time.Second; !due {
			return nil
		}
		if err := write(tx, "say what this replica uses", "DELETE FROM "+replicaTable+" WHERE id = ?", me.ID); err != nil {
			return err
		}
		return write(tx, "say what this replica uses", "INSERT INTO "+replicaTable+
			" (id, uses, holds, list_rate, tag_rate, seen_at) VALUES (?, ?, ?, ?, ?, ?)", me.ID, me.Uses, me.Holds, s.opts.ListRate, s.opts.TagRate, m.Now)
	})
	if err != nil {
		return m, v, err
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	s.seen.vouching = Vouching{Known: true, Named: m.Witness != ""}
	if !due {
		return m, v, nil
	}
	s.member.written, s.member.at = me, now
	if h := &s.seen.hold; v.Hold && h.witness == m.Witness {
		h.at = now
	} else if v.Hold {
		*h = hold{witness: m.Witness, since: m.times().Since, at: now, began: now}
	}
	return m, v, nil
}

// giveUp forgets what this process held, but for one witness on the server that was noted
// then: what it holds must be said anew on each. It says whether that is held.
func (s *Store) giveUp(but string, since time.Time) bool {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.hold.witness != but || !s.seen.hold.since.Equal(since) {
		s.seen.hold = hold{}
	}
	return s.seen.hold.witness != ""
}

// duty is what this replica is to do, and the highest rates that any replica is configured
// with.
type duty struct {
	model.Duty
	listRate, tagRate int64
}

// judge asks model.Judge, with what the others say of themselves.
func (s *Store) judge(tx *gorm.DB, m moment, uses string, replaced bool) (duty, error) {
	rows, err := query[[]struct {
		ID, Uses, Holds           string
		ListRate, TagRate, SeenAt int64
	}](tx, "read what the other replicas use",
		"SELECT id, uses, holds, list_rate, tag_rate, seen_at FROM "+replicaTable+" WHERE id <> ?", s.id)
	if err != nil {
		return duty{}, err
	}
	d := duty{listRate: s.opts.ListRate, tagRate: s.opts.TagRate}
	others := make([]model.Member, len(rows))
	for i, r := range rows {
		others[i] = model.Member{ID: r.ID, Uses: r.Uses, Holds: r.Holds, Quiet: time.Duration(m.Now-r.SeenAt) * time.Millisecond}
		if others[i].Quiet <= model.HoldLasts {
			d.listRate, d.tagRate = max(d.listRate, r.ListRate), max(d.tagRate, r.TagRate)
		}
	}
	d.Duty = model.Judge(m.Witness, model.Member{ID: s.id, Uses: uses}, others, replaced)
	return d, nil
}

// ruling says whether the row of the deployment has to change: a heartbeat is due, or the
// witness or a rate is not what it should be.
func (d duty) ruling(m moment) bool {
	return m.beatDue() || d.Name || d.Retire || m.ListRate != d.listRate || m.TagRate != d.tagRate
}

func (m moment) beatDue() bool {
	return m.Now-m.BeatAt >= (model.BeatEvery - time.Second).Milliseconds()
}

// place says whether this process reaches its Redis where the witness is.
func (m moment) place(s *Store) bool {
	return s.opts.Witness != nil && m.WitnessPlace == s.opts.Witness.Place()
}

// rule writes the heartbeat and the witness into the row of the deployment. A place that
// has another life than the witness is one where nobody can ask for it any more.
func (s *Store) rule(ctx context.Context, known moment, uses string) error {
	replaced := false
	if known.Witness != "" && model.WitnessLife(known.Witness) != uses && known.place(s) {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		life, err := s.opts.Witness.Confirm(asking)
		cancel()
		replaced = err == nil && life != model.WitnessLife(known.Witness)
	}
	return s.inTx(ctx, "note the witness", func(tx *gorm.DB) error {
		m, err := s.moment(tx, toOwn, toCount)
		if err != nil {
			return err
		}
		v, err := s.judge(tx, m, uses, replaced && m.Witness == known.Witness)
		if err != nil {
			return err
		}
		witness, place := m.Witness, m.WitnessPlace
		if v.Retire {
			witness, place = "", ""
		}
		if v.Name {
			witness, place = uses+" "+rand.Text()[:16], s.opts.Witness.Place()
		}
		if witness != m.Witness {
			err = write(tx, "name the witness", "UPDATE "+deploymentTable+" SET witness = ?, witness_place = ?", witness, place)
		}
		if err == nil && m.beatDue() {
			err = write(tx, "beat", "UPDATE "+deploymentTable+" SET beat_at = ?, server_life = ? WHERE beat_at < ?", m.Now, m.server.Life, m.Now)
			if err == nil {
				err = write(tx, "forget replicas that are gone", "DELETE FROM "+replicaTable+" WHERE seen_at < ?", m.Now-4*model.HoldLasts.Milliseconds())
			}
		}
		if m.ListRate < v.listRate || m.TagRate < v.tagRate {
			m.RatesFrom = m.Now + model.RaiseDelay.Milliseconds()
		}
		if err == nil && (m.ListRate != v.listRate || m.TagRate != v.tagRate) {
			err = write(tx, "store the rates", "UPDATE "+deploymentTable+" SET rates_from = ?, list_rate = ?, tag_rate = ?", m.RatesFrom, v.listRate, v.tagRate)
		}
		return err
	})
}

// leave gives up what this process holds, so that nobody waits for it.
func (s *Store) leave() {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	if s.member.at.IsZero() {
		return
	}
	s.giveUp("", time.Time{})
	s.member.at = time.Time{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = s.pool.ExecContext(ctx, "DELETE FROM "+replicaTable+" WHERE id = ?", s.id) // others wait a little longer
}

// errWitnessAway: the row names a witness that does not answer, or not to this process.
var errWitnessAway = errors.New("waiting for Redis, which would vouch for what is handed out, or for the database to do without it")

// errNoWitness is why it does not answer to a process without Redis.
var errNoWitness = errors.New("this process has no Redis, and others have")

// errMarkAhead: the witness has seen higher numbers of the counter than a moment ago.
var errMarkAhead = errors.New("the mark has risen meanwhile")

// marks asks the witness that the row names how far counters have come. Where none is
// named, marks that are there all the same count too: they vouch for nothing, but what they
// say was handed out. The moment must be locked.
func (s *Store) marks(ctx context.Context, m moment, counters []string) ([]int64, error) {
	marks, err := make([]int64, len(counters)), errNoWitness
	if s.opts.Witness != nil && (m.Witness != "" || s.reached.Load()) {
		asking, cancel := context.WithTimeout(ctx, witnessTimeout)
		defer cancel()
		var found []int64
		if found, err = s.opts.Witness.Marks(asking, model.WitnessLife(m.Witness), counters); err == nil {
			return found, nil
		}
	}
	if m.Witness == "" || m.settled {
		return marks, nil
	}
	return nil, fmt.Errorf("%w: %w", errWitnessAway, err)
}

// readMarks is marks of counters that account for the changes up to oldest: those after it are read.
func (s *Store) readMarks(tx *gorm.DB, m *moment, counters []string, oldest int64) ([]int64, error) {
	marks, err := s.marks(tx.Statement.Context, *m, counters)
	if err != nil {
		return nil, err
	}
	return marks, m.readChanges(tx, oldest)
}

// raiseMarks raises marks at the witness that the row names. It must come before the
// transaction is committed, and so before its numbers are used. known, if it is not nil, are
// the marks that were read: higher ones refuse.
func (s *Store) raiseMarks(ctx context.Context, m moment, marks []model.Mark, known []int64) error {
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
			return errMarkAhead
		}
	}
	return nil
}
