package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

const (
	// maxNodeText is the width of HOST_NAME, PORT and TOKEN, in bytes.
	maxNodeText = 64
	// nodeCandidates is how many used worker IDs are tried, should others be marked
	// while they are looked at.
	nodeCandidates = 16
	// nodeRate is how many starts of the UID mode may register in a second.
	nodeRate = 50
	// nodeRest is for how many seconds after its mark a worker ID is not used again once
	// the database has gone on from a copy: that may have an earlier mark than the
	// instance had, which used no more seconds than this while the copy lagged.
	nodeRest = 86_400
	// jumpShare is the share of the free worker IDs, one part in so many, that may be
	// left out without an operator's word.
	jumpShare = 100
)

// nodeRow is a row of WORKER_NODE. Times are Unix seconds.
type nodeRow struct {
	ID        int64
	Token     string
	UsedUntil int64
}

// RegisterNode gives a start its worker ID: the ID of a new row, as Baidu has it,
// while the table has fewer rows than the layout has worker IDs. Then the worker
// ID whose last user's mark lies furthest in the past is used again; a row without
// a mark, as Baidu's own programs make them, never is. The mark is stored with it.
// Called again with the same token it gives the same node, so a call whose answer
// was lost may be repeated. Safe for concurrent use, over processes too. Errors:
// model.ErrNoWorkerID, model.ErrInvalidArgument, *model.StoreError.
func (s *Store) RegisterNode(ctx context.Context, start model.NodeStart) (model.Node, error) {
	const op = "register the start"
	if err := checkStart(start); err != nil {
		return model.Node{}, fmt.Errorf("%s: %w", op, err)
	}
	row, err := within(ctx, s, op, func(tx *gorm.DB) (nodeRow, error) { return s.registerNode(tx, start) })
	if err != nil {
		return model.Node{}, err
	}
	after := max(row.UsedUntil, start.UsedUntil)
	return model.Node{ID: row.ID, WorkerID: row.ID, Token: row.Token, AfterSecond: after}, nil
}

func checkStart(n model.NodeStart) error {
	switch {
	case n.Token == "" || len(n.Token) > maxNodeText || len(n.Host) > maxNodeText || len(n.Port) > maxNodeText:
		return fmt.Errorf("%w: host %q, port %q and the token may have %d bytes, the token may not be empty",
			model.ErrInvalidArgument, n.Host, n.Port, maxNodeText)
	case n.Type != model.NodeContainer && n.Type != model.NodeActual:
		return fmt.Errorf("%w: node type %d is neither %d nor %d", model.ErrInvalidArgument, n.Type,
			model.NodeContainer, model.NodeActual)
	case n.Workers < 1 || n.UsedUntil < 1:
		return fmt.Errorf("%w: %d workers and a mark of %d s: both must be positive", model.ErrInvalidArgument,
			n.Workers, n.UsedUntil)
	}
	return nil
}

// registerNode is the body of the transaction.
func (s *Store) registerNode(tx *gorm.DB, start model.NodeStart) (nodeRow, error) {
	m, err := s.lockNamed(tx, nodeTable)
	if err != nil {
		return nodeRow{}, err
	}
	row, found, err := s.findNode(tx, "TOKEN = ?", start.Token)
	switch {
	case err != nil:
		return nodeRow{}, err
	case found:
		return row, markNode(tx, row, start.UsedUntil)
	case m.apart != nil:
		return nodeRow{}, m.apart
	}
	return s.newNode(tx, m, start)
}

// newNode gives a start a worker ID. Starts are numbered: the number is the ID of the row
// as long as the layout has worker IDs, and only counts after that.
func (s *Store) newNode(tx *gorm.DB, m moment, start model.NodeStart) (row nodeRow, err error) {
	if m, err = s.moment(tx, toOwn, toTake); err != nil { // it is written to
		return nodeRow{}, err
	}
	counted, err := s.countStarts(tx, &m)
	if err != nil {
		return nodeRow{}, err
	}
	var next model.Counter
	begin := func(_ int, starts model.Counter, mark int64) (model.Counter, bool, error) {
		last := starts.Last
		number, taken, err := nextStart(starts, mark, start.Workers, m.now)
		if err != nil {
			return starts, false, err
		}
		row, err = s.insertNode(tx, start, nil)
		if err == nil && row.ID < number { // the table has forgotten rows, or numbers are left out
			if err = removeNode(tx, row.ID); err == nil {
				row, err = s.insertNode(tx, start, number)
			}
		}
		if err != nil {
			return starts, false, err
		}
		next = taken
		next.Last = max(next.Last, row.ID)
		if row.ID >= start.Workers {
			// Starts that the table lacks have taken over rows, as far as their numbers are no worker IDs.
			lost := number - max(last+1, start.Workers) + min(m.NodeLost, max(0, last-(start.Workers-1)))
			if err = removeNode(tx, row.ID); err == nil {
				row, err = recycleNode(tx, m, start, lost)
			}
		}
		// What is refused up to here must not look like a start that the database has lost: it marks nothing.
		return next, true, err
	}
	if err = s.take(tx, &m, []countedRow{counted}, begin); err == nil {
		err = storeStarts(tx, &m, next, 0)
	}
	return row, err
}

