package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/model/witness"
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
// Any error, that of COMMIT included, gives the numbers up. For a list and a tag these are 5 round trips to the
// database (BEGIN, 1, 2, 6, COMMIT) and 2 calls to Redis; one more identifies the server on each new connection, one
// looks for the age of the tables after each heartbeat, and one reads the changes after a change of the server.

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
	last       int64                      // the highest number that was taken, as far as the row knows
	mark       string                     // its name at the witness
	group      string                     // of another mark, as high as the highest of those that share it; "" for none
	rate       int64                      // numbers a second, of all such counters at present; 0 is no bound
	rateBefore func(witness.Change) int64 // the same before a change
	unmarked   bool                       // another program has taken numbers, of which the witness has no mark
	periodBits uint                       // see model.Counter

	key     any                            // the value of storage.key
	as      []any                          // the arguments of storage.as
	further func(next model.Counter) []any // the values of storage.further once the row is stored with that
}

// listCounted is the row of a counter that has the rate of a list.
func (m *moment) listCounted(row counterRow, last int64, mark string) countedRow {
	rateBefore := func(c witness.Change) int64 { return c.ListRate }
	return countedRow{counterRow: row, last: last, mark: mark, rate: m.listRate, rateBefore: rateBefore}
}

// counter is what the row says at a moment that has read the changes since it was used.
func (r countedRow) counter(m *moment) model.Counter {
	at, named := atMilli(r.TakenAt), m.Witness
	if r.unmarked {
		named = ""
	}
	var since []witness.Change
	for _, c := range m.changes {
		if c.Number > r.LastChange {
			since = append(since, c.change())
		}
	}
	c := model.Counter{
		Last: r.last, Rate: r.rate, Tokens: r.Tokens, At: at, JumpFrom: atMilli(m.JumpFrom),
		Doubt: witness.Doubt(since, named, r.rateBefore, at, r.Doubt), PeriodBits: r.periodBits,
	}
	if served := m.times().Since; len(since) > 0 && at.After(served) { // the clock of a server before was ahead
		c.At = served
	}
	return c
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

// A choice says what a row is to be stored with, and whether it is to be stored at all. Its error ends the
// transaction.
type choice func(i int, c model.Counter, mark int64) (next model.Counter, store bool, err error)

// take lets choose decide about each row. It raises the marks of those that are to be stored, at last those of their
// groups, which others raise too, and stores them. It gives how many these are. The error may be errRowChanged.
func (s *Store) take(tx *gorm.DB, m *moment, in storage, rows []countedRow, choose choice) (int64, error) {
	counters, known, err := s.readCounters(tx, m, rows)
	if err != nil {
		return 0, err
	}
	var stored []countedRow
	var counts []model.Counter // that they are stored with
	var marks []witness.Mark
	var before []int64
	groups := map[string]int64{}
	for i := range rows {
		next, store, err := choose(i, counters[i], known[i])
		if err != nil {
			return 0, err
		}
		if !store {
			continue
		}
		r := rows[i] // choose may have changed it
		stored, counts = append(stored, r), append(counts, next)
		marks, before = append(marks, witness.Mark{Counter: r.mark, Value: next.Last}), append(before, known[i])
		if r.group != "" {
			groups[r.group] = max(groups[r.group], next.Last)
		}
	}
	for group, highest := range groups {
		marks = append(marks, witness.Mark{Counter: group, Value: highest})
	}
	if err := s.raiseMarks(tx.Statement.Context, m, marks, before); err != nil {
		return 0, err
	}
	return int64(len(stored)), storeRows(tx, m, in, stored, counts)
}

// raise brings rows up to their marks. Where an operator has confirmed them, it does so for those that are in doubt
// alone, and ends their doubts. It gives how many rows it has stored.
func (s *Store) raise(tx *gorm.DB, m *moment, in storage, rows []countedRow, confirmed bool) (int64, error) {
	return s.take(tx, m, in, rows, func(_ int, c model.Counter, mark int64) (model.Counter, bool, error) {
		next := c.Raise(mark)
		if confirmed {
			next.Doubt = 0
			return next, c.Doubt > 0, nil
		}
		return next, next.Last > c.Last, nil
	})
}

// highestIssued is the highest number that a counter may have issued, as its row, its mark and its doubt say. Errors:
// model.ErrRefused where that is above most, as for an unknown doubt: then an operator has to confirm the thing with
// some flags of shardid confirm before it is deleted.
func highestIssued(c model.Counter, mark, most int64, lacks, flags string) (int64, error) {
	if c = c.Raise(mark); c.Doubt > most-c.Last {
		return 0, fmt.Errorf("%w: %w: the database may be a copy that lacks %s",
			model.Do("run `shardid confirm %s` before the deletion", flags), model.ErrRefused, lacks)
	}
	return c.Last + c.Doubt, nil
}

// howToConfirm adds to model.ErrUnconfirmed what an operator has to do, with some flags of shardid confirm.
func howToConfirm(err error, number, flags string) error {
	if !errors.Is(err, model.ErrUnconfirmed) {
		return err
	}
	return fmt.Errorf("%w: %w", model.Do("raise max_id above the highest %s in use, if the database was restored, and "+
		"run `shardid confirm %s`", number, flags), err)
}

// storage says how the rows of a table are stored.
type storage struct {
	table   string
	key     string    // an expression that names a row
	as      string    // a condition that holds for one row, as it was read
	counter [5]string // the columns of LastChange, Doubt, Tokens, TakenAt and the highest number
	above   int64     // how much more than the highest number the last of them has
	further []string  // columns beside those
	always  string    // an assignment for each row that is stored
}

// counterColumns are those of the tables that have a counterRow.
func counterColumns() [5]string {
	return [5]string{"last_change", "doubt", "tokens", "taken_at", "max_id"}
}

// storeRows writes all rows with one statement. The error may be errRowChanged.
func storeRows(tx *gorm.DB, m *moment, in storage, rows []countedRow, counts []model.Counter) error {
	if len(rows) == 0 {
		return nil
	}
	values := make([][]any, len(rows))
	for i, r := range rows {
		c := counts[i]
		values[i] = append(r.further(c), c.Doubt, c.Tokens, max(0, c.At.UnixMilli()), c.Last+in.above)
	}
	var sql strings.Builder
	var args []any
	fmt.Fprintf(&sql, "UPDATE %s SET %s = %d%s", in.table, in.counter[0], m.Changes, in.always)
	// The number comes last: MySQL assigns in this order, and the condition has the old one.
	for column, name := range slices.Concat(in.further, in.counter[1:]) {
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

// atMilli is a time of Unix milliseconds; 0 is none.
func atMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// What was issued of an app, a tag or a space before it was deleted is remembered in a table for each kind: should
// one come back under its ID or name, by whatever road, it continues above that. Rows of these tables only rise, and
// stay for ever.

// buryLists leaves tombstones for lists, up to their Floor.
func (s *Store) buryLists(tx *gorm.DB, lists []model.AllocRequest) error {
	rows := make([][]any, len(lists))
	for i, l := range lists {
		rows[i] = []any{l.Key.App, l.Key.Shard, l.Floor}
	}
	return s.bury(tx, deletedTable+" (app_id, shard_id, max_id, deleted_at)", "(?, ?, ?, CURRENT_TIMESTAMP)", rows...)
}

// buryTag leaves a tombstone for a tag, whose next ID is maxID.
func (s *Store) buryTag(tx *gorm.DB, name string, maxID int64) error {
	return s.bury(tx, deletedTagTable+" (biz_tag, max_id, deleted_at)", "(?, ?, CURRENT_TIMESTAMP)", []any{name, maxID})
}

// burySpace leaves a tombstone for a space.
func (s *Store) burySpace(tx *gorm.DB, name string, highest, now int64) error {
	return s.bury(tx, deletedSequenceTable+" (name, max_id, deleted_at)", "(?, ?, ?)", []any{name, highest, now})
}

func (s *Store) bury(tx *gorm.DB, into, values string, rows ...[]any) error {
	if len(rows) == 0 {
		return nil
	}
	return write(tx, "remember what was issued", "INSERT INTO "+into+" VALUES "+values+
		strings.Repeat(", "+values, len(rows)-1)+s.orRaise(),
		slices.Concat(rows...)...)
}
