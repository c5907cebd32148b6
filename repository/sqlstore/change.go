package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

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
			Known: time.UnixMilli(r.KnownAt), Now: time.UnixMilli(r.NotedAt), Slack: time.Duration(r.Slack) * time.Millisecond,
			Reach: atMilli(r.ReachAt), Again: r.Again,
		},
	}
}

// errVouching: another replica may let the witness vouch; it is waited for.
var errVouching = errors.New("waiting for a replica that can let Redis vouch")

const (
	// witnessPatience is how long a change of the server waits for a witness that does
	// not answer before it is noted without.
	witnessPatience = 10 * time.Second
	// holderPatience is the same for a replica that holds the witness: each sends a
	// heartbeat every second.
	holderPatience = 4 * time.Second
)

// noteServer writes down that another life of the database answers, how much it may
// lack, and who knows what that is. Only then is anything handed out again. It happens in one
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
		if vouched, err = s.vouched(ctx, m, lacks); err != nil {
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

// vouched says whether the witness that the row names knows what the copy lacks: this
// process must hold it, and the Redis at its place must still have that life. For who can
// vouch, and for a Redis that does not answer, it waits by errors. But where another process
// has noted the server already, which does not know the change that the database lacks, that one
// takes numbers soon: then nobody vouches, at once.
func (s *Store) vouched(ctx context.Context, m moment, lacks bool) (bool, error) {
	if m.Witness == "" || lacks && m.recorded().Is(m.server) {
		return false, nil
	}
	patience, err := holderPatience, errVouching
	if s.holds(m) {
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
		return false, fmt.Errorf("%w: waiting up to %v for Redis, which knows what was handed out: %w", errServerChanged, patience, err)
	}
	return false, nil
}

// storeServer makes the row that of the server that holds it.
func storeServer(tx *gorm.DB, m moment, t model.ServerTimes) error {
	return tx.Exec("UPDATE "+deploymentTable+" SET server = ?, booted_at = ?, server_life = ?, since = ?, beat_at = ?, oldest_copy = ?, jump_from = ?, list_rate = ?, tag_rate = ?",
		m.server.ID, max(0, m.server.BootedAt.Unix()), m.server.Life, t.Since.UnixMilli(), t.Beat.UnixMilli(), max(0, t.Oldest.UnixMilli()), max(0, t.JumpFrom.UnixMilli()),
		m.ListRate, m.TagRate).Error
}

// storeChange adds the change. Without a witness that vouches nobody is the witness any
// more. The rates are the highest that any process may have used, as far as is known.
func (s *Store) storeChange(tx *gorm.DB, m *moment, gap model.Gap, vouched bool) error {
	if !vouched {
		m.Witness = ""
		s.giveUp("", time.Time{})
	}
	s.seen.mu.Lock()
	list, tag := max(m.ListRate, s.seen.rates.list, s.opts.ListRate), max(m.TagRate, s.seen.rates.tag, s.opts.TagRate)
	s.seen.mu.Unlock()
	err := write(tx, "note a change of the server", "UPDATE "+deploymentTable+" SET changes = changes + 1, witness = ?", m.Witness)
	if err != nil {
		return err
	}
	return write(tx, "note a change of the server", "INSERT INTO "+changeTable+
		" (number, noted_at, known_at, slack, reach_at, again, list_rate, tag_rate, witness) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		m.Changes+1, gap.Now.UnixMilli(), gap.Known.UnixMilli(), gap.Slack.Milliseconds(), max(0, gap.Reach.UnixMilli()), gap.Again, list, tag, m.Witness)
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