// nodeCounter is the name of the starts at the witness.
const nodeCounter = "node"

// countStarts is what the row of the deployment keeps of the starts; other programs insert rows of WORKER_NODE too.
func (s *Store) countStarts(tx *gorm.DB, m *moment) (countedRow, error) {
	last, err := query[int64](tx, "look for the last start", "SELECT COALESCE(MAX(ID), 0) FROM "+nodeTable)
	row := countedRow{
		counterRow: counterRow{Doubt: m.NodeDoubt, LastChange: m.NodeChange, Tokens: m.NodeTokens, TakenAt: m.NodeAt},
		last:       max(last, m.NodeLast), mark: nodeCounter,
		rate: nodeRate, rateBefore: func(model.Change) int64 { return nodeRate },
	}
	if s.server == nil {
		row.rate = 0
	}
	return row, err
}

// storeStarts stores the counter, and how many of its starts WORKER_NODE may lack.
func storeStarts(tx *gorm.DB, m *moment, c model.Counter, lost int64) error {
	return write(tx, "store the number of the start",
		"UPDATE "+deploymentTable+" SET node_last = ?, node_doubt = ?, node_change = ?, node_lost = ?, "+
			"node_tokens = ?, node_at = ?",
		c.Last, c.Doubt, m.Changes, lost, c.Tokens, max(0, c.At.UnixMilli()))
}

// nextStart gives the next start its number, above those that a copy of the database
// may lack. Errors: those of model.Counter.Take.
func nextStart(starts model.Counter, mark, workers int64, now time.Time) (number int64, next model.Counter, err error) {
	limit := workers - 1
	if starts.Last >= limit { // used worker IDs are given out again
		limit = math.MaxInt64
	}
	number, _, next, err = starts.TakeNumbers(mark, 1, limit, now)
	if errors.Is(err, model.ErrLimitReached) { // the witness has seen more starts
		number, _, next, err = starts.TakeNumbers(mark, 1, math.MaxInt64, now)
	}
	if errors.Is(err, model.ErrUnconfirmed) {
		err = fmt.Errorf("%w: make sure that no instance of the UID mode is running that the table does not have, "+
			"then run `shardid confirm --uid`", err)
	}
	return number, next, err
}

const nodeColumns = "ID AS id, COALESCE(TOKEN, '') AS token, USED_UNTIL AS used_until"

// findNode reads the latest committed row and locks it.
func (s *Store) findNode(tx *gorm.DB, where string, arg any) (row nodeRow, found bool, err error) {
	var rows []nodeRow
	err = tx.Raw("SELECT "+nodeColumns+" FROM "+nodeTable+" WHERE "+where+s.forUpdate(), arg).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nodeRow{}, false, err
	}
	return rows[0], true, nil
}

// insertNode adds a row of the start's own. Its ID is the auto-increment when id is nil:
// that knows of rows that other programs inserted, and that were removed.
func (s *Store) insertNode(tx *gorm.DB, start model.NodeStart, id any) (nodeRow, error) {
	err := write(tx, "insert", "INSERT INTO "+nodeTable+" (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, "+
		"MODIFIED, CREATED, TOKEN, USED_UNTIL) "+
		"VALUES (?, ?, ?, ?, ?, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, ?, ?)",
		id, start.Host, start.Port, start.Type, launchDate(start), start.Token, start.UsedUntil)
	if err != nil {
		return nodeRow{}, err
	}
	row, found, err := s.findNode(tx, "TOKEN = ?", start.Token)
	if err == nil && !found {
		err = errRowChanged
	}
	return row, err
}

func removeNode(tx *gorm.DB, id int64) error {
	return write(tx, "remove a row without a start", "DELETE FROM "+nodeTable+" WHERE ID = ?", id)
}

// launchDate is the day on which the instance started, by its own calendar, as
// Baidu's programs write it.
func launchDate(start model.NodeStart) string {
	return time.Unix(start.NowSecond, 0).Format(time.DateOnly)
}

