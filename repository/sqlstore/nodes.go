package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/model/witness"
)

// The registry of worker IDs for UIDs is Baidu's table WORKER_NODE: each start gets a row of its own, whose ID is its
// worker ID, as long as the table has fewer rows than the layout has worker IDs. After that the worker ID is used again
// whose last user's mark lies furthest in the past. The mark says up to which second a row's UIDs may have been issued;
// a row without one, as Baidu's own programs make them, is never used again.

const (
	// maxNodeHost is the width of HOST_NAME, in bytes.
	maxNodeHost = 64
	// nodeType is TYPE of a start: Baidu's ACTUAL, a machine, which says that PORT is made up.
	nodeType = 2
	// portRandom bounds the random part of PORT: 0…99999, as in Baidu's DisposableWorkerIdAssigner.
	portRandom = 100_000
	// nodeRate is how many starts of the UID mode may register in a second.
	nodeRate = 50
	// nodeRest is for how many seconds after its mark a worker ID is not used again once
	// the database has gone on from a copy: that may have an earlier mark than the
	// instance had, which used no more seconds than this while the copy lagged.
	nodeRest = 86_400
)

// Nodes is the registry of worker IDs for UIDs. The row's mark is what is reserved of the lease. It keeps no time
// beside it, and whoever gets the worker ID next begins above it, so a lease does not end as long as the row is the
// process's. Safe for concurrent use, over processes too.
type Nodes struct {
	store   *Store
	host    string // of the instance, as the rows of its starts have it
	workers int64  // worker IDs are 0…workers-1
}

// Nodes gives the registry of the worker IDs 0…workers-1 for UIDs. Of a host the first 64 bytes are stored.
func (s *Store) Nodes(host string, workers int64) *Nodes { return &Nodes{s, host, workers} }

// Acquire implements worker.Registry. Called again with the same token it gives the same row, so a call whose answer
// was lost may be repeated. Until the first Renew the mark is the second before, so where others need worker IDs that
// early they may take it. Errors: model.ErrNoWorkerID, *model.StoreError.
func (n *Nodes) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	now := time.Now()
	row, err := n.store.registerStart(ctx, nodeStart{n.host, n.workers, owner.Token, now.Unix(), now.Unix() - 1})
	if err != nil {
		return model.Lease{}, err
	}
	after := min(row.UsedUntil, math.MaxInt64/1000) * 1000
	return model.Lease{WorkerID: int(row.ID), Owner: owner, Registry: nodeTable, After: after}, nil
}

// Renew implements worker.Registry: it stores that the row may issue UIDs up to the second in which Reserved lies. A
// mark is never lowered. One that stays is read, which is all that an instance without callers does, by one statement.
// Errors: model.ErrLeaseLost when the row is gone or another start's, *model.StoreError when that is not known.
func (n *Nodes) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	token, until := lease.Owner.Token, lease.Reserved/1000
	row, err := query[nodeRow](n.store.gorm.WithContext(ctx), "read the row",
		"SELECT "+nodeColumns+" FROM "+nodeTable+" WHERE ID = ?", lease.WorkerID)
	if err == nil && token != "" && row.Token == token && until <= row.UsedUntil {
		return lease, nil
	}
	return lease, n.store.do(ctx, "mark the worker ID", func(tx *gorm.DB) error {
		row, err := n.store.findNode(tx, "ID = ?", lease.WorkerID)
		if err == nil && (token == "" || row.Token != token) {
			err = fmt.Errorf("%w: worker ID %d is not this start's", model.ErrLeaseLost, lease.WorkerID)
		}
		if err == nil {
			_, err = n.store.moment(tx)
		}
		if err != nil || until <= row.UsedUntil {
			return err
		}
		return updateRows(tx, 1, "store the mark", "UPDATE "+nodeTable+" SET USED_UNTIL = ?, "+
			"MODIFIED = CURRENT_TIMESTAMP WHERE ID = ? AND USED_UNTIL = ?", until, row.ID, row.UsedUntil)
	})
}

// Release implements worker.Registry. The mark stays as it is: a lower one could be lost with its commit, and it
// costs nothing, as every start gets another worker ID.
func (n *Nodes) Release(context.Context, model.Lease) error { return nil }

// nodeStart is one start of an instance. Times are Unix seconds.
type nodeStart struct {
	host      string // of the instance
	workers   int64  // worker IDs are 0…workers-1
	token     string // random
	second    int64  // the caller's clock: a worker ID is used again only if the mark of its last user lies before it
	usedUntil int64  // the mark that the row has at least
}

// nodeRow is a row of WORKER_NODE.
type nodeRow struct {
	ID        int64
	Token     string
	UsedUntil int64 // the mark, Unix s: IDs of the next start carry a later second
}

