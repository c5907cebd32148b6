package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"shardid/model"
)

// sectionRow is a row of shardid_section.
type sectionRow struct {
	Space   string
	Section int
	MaxID   int64
	Counter counterRow `gorm:"embedded"`
	Life    string
	Term    int64
	Open    bool
	Step    int64 // of the space
}

func (r sectionRow) key() model.SectionKey {
	return model.SectionKey{Space: r.Space, Section: r.Section}
}

// row is what the row says at a moment. The rate is that of a list.
func (r sectionRow) row(m *moment) model.SectionRow {
	return model.SectionRow{
		Counter: r.Counter.counter(m, r.MaxID, m.listRate, listRate, true),
		Life:    r.Life, Term: r.Term, Open: r.Open, Unsure: r.Counter.LastChange < m.Changes,
	}
}

// The names of a section and of its space at the witness. That of the space is as high as
// those of all its sections.
const (
	sectionMark = "q"
	spaceMark   = "s"
)

func sectionCounter(k model.SectionKey) string { return sectionMark + ":" + k.String() }

// AllocateSections answers requests for numbers of sections and their terms, in order, in one
// transaction under the rows' locks; they name distinct sections, at most 64. When the
// transaction fails, or its COMMIT is not acknowledged, every answer is a *model.StoreError, and
// the numbers are never handed out. place says how the servers of the requests are reached, and
// sure that most of those that decide about it take them for the present ones. Safe for
// concurrent use, over processes too.
func (s *Store) AllocateSections(ctx context.Context, reqs []model.SectionRequest, place string, sure bool) []model.SectionGrant {
	const op = "allocate numbers of sequences"
	var out []model.SectionGrant
	err := s.inTx(ctx, op, func(tx *gorm.DB) (err error) {
		out, err = s.allocateSections(tx, reqs, place, sure)
		return err
	})
	if err != nil {
		return slices.Repeat([]model.SectionGrant{{Err: s.answer(ctx, op, err)}}, len(reqs))
	}
	return out
}

func (s *Store) allocateSections(tx *gorm.DB, reqs []model.SectionRequest, place string, sure bool) ([]model.SectionGrant, error) {
	m, err := s.moment(tx, toShare, toTake)
	if err != nil {
		return nil, err
	}
	keys := make([]model.SectionKey, len(reqs))
	for i, r := range reqs {
		keys[i] = r.Key
	}
	rows, known, err := s.lockSections(tx, &m, keys)
	if err != nil {
		return nil, err
	}
	fences, err := s.fencesOf(tx, reqs, rows)
	if err != nil {
		return nil, err
	}
	out := make([]model.SectionGrant, len(reqs))
	changed := map[model.SectionKey]model.SectionRow{}
	lost := map[string]bool{} // lives that lose a section
	for i, req := range reqs {
		row, found := rows[req.Key]
		if !found {
			out[i].Err = fmt.Errorf("%w: %q", model.ErrUnknownSpace, req.Key.Space)
			continue
		}
		old := fences[model.ServerOf(row.Life)]
		// For a life that nobody uses any more, or has another after it at the same place.
		req.Claim = req.Claim && (sure || old.Place == place || m.Now-old.RenewedAt > fenceQuiet.Milliseconds())
		before := row.row(&m)
		most := s.opts.Region.MaxNumber(model.MaxSequence)
		grant, next, err := before.Next(req, max(known[i], req.Bound), row.Step, most, s.server != nil, m.now)
		if errors.Is(err, model.ErrUnconfirmed) {
			err = fmt.Errorf("%w: if it was restored, raise max_id above the highest number in use; then run `shardid confirm --space %s`", err, req.Key.Space)
		}
		if out[i], out[i].Err = grant, err; err == nil && next != before {
			changed[req.Key] = next
			if next.Life != row.Life {
				lost[model.ServerOf(row.Life)] = true
			}
		}
		out[i].Number, out[i].Changes = fences[model.ServerOf(req.Life)].Number, m.Changes
	}
	if err := s.raiseSections(tx, m, changed, keys, known); err != nil {
		return nil, err
	}
	if err := s.storeSections(tx, m, rows, changed); err != nil || len(lost) == 0 {
		return out, err
	}
	number, err := endLeases(tx, lost)
	for i, req := range reqs {
		if lost[model.ServerOf(req.Life)] {
			out[i].Number = number
		}
	}
	return out, err
}