// recycleNode takes over the worker ID that has not been used for longest. The rows
// are read without a lock, so that marks go on; the one that is taken must still
// be as it was read. As many as skip may have been taken over already, by starts that
// the database has lost: they are never used again.
func recycleNode(tx *gorm.DB, m moment, start model.NodeStart, skip int64) (nodeRow, error) {
	before := start.NowSecond
	if m.OldestCopy > 0 {
		before -= nodeRest
	}
	const longSilent = " WHERE ID BETWEEN 0 AND ? AND USED_UNTIL > 0 AND USED_UNTIL < ? ORDER BY USED_UNTIL, ID LIMIT ?"
	rows, err := query[[]nodeRow](tx, "look for a worker ID to use again",
		"SELECT "+nodeColumns+" FROM "+nodeTable+longSilent,
		start.Workers-1, before, skip*jumpShare+nodeCandidates)
	switch {
	case err != nil:
		return nodeRow{}, err
	case skip > int64(len(rows))/jumpShare:
		return nodeRow{}, fmt.Errorf("%w: %d worker IDs may have been taken over by starts that the database has "+
			"lost, of %d that are free: make sure that no instance of the UID mode is running that the table does "+
			"not have, then run `shardid confirm --uid`", model.ErrUnconfirmed, skip, len(rows))
	}
	for _, old := range rows[:skip] {
		if err := write(tx, "leave out a row", "UPDATE "+nodeTable+" SET USED_UNTIL = 0 "+
			"WHERE ID = ? AND USED_UNTIL = ?", old.ID, old.UsedUntil); err != nil {
			return nodeRow{}, err
		}
	}
	for _, old := range rows[skip:] {
		taken, err := takeNode(tx, old, start)
		if taken || err != nil {
			return nodeRow{ID: old.ID, Token: start.Token, UsedUntil: old.UsedUntil}, err
		}
	}
	return nodeRow{}, fmt.Errorf("%w: the worker IDs 1…%d of %s are given out, and none of them has a mark that "+
		"passed long enough ago: wait until the marks of instances that are gone have passed, or set more "+
		"uid.worker_bits together with a new uid.epoch",
		model.ErrNoWorkerID, start.Workers-1, nodeTable)
}

// takeNode says whether the row was still as it was read and is the start's now.
func takeNode(tx *gorm.DB, old nodeRow, start model.NodeStart) (bool, error) {
	res := tx.Exec("UPDATE "+nodeTable+" SET HOST_NAME = ?, PORT = ?, TYPE = ?, LAUNCH_DATE = ?, "+
		"MODIFIED = CURRENT_TIMESTAMP, CREATED = CURRENT_TIMESTAMP, TOKEN = ?, USED_UNTIL = ? "+
		"WHERE ID = ? AND USED_UNTIL = ? AND COALESCE(TOKEN, '') = ?",
		start.Host, start.Port, start.Type, launchDate(start), start.Token, max(start.UsedUntil, old.UsedUntil),
		old.ID, old.UsedUntil, old.Token)
	if res.Error != nil {
		return false, fmt.Errorf("take over row %d: %w", old.ID, res.Error)
	}
	return res.RowsAffected == 1, nil
}

// MarkNode stores that the node may issue UIDs up to the Unix second until. A mark
// is never lowered. Errors: model.ErrLeaseLost when the row is gone or another
// start's, *model.StoreError when that is not known.
func (s *Store) MarkNode(ctx context.Context, node model.Node, until int64) error {
	return s.do(ctx, "mark the worker ID", func(tx *gorm.DB) error {
		row, found, err := s.findNode(tx, "ID = ?", node.ID)
		switch {
		case err != nil:
			return fmt.Errorf("lock the row: %w", err)
		case !found || node.Token == "" || row.Token != node.Token:
			return fmt.Errorf("%w: worker ID %d is not this start's", model.ErrLeaseLost, node.WorkerID)
		case until <= row.UsedUntil:
			return nil
		}
		if _, err := s.moment(tx); err != nil {
			return err
		}
		return markNode(tx, row, until)
	})
}

// markNode raises the mark of a locked row.
func markNode(tx *gorm.DB, row nodeRow, until int64) error {
	if until <= row.UsedUntil {
		return nil
	}
	return updateRows(tx, 1, "store the mark", "UPDATE "+nodeTable+" SET USED_UNTIL = ?, "+
		"MODIFIED = CURRENT_TIMESTAMP WHERE ID = ? AND USED_UNTIL = ?", until, row.ID, row.UsedUntil)
}

// ConfirmNodes ends the doubt about the starts of the UID mode: the caller says
// that WORKER_NODE has all instances that are running.
func (s *Store) ConfirmNodes(ctx context.Context) (tables int64, err error) {
	const op = "confirm the starts of the UID mode"
	return withMoment(ctx, s, op, []need{toOwn, toDecide}, func(tx *gorm.DB, m *moment) (int64, error) {
		counted, err := s.countStarts(tx, m)
		if err != nil {
			return 0, err
		}
		starts, mark, err := s.readCounter(tx, m, counted)
		if err != nil || starts.Doubt+m.NodeLost == 0 && starts.Last >= mark {
			return 0, err
		}
		starts = starts.Raise(mark)
		starts.Doubt = 0
		return 1, storeStarts(tx, m, starts, 0)
	})
}
