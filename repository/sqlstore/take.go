package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// Lists, tags, sections and the starts of the UID mode take numbers of rows in one way, in one transaction:
//
//  1. moment reads the row of the deployment, and locks it against another witness;
//  2. the rows of the counters are locked, in one order, and each is told as a countedRow;
//  3. readCounters asks the witness for their marks, and adds up what the changes of the server since each row was
//     used put in doubt;
//  4. the mode chooses numbers of each, above its mark and its doubt (model.Counter.TakeNumbers);
//  5. the witness raises the marks, and refuses where one has moved since 3;
//  6. the rows are stored, each only if its max_id is as it was read, and the transaction commits.
//
// Any error, that of COMMIT included, gives the numbers up. For a list and a tag these are 6 round trips to the
// database (BEGIN, 1, 2, what the row had before it was deleted, 6, COMMIT) and 2 calls to Redis; one more looks
// for the age of the tables after each heartbeat, and one reads the changes after a change of the server.

// counterRow is what a row of id_alloc, leaf_alloc or shardid_section keeps of its counter. Times are Unix ms.
type counterRow struct {
	Doubt      int64
	LastChange int64 // of the server that Doubt accounts for
	Tokens     int64
	TakenAt    int64 // 0 before the first allocation
}

// countedRow is the locked row of a counter.
type countedRow struct {
	counterRow
	last       int64                    // the highest number that was taken, as far as the row knows
	mark       string                   // its name at the witness
	group      string                   // of another mark, as high as the highest of those that share it; "" for none
	rate       int64                    // numbers a second, of all such counters at present; 0 is no bound
	rateBefore func(model.Change) int64 // the same before a change
	unmarked   bool                     // another program has taken numbers, of which the witness has no mark
	periodBits uint                     // see model.Counter
}

// listCounted is the row of a counter that has the rate of a list.
func (m *moment) listCounted(row counterRow, last int64, mark string) countedRow {
	rateBefore := func(c model.Change) int64 { return c.ListRate }
	return countedRow{counterRow: row, last: last, mark: mark, rate: m.listRate, rateBefore: rateBefore}
}

// counter is what the row says at a moment that has read the changes since it was used.
func (r countedRow) counter(m *moment) model.Counter {
	at, witness := atMilli(r.TakenAt), m.Witness
	if r.unmarked {
		witness = ""
	}
	var since []model.Change
	for _, c := range m.changes {
		if c.Number > r.LastChange {
			since = append(since, c.change())
		}
	}
	return model.Counter{
		Last: r.last, Rate: r.rate, Tokens: r.Tokens, At: at, JumpFrom: atMilli(m.JumpFrom),
		Doubt: model.Doubt(since, witness, r.rateBefore, at, r.Doubt), PeriodBits: r.periodBits,
	}
}

// readCounters gives what locked rows say, and their marks at the witness, 0 for none.
func (s *Store) readCounters(tx *gorm.DB, m *moment, rows []countedRow) ([]model.Counter, []int64, error) {
	if len(rows) == 0 {
		return nil, nil, nil
	}
	names, oldest := make([]string, len(rows)), m.Changes
	for i, r := range rows {
		names[i], oldest = r.mark, min(oldest, r.LastChange)
	}
	marks, err := s.readMarks(tx, m, names, oldest)
	if err != nil {
		return nil, nil, err
	}
	counters := make([]model.Counter, len(rows))
	for i, r := range rows {
		counters[i] = r.counter(m)
	}
	return counters, marks, nil
}

// readCounter is readCounters of one row.
func (s *Store) readCounter(tx *gorm.DB, m *moment, row countedRow) (c model.Counter, mark int64, err error) {
	counters, marks, err := s.readCounters(tx, m, []countedRow{row})
	if err != nil {
		return c, 0, err
	}
	return counters[0], marks[0], nil
}

// A choice says what a row is to be stored with, and whether it is to be stored at all. Its error ends the
// transaction.
type choice func(i int, c model.Counter, mark int64) (next model.Counter, store bool, err error)

// take lets choose decide about each row, and raises the marks of those that are to be stored, at last those of
// their groups, which others raise too.
func (s *Store) take(tx *gorm.DB, m *moment, rows []countedRow, choose choice) error {
	counters, known, err := s.readCounters(tx, m, rows)
	if err != nil {
		return err
	}
	var marks []model.Mark
	var before []int64
	groups := map[string]int64{}
	for i, r := range rows {
		next, store, err := choose(i, counters[i], known[i])
		if err != nil {
			return err
		}
		if !store {
			continue
		}
		marks, before = append(marks, model.Mark{Counter: r.mark, Value: next.Last}), append(before, known[i])
		if r.group != "" {
			groups[r.group] = max(groups[r.group], next.Last)
		}
	}
	for group, highest := range groups {
		marks = append(marks, model.Mark{Counter: group, Value: highest})
	}
	return s.raiseMarks(tx.Statement.Context, m, marks, before)
}

// storage says how the rows of a table are stored.
type storage struct {
	table   string
	key     string   // an expression that names a row
	as      string   // a condition that holds for one row, as it was read
	further []string // columns beside those of the counter
	always  string   // an assignment for each row that is stored
}

// storedRow is what becomes of a row.
type storedRow struct {
	key     any   // the value of storage.key
	as      []any // the arguments of storage.as
	next    model.Counter
	further []any // the values of storage.further
}

// storeRows writes all rows with one statement. The error may be errRowChanged.
func (s *Store) storeRows(tx *gorm.DB, m *moment, in storage, rows []storedRow) error {
	if len(rows) == 0 {
		return nil
	}
	values := make([][]any, len(rows))
	for i, r := range rows {
		values[i] = append(slices.Clip(r.further), r.next.Doubt, r.next.Tokens, max(0, r.next.At.UnixMilli()),
			r.next.Last)
	}
	var sql strings.Builder
	var args []any
	fmt.Fprintf(&sql, "UPDATE %s SET last_change = %d%s", in.table, m.Changes, in.always)
	// max_id comes last: MySQL assigns in this order, and the condition has the old one.
	for column, name := range slices.Concat(in.further, []string{"doubt", "tokens", "taken_at", "max_id"}) {
		fmt.Fprintf(&sql, ", %s = CASE %s%s END", name, in.key, strings.Repeat(" WHEN ? THEN ?", len(rows)))
		for i, r := range rows {
			args = append(args, r.key, values[i][column])
		}
	}
	sql.WriteString(" WHERE " + in.as + strings.Repeat(" OR "+in.as, len(rows)-1))
	for _, r := range rows {
		args = append(args, r.as...)
	}
	return updateRows(tx, len(rows), "store the rows", sql.String(), args...)
}

// atMilli is zero for 0.
func atMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