// endLeases gives the leases of lives of Redis another number: who has a lease under the one
// before asks anew for the terms of its sections when it renews it.
func endLeases(tx *gorm.DB, servers map[string]bool) (number int64, err error) {
	number = rand.Int64()
	return number, write(tx, "end leases", "UPDATE "+fenceTable+" SET number = ? WHERE server IN ?", number, slices.Collect(maps.Keys(servers)))
}

// lockSections locks the rows, and reads the marks of their counters, in the order of the keys.
func (s *Store) lockSections(tx *gorm.DB, m *moment, keys []model.SectionKey) (map[model.SectionKey]sectionRow, []int64, error) {
	numbers, counters := map[string][]int{}, make([]string, len(keys))
	for i, k := range keys {
		numbers[k.Space], counters[i] = append(numbers[k.Space], k.Section), sectionCounter(k)
	}
	rows := make(map[model.SectionKey]sectionRow, len(keys))
	oldest := int64(math.MaxInt64)
	for _, space := range slices.Sorted(maps.Keys(numbers)) { // in one order, so that no two wait for each other
		found, err := query[[]sectionRow](tx, "lock the sections", "SELECT space, section, max_id, doubt, last_change, tokens, taken_at, life, term, open, "+
			"(SELECT step FROM "+sequenceTable+" WHERE name = space) AS step FROM "+sectionTable+
			" WHERE space = ? AND section IN ? ORDER BY section"+s.forUpdate(), space, numbers[space])
		if err != nil {
			return nil, nil, err
		}
		for _, r := range found {
			rows[r.key()] = r
			oldest = min(oldest, r.Counter.LastChange)
		}
	}
	known, err := s.marks(tx.Statement.Context, *m, counters)
	if err == nil {
		err = m.readChanges(tx, oldest)
	}
	return rows, known, err
}

// raiseSections raises the marks of what was taken, and of the spaces.
func (s *Store) raiseSections(tx *gorm.DB, m moment, changed map[model.SectionKey]model.SectionRow, keys []model.SectionKey, known []int64) error {
	var marks []model.Mark
	var before []int64
	spaces := map[string]int64{}
	for i, k := range keys {
		if next, found := changed[k]; found {
			marks, before = append(marks, model.Mark{Counter: sectionCounter(k), Value: next.Last}), append(before, known[i])
			spaces[k.Space] = max(spaces[k.Space], next.Last)
		}
	}
	for space, highest := range spaces { // after those of the sections: others raise them, too
		marks = append(marks, model.Mark{Counter: spaceMark + ":" + space, Value: highest})
	}
	return s.raise(tx.Statement.Context, m, marks, before)
}

// storeSections writes all rows with one statement, each only if its max_id is still the one
// that was read.
func (s *Store) storeSections(tx *gorm.DB, m moment, rows map[model.SectionKey]sectionRow, changed map[model.SectionKey]model.SectionRow) error {
	if len(changed) == 0 {
		return nil
	}
	var sql, where strings.Builder
	var args, wheres []any
	name := s.either("CONCAT(space, '_', section)", "space || '_' || section")
	sql.WriteString("UPDATE " + sectionTable + " SET ")
	for _, column := range []struct {
		name  string
		value func(model.SectionRow) any
	}{
		// max_id comes last: MySQL assigns in this order, and WHERE has the old one.
		{"doubt", func(r model.SectionRow) any { return r.Doubt }},
		{"tokens", func(r model.SectionRow) any { return r.Tokens }},
		{"taken_at", func(r model.SectionRow) any { return max(0, r.At.UnixMilli()) }},
		{"life", func(r model.SectionRow) any { return r.Life }},
		{"term", func(r model.SectionRow) any { return r.Term }},
		{"open", func(r model.SectionRow) any { return r.Open }},
		{"max_id", func(r model.SectionRow) any { return r.Last }},
	} {
		fmt.Fprintf(&sql, "%s = CASE %s%s END, ", column.name, name, strings.Repeat(" WHEN ? THEN ?", len(changed)))
		for k, next := range changed {
			args = append(args, k.String(), column.value(next))
		}
	}
	fmt.Fprintf(&sql, "last_change = %d WHERE ", m.Changes)
	for k := range changed {
		where.WriteString(" OR (space = ? AND section = ? AND max_id = ?)")
		wheres = append(wheres, k.Space, k.Section, rows[k].MaxID)
	}
	return updateRows(tx, len(changed), "store the sections", sql.String()+where.String()[len(" OR "):], append(args, wheres...)...)
}

