package sqlstore

import (
	"context"
	"fmt"
	"maps"
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
	Step    int64 `gorm:"->"` // of the space
}

func (r sectionRow) key() model.SectionKey {
	return model.SectionKey{Space: r.Space, Section: r.Section}
}

// counted is what the row keeps of its counter. Who gave what it is raised by is not known.
func (r sectionRow) counted(m *moment) countedRow {
	row := m.listCounted(r.Counter, r.MaxID, sectionCounter(r.key()))
	row.group = spaceCounter(r.Space)
	row.key, row.as = r.key().String(), []any{r.Space, r.Section, r.MaxID}
	row.further = func(model.Counter) []any { return []any{model.UnknownLife, r.Term, r.Open} }
	return row
}

// The names of a section and of its space at the witness. That of the space is as high as
// those of all its sections.
const (
	sectionMark = "q"
	spaceMark   = "s"
)

func sectionCounter(k model.SectionKey) string { return sectionMark + ":" + k.String() }

func spaceCounter(space string) string { return spaceMark + ":" + space }

// AllocateSections answers requests for numbers of sections and their terms, in order, in one
// transaction under the rows' locks; they name distinct sections, at most 64. When the
// transaction fails, or its COMMIT is not acknowledged, every answer is a *model.StoreError, and
// the numbers are never issued. place says how the servers of the requests are reached, and
// sure that most of those that decide about it take them for the present ones. Safe for
// concurrent use, over processes too.
func (s *Store) AllocateSections(
	ctx context.Context, reqs []model.SectionRequest, place string, sure bool,
) []model.SectionGrant {
	const op = "allocate numbers of sequences"
	var out []model.SectionGrant
	err := s.inMoment(ctx, op, []need{toShare, toTake}, func(tx *gorm.DB, m *moment) (err error) {
		out, err = s.takeSections(tx, m, reqs, place, sure)
		return err
	})
	if err != nil {
		return slices.Repeat([]model.SectionGrant{{Err: s.answer(ctx, op, err)}}, len(reqs))
	}
	return out
}

func (s *Store) takeSections(
	tx *gorm.DB, m *moment, reqs []model.SectionRequest, place string, sure bool,
) ([]model.SectionGrant, error) {
	keys := make([]model.SectionKey, len(reqs))
	for i, r := range reqs {
		keys[i] = r.Key
	}
	rows, err := s.lockSections(tx, keys)
	if err != nil {
		return nil, err
	}
	var fences map[string]fenceRow // of the lives that give numbers of the sections, or shall; a file fences nothing
	if s.server != nil {
		servers, lock := map[string]bool{}, share
		for _, r := range reqs {
			life := rows[r.Key].Life
			servers[model.ServerOf(r.Life)], servers[model.ServerOf(life)] = true, true
			if life != r.Life { // whose leases end: of two who shared the lock, neither could write
				lock = exclusive
			}
		}
		if fences, err = readFences(tx, slices.Collect(maps.Keys(servers)), lock); err != nil {
			return nil, err
		}
	}
	out := make([]model.SectionGrant, len(reqs))
	var of []int // the places of the requests that have a row
	var counted []countedRow
	for i, req := range reqs {
		row, found := rows[req.Key]
		if !found {
			out[i].Err = fmt.Errorf("%w: %q", model.ErrUnknownSpace, req.Key.Space)
			continue
		}
		of, counted = append(of, i), append(counted, row.counted(m))
	}
	lost := map[string]bool{} // lives that lose a section
	_, err = s.take(tx, m, sectionStorage(), counted, func(
		at int, c model.Counter, mark int64,
	) (model.Counter, bool, error) {
		i := of[at]
		req, row := reqs[i], rows[reqs[i].Key]
		old := fences[model.ServerOf(row.Life)]
		// For a life that nobody uses any more, or has another after it at the same place.
		req.Claim = req.Claim && (sure || old.Place == place || m.Now-old.RenewedAt > fenceQuiet.Milliseconds())
		before := model.SectionRow{Counter: c, Life: row.Life, Term: row.Term, Open: row.Open,
			Unsure: row.Counter.LastChange < m.Changes}
		most := s.opts.Region.MaxNumber(model.MaxSequence)
		grant, next, err := before.Next(req, max(mark, req.Bound), row.Step, most, s.server != nil, m.now)
		out[i], out[i].Err = grant, howToConfirm(err, "number", "--space "+req.Key.Space)
		out[i].Number, out[i].Changes = fences[model.ServerOf(req.Life)].Number, m.Changes
		if err != nil || next == before {
			return c, false, nil //nolint:nilerr // the error is of this section alone
		}
		if next.Life != row.Life {
			lost[model.ServerOf(row.Life)] = true
		}
		counted[at].further = func(model.Counter) []any { return []any{next.Life, next.Term, next.Open} }
		return next.Counter, true, nil
	})
	if err != nil || len(lost) == 0 {
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
	return number, write(tx, "end leases", "UPDATE "+fenceTable+" SET number = ? WHERE server IN ?", number,
		slices.Collect(maps.Keys(servers)))
}

// lockSections locks the rows, in one order, so that no two wait for each other.
func (s *Store) lockSections(tx *gorm.DB, keys []model.SectionKey) (map[model.SectionKey]sectionRow, error) {
	numbers := map[string][]int{}
	for _, k := range keys {
		numbers[k.Space] = append(numbers[k.Space], k.Section)
	}
	rows := make(map[model.SectionKey]sectionRow, len(keys))
	for _, space := range slices.Sorted(maps.Keys(numbers)) {
		found, err := query[[]sectionRow](tx, "lock the sections", "SELECT r.*, (SELECT step FROM "+sequenceTable+
			" WHERE name = space) AS step FROM "+sectionTable+" AS r WHERE space = ? AND section IN ? ORDER BY section"+
			s.forUpdate(), space, numbers[space])
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			rows[r.key()] = r
		}
	}
	return rows, nil
}