// registerStart gives a start its row. A call that is repeated finds it.
func (s *Store) registerStart(ctx context.Context, start nodeStart) (row nodeRow, err error) {
	err = s.takeOne(ctx, "register the start", func(tx *gorm.DB) error {
		if _, err := s.lockNamed(tx, nodeTable); err != nil {
			return err
		}
		row, err = s.findNode(tx, "TOKEN = ?", start.token)
		if err == nil && row.Token == "" {
			row, err = s.newNode(tx, start)
		}
		return err
	})
	if err != nil {
		return nodeRow{}, err
	}
	row.UsedUntil = max(row.UsedUntil, start.usedUntil)
	return row, nil
}

// newNode gives a start a worker ID. Starts are numbered, above those that a copy of the database may lack: the number
// is the ID of the row as long as the layout has worker IDs, and only counts after that.
func (s *Store) newNode(tx *gorm.DB, start nodeStart) (row nodeRow, err error) {
	m, err := s.moment(tx, toOwn, toTake)
	if err != nil {
		return nodeRow{}, err
	}
	counted, err := s.countStarts(tx, &m)
	if err != nil {
		return nodeRow{}, err
	}
	_, err = s.take(tx, &m, startStorage(), []countedRow{counted}, func(
		_ int, starts model.Counter, mark int64,
	) (model.Counter, bool, error) {
		number, next, err := start.number(m, starts, mark)
		if err != nil {
			return starts, false, err
		}
		row, err = s.insertNode(tx, start, nil)
		if err == nil && row.ID < number { // the table has forgotten rows, or numbers are skipped
			if err = removeNode(tx, row.ID); err == nil {
				row, err = s.insertNode(tx, start, number)
			}
		}
		if err != nil {
			return starts, false, err
		}
		next.Last = max(next.Last, row.ID)
		if row.ID >= start.workers {
			if err = removeNode(tx, row.ID); err == nil {
				row, err = recycleNode(tx, m, start)
			}
		}
		// What is refused up to here must not look like a start that the database has lost: it marks nothing.
		return next, true, err
	})
	return row, err
}

// number takes the number of a start.
func (start nodeStart) number(m moment, starts model.Counter, mark int64) (int64, model.Counter, error) {
	last, limit := starts.Last, start.workers-1
	if last >= limit { // used worker IDs are given out again
		limit = math.MaxInt64
	}
	number, _, next, err := starts.TakeNumbers(mark, 1, limit, m.now)
	if errors.Is(err, model.ErrLimitReached) { // the witness has seen more starts
		number, _, next, err = starts.TakeNumbers(mark, 1, math.MaxInt64, m.now)
	}
	if err == nil && (number > max(last+1, start.workers) || m.NodeLost > 0 && last >= start.workers) {
		err = model.ErrUnconfirmed // starts that the table lacks may have taken over any worker ID
	}
	if errors.Is(err, model.ErrUnconfirmed) {
		err = fmt.Errorf("%w: %w", model.Do("make sure that no instance of the UID mode is running that the table "+
			"does not have, and run `shardid confirm --uid`"), err)
	}
	return number, next, err
}

// nodeCounter is the name of the starts at the witness.
const nodeCounter = "node"

// countStarts is what the row of the deployment keeps of the starts; other programs insert rows of WORKER_NODE too.
func (s *Store) countStarts(tx *gorm.DB, m *moment) (countedRow, error) {
	last, err := query[int64](tx, "look for the last start", "SELECT COALESCE(MAX(ID), 0) FROM "+nodeTable)
	row := countedRow{
		counterRow: counterRow{Doubt: m.NodeDoubt, LastChange: m.NodeChange, Tokens: m.NodeTokens, TakenAt: m.NodeAt},
		last:       max(last, m.NodeLast), mark: nodeCounter,
		rate: nodeRate, rateBefore: func(witness.Change) int64 { return nodeRate },
		key: 1, as: []any{1}, further: func(model.Counter) []any { return []any{0} },
	}
	if s.server == nil {
		row.rate = 0
	}
	return row, err
}

// startStorage is that of the row of the deployment. Beside the counter it has how many of the starts WORKER_NODE may
// lack.
func startStorage() storage {
	return storage{
		table: deploymentTable, key: "only_row", as: "(only_row = ?)",
		counter: [5]string{"node_change", "node_doubt", "node_tokens", "node_at", "node_last"},
		further: []string{"node_lost"},
	}
}

const nodeColumns = "ID AS id, COALESCE(TOKEN, '') AS token, USED_UNTIL AS used_until"