// fenceQuiet is how long a life of Redis must not have been used by any replica for others to
// take its sections away; replicas renew its lease every 3 s.
const fenceQuiet = 5 * time.Second

// fenceRow is a row of shardid_fence.
type fenceRow struct {
	Server    string
	Number    int64
	Place     string
	RenewedAt int64
}

// fencesOf reads the rows of the lives that give numbers of the sections, or shall.
func (s *Store) fencesOf(tx *gorm.DB, reqs []model.SectionRequest, rows map[model.SectionKey]sectionRow) (map[string]fenceRow, error) {
	if s.server == nil {
		return nil, nil //nolint:nilnil // nothing is fenced
	}
	servers := map[string]bool{}
	for _, r := range reqs {
		servers[model.ServerOf(r.Life)], servers[model.ServerOf(rows[r.Key].Life)] = true, true
	}
	return readFences(tx, slices.Collect(maps.Keys(servers)), share)
}

func readFences(tx *gorm.DB, servers []string, lock string) (map[string]fenceRow, error) {
	found, err := query[[]fenceRow](tx, "read the fence", "SELECT server, number, place, renewed_at FROM "+fenceTable+
		" WHERE server IN ? ORDER BY server"+lock, servers)
	all := make(map[string]fenceRow, len(found))
	for _, f := range found {
		all[f.Server] = f
	}
	return all, err
}

// RenewFence renews the leases of the lives of Redis that a replica uses, at a place: those that
// it has under the number that it gets last from the beginning of the call on. It knows all
// spaces that there are. Errors: *model.StoreError.
func (s *Store) RenewFence(ctx context.Context, servers []string, place string) (model.Fence, error) {
	return within(ctx, s, "renew the fence of sequences", func(tx *gorm.DB) (f model.Fence, err error) {
		m, err := s.moment(tx, toShare, toCount)
		if err != nil {
			return f, err
		}
		f = model.Fence{Changes: m.Changes, Numbers: map[string]int64{}}
		if s.server != nil && len(servers) > 0 {
			f.Numbers, err = renewFences(tx, m, servers, place)
		}
		if err == nil {
			f.Spaces, err = readSpaces(tx)
		}
		return f, err
	})
}

func renewFences(tx *gorm.DB, m moment, servers []string, place string) (map[string]int64, error) {
	rows, err := readFences(tx, servers, exclusive)
	if err != nil {
		return nil, err
	}
	numbers := make(map[string]int64, len(servers))
	for _, server := range slices.Sorted(slices.Values(servers)) {
		if f, found := rows[server]; found {
			numbers[server] = f.Number
			continue
		}
		numbers[server] = rand.Int64()
		err := write(tx, "begin a lease", "INSERT INTO "+fenceTable+" (server, number, place, renewed_at) VALUES (?, ?, ?, ?)",
			server, numbers[server], place, m.Now)
		if err != nil {
			return nil, err
		}
	}
	const keep = 24 * time.Hour // those that nobody has used for so long are of Redis servers that are gone
	return numbers, cmp.Or(
		write(tx, "renew the leases", "UPDATE "+fenceTable+" SET place = ?, renewed_at = ? WHERE server IN ?", place, m.Now, servers),
		write(tx, "forget leases", "DELETE FROM "+fenceTable+" WHERE renewed_at < ?", m.Now-keep.Milliseconds()))
}

// settleSections raises the rows of sections that are below their marks. Which server gave what
// the database lacks is not known.
func (s *Store) settleSections(ctx context.Context, marks map[model.SectionKey]int64) error {
	for part := range slices.Chunk(slices.Collect(maps.Keys(marks)), 64) {
		err := s.inTx(ctx, "settle sections", func(tx *gorm.DB) error {
			m, err := s.moment(tx, toShare)
			if err != nil {
				return err
			}
			rows, _, err := s.lockSections(tx, &m, part)
			if err != nil {
				return err
			}
			changed := map[model.SectionKey]model.SectionRow{}
			for key, row := range rows {
				if next := row.row(&m); next.Last < marks[key] {
					next.Counter, next.Life = next.Raise(marks[key]), model.UnknownLife
					changed[key] = next
				}
			}
			return s.storeSections(tx, m, rows, changed)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// parseSection reads the name of a section, as SectionKey.String gives it.
func parseSection(name string) (key model.SectionKey, ok bool) {
	at := strings.LastIndexByte(name, '_')
	if at < 0 {
		return key, false
	}
	section, err := strconv.Atoi(name[at+1:])
	return model.SectionKey{Space: name[:at], Section: section}, err == nil
}