func sectionStorage() storage {
	return storage{
		table: sectionTable, key: "CONCAT(space, '_', section)", as: "(space = ? AND section = ? AND max_id = ?)",
		counter: counterColumns(), further: []string{"life", "term", "open"},
	}
}

// fenceQuiet is how long a life of Redis must not have been used by any replica for others to
// take its sections away; replicas renew its lease every 3 s.
const fenceQuiet = 5 * time.Second

// forgetFences removes the leases of Redis servers that are gone: nobody has used them for a day. It must keep others
// from the row of the deployment, as it locks all leases, and in no order.
func forgetFences(tx *gorm.DB, m *moment) error {
	return write(tx, "forget leases", "DELETE FROM "+fenceTable+" WHERE renewed_at < ?",
		m.Now-(24*time.Hour).Milliseconds())
}

// fenceRow is a row of shardid_fence.
type fenceRow struct {
	Server    string
	Number    int64
	Place     string
	RenewedAt int64
}

func readFences(tx *gorm.DB, servers []string, lock string) (map[string]fenceRow, error) {
	found, err := query[[]fenceRow](tx, "read the fence", "SELECT * FROM "+fenceTable+
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
	const op, allSpaces = "renew the fence of sequences", "SELECT * FROM " + sequenceTable
	if s.server == nil || len(servers) == 0 { // only a lease needs to know the server's history
		spaces, err := query[[]model.Space](s.gorm.WithContext(ctx), "read the spaces", allSpaces)
		return model.Fence{Spaces: spaces}, s.answer(ctx, op, err)
	}
	var f model.Fence
	err := s.takeOne(ctx, op, func(tx *gorm.DB) error { // several replicas may begin a lease at once
		m, err := s.moment(tx, toShare, toCount)
		if err != nil {
			return err
		}
		f.Changes, f.Numbers = m.Changes, map[string]int64{}
		f.Spaces, err = query[[]model.Space](tx, "read the spaces", allSpaces)
		if err != nil {
			return err
		}
		rows, err := readFences(tx, servers, exclusive)
		if err != nil {
			return err
		}
		for _, server := range slices.Sorted(slices.Values(servers)) {
			row, found := rows[server]
			if !found {
				row = fenceRow{server, rand.Int64(), place, m.Now}
				if err := tx.Table(fenceTable).Create(&row).Error; err != nil {
					return fmt.Errorf("begin a lease: %w", err)
				}
			}
			f.Numbers[server] = row.Number
		}
		return write(tx, "renew the leases", "UPDATE "+fenceTable+
			" SET place = ?, renewed_at = ? WHERE server IN ?", place, m.Now, servers)
	})
	if err != nil {
		return model.Fence{}, err
	}
	return f, nil
}

// raiseSections is raise for sections.
func (s *Store) raiseSections(tx *gorm.DB, m *moment, rows []sectionRow, confirmed bool) (int64, error) {
	counted := make([]countedRow, len(rows))
	for i, row := range rows {
		counted[i] = row.counted(m)
	}
	return s.raise(tx, m, sectionStorage(), counted, confirmed)
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