// findNode reads the latest committed row and locks it; without one, and for a row of Baidu's, its token is empty.
func (s *Store) findNode(tx *gorm.DB, where string, arg any) (nodeRow, error) {
	return query[nodeRow](tx, "lock the row",
		"SELECT "+nodeColumns+" FROM "+nodeTable+" WHERE "+where+s.forUpdate(), arg)
}

// insertNode adds a row of the start's own. Its ID is the auto-increment when id is nil:
// that knows of rows that other programs inserted, and that were removed.
func (s *Store) insertNode(tx *gorm.DB, start nodeStart, id any) (nodeRow, error) {
	err := write(tx, "insert", "INSERT INTO "+nodeTable+" (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, "+
		"MODIFIED, CREATED, TOKEN, USED_UNTIL) "+
		"VALUES (?, ?, ?, ?, ?, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, ?, ?)",
		slices.Concat([]any{id}, start.describe(), []any{start.token, start.usedUntil})...)
	if err != nil {
		return nodeRow{}, err
	}
	row, err := s.findNode(tx, "TOKEN = ?", start.token)
	if err == nil && row.Token == "" {
		err = errRowChanged
	}
	return row, err
}

func removeNode(tx *gorm.DB, id int64) error {
	return write(tx, "remove a row without a start", "DELETE FROM "+nodeTable+" WHERE ID = ?", id)
}

// describe gives HOST_NAME, PORT, TYPE and LAUNCH_DATE of a start, as Baidu's programs write them on a machine: the
// port is made up, so that rows differ, and the day is that of the instance's own calendar.
func (start nodeStart) describe() []any {
	began := time.Unix(start.second, 0)
	return []any{
		start.host[:min(len(start.host), maxNodeHost)],
		fmt.Sprintf("%d-%d", began.UnixMilli(), rand.IntN(portRandom)), nodeType, began.Format(time.DateOnly),
	}
}

// recycleNode takes over the worker ID that has not been used for longest. The rows are read without a lock, so that
// marks continue; the one that is taken must still be as it was read, else the error is errRowChanged.
func recycleNode(tx *gorm.DB, m moment, start nodeStart) (nodeRow, error) {
	before := start.second
	if m.OldestCopy > 0 {
		before -= nodeRest
	}
	old, err := query[[]nodeRow](tx, "look for a worker ID to use again", "SELECT "+nodeColumns+" FROM "+nodeTable+
		" WHERE ID BETWEEN 0 AND ? AND USED_UNTIL > 0 AND USED_UNTIL < ? ORDER BY USED_UNTIL, ID LIMIT 1",
		start.workers-1, before)
	row, err := oneRow(old, err, fmt.Errorf("%w: %w: the worker IDs 1…%d of %s are given out, and none of them has a "+
		"mark that passed long enough ago", model.Do("wait until the marks of instances that are gone have passed, or "+
		"set more uid.worker_bits together with a new uid.epoch"), model.ErrNoWorkerID, start.workers-1, nodeTable))
	if err != nil {
		return nodeRow{}, err
	}
	return nodeRow{ID: row.ID, Token: start.token, UsedUntil: row.UsedUntil}, takeNode(tx, row, start)
}

// takeNode makes a row the start's, if it is still as it was read. The error may be errRowChanged.
func takeNode(tx *gorm.DB, old nodeRow, start nodeStart) error {
	return updateRows(tx, 1, fmt.Sprintf("take over row %d", old.ID), "UPDATE "+nodeTable+
		" SET HOST_NAME = ?, PORT = ?, TYPE = ?, LAUNCH_DATE = ?, MODIFIED = CURRENT_TIMESTAMP, "+
		"CREATED = CURRENT_TIMESTAMP, TOKEN = ?, USED_UNTIL = ? "+
		"WHERE ID = ? AND USED_UNTIL = ? AND COALESCE(TOKEN, '') = ?",
		append(start.describe(), start.token, max(start.usedUntil, old.UsedUntil), old.ID, old.UsedUntil, old.Token)...)
}

// ConfirmNodes ends the doubt about the starts of the UID mode: the caller says
// that WORKER_NODE has all instances that are running.
func (s *Store) ConfirmNodes(ctx context.Context) (tables int64, err error) {
	const op = "confirm the starts of the UID mode"
	return withMoment(ctx, s, op, []need{toOwn, toDecide}, func(tx *gorm.DB, m *moment) (int64, error) {
		row, err := s.countStarts(tx, m)
		if err != nil {
			return 0, err
		}
		return s.take(tx, m, startStorage(), []countedRow{row}, func(
			_ int, starts model.Counter, mark int64,
		) (model.Counter, bool, error) {
			next := starts.Raise(mark)
			next.Doubt = 0
			return next, next != starts || m.NodeLost > 0, nil
		})
	})
}
