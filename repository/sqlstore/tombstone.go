package sqlstore

import (
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

// tombstone is what an app's shard had handed out before the app was deleted.
type tombstone struct {
	AppID   int64
	ShardID int64
	MaxID   int64
}

// TableName tells gorm the table.
func (tombstone) TableName() string { return deletedTable }

// tombstones gives those of the lists that have one. It reads without a lock and must
// follow the statement that locked or inserted the lists' rows: it then sees the
// deletion of whatever was there before them.
func tombstones(tx *gorm.DB, reqs []model.AllocRequest) (map[model.ListKey]int64, error) {
	var found []tombstone
	err := tx.Select("app_id, shard_id, max_id").Where(whereKeys(reqs)).Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("read what was handed out before a deletion: %w", err)
	}
	highest := make(map[model.ListKey]int64, len(found))
	for _, t := range found {
		highest[model.ListKey{App: uint8(t.AppID), Shard: uint8(t.ShardID)}] = t.MaxID
	}
	return highest, nil
}

// bury leaves tombstones for the lists of an app that are locked. What a list may have handed
// out without its row's knowledge counts too. The error may be model.ErrRefused, when that is
// not known.
func (s *Store) bury(tx *gorm.DB, m *moment, app uint8, rows map[model.ListKey]allocRow) error {
	var counted []countedRow
	var lists []model.AllocRequest
	for _, r := range wholeApp(app) {
		if row, found := rows[r.Key]; found {
			counted, lists = append(counted, row.counted(m)), append(lists, r)
		}
	}
	counters, marks, err := s.readCounters(tx, m, counted)
	if err != nil {
		return err
	}
	for i := range lists {
		c := counters[i].Raise(marks[i])
		if c.Doubt > model.MaxIndex-c.Last {
			return fmt.Errorf("%w: the database may be a copy that lacks indices of list %s: run `shardid confirm "+
				"--app %d` before the deletion",
				model.ErrRefused, lists[i].Key, app)
		}
		lists[i].Floor = c.Last + c.Doubt
	}
	return buryLists(tx, lists)
}

// buryLists leaves tombstones for lists, up to their Floor. One that is there only rises.
func buryLists(tx *gorm.DB, lists []model.AllocRequest) error {
	if len(lists) == 0 {
		return nil
	}
	before, err := tombstones(tx, lists)
	if err != nil {
		return err
	}
	graves := make([]tombstone, len(lists))
	for i, l := range lists {
		graves[i] = tombstone{AppID: int64(l.Key.App), ShardID: int64(l.Key.Shard), MaxID: max(l.Floor, before[l.Key])}
	}
	if err = tx.Where(whereKeys(lists)).Delete(&tombstone{}).Error; err == nil {
		err = tx.Create(&graves).Error
	}
	if err != nil {
		return fmt.Errorf("remember what was handed out: %w", err)
	}
	return nil
}

// wholeApp names all lists of an app.
func wholeApp(app uint8) []model.AllocRequest {
	reqs := make([]model.AllocRequest, model.Shards)
	for shard := range reqs {
		reqs[shard].Key = model.ListKey{App: app, Shard: uint8(shard)}
	}
	return reqs
}

// resume raises the rows of an app that were just inserted to its tombstones, and says where it
// begins. The error may be model.ErrRefused for a limit below what was handed out, and for a
// fresh app that was used.
func (s *Store) resume(tx *gorm.DB, m *moment, app model.App, rows []allocRow) (model.AppSummary, error) {
	summary := model.AppSummary{App: app, Shards: model.Shards}
	reqs := wholeApp(app.ID)
	before, err := tombstones(tx, reqs)
	if err != nil {
		return summary, err
	}
	counted := make([]countedRow, len(rows))
	for i, row := range rows {
		counted[i] = row.counted(m)
	}
	counters, marks, err := s.readCounters(tx, m, counted)
	if err != nil {
		return summary, err
	}
	for i := range rows {
		key := reqs[i].Key
		c := counters[i].Raise(max(before[key], marks[i]))
		if c.Last > 0 && app.Fresh != "" {
			return summary, errUsed(fmt.Sprint("app ID ", app.ID), c.Last)
		}
		if err := app.Limit.Check(key, c.Last); err != nil {
			return summary, err
		}
		summary.HighestIndex = max(summary.HighestIndex, min(c.Last+c.Doubt, model.MaxIndex))
		summary.TotalIndices += c.Last
		summary.Skipped = max(summary.Skipped, c.Doubt)
		summary.Waits = summary.Waits || c.Unconfirmed(0, min(app.Limit.LastIndex(key), m.region.MaxIndex()))
	}
	if len(before) == 0 {
		return summary, nil
	}
	const grave = "FROM " + deletedTable + " AS d WHERE d.app_id = " + table + ".app_id AND d.shard_id = " + table +
		".shard_id"
	return summary, write(tx, "go on above what was handed out before",
		"UPDATE "+table+" SET max_id = (SELECT d.max_id "+grave+") WHERE app_id = ? "+
			"AND EXISTS (SELECT 1 "+grave+" AND d.max_id > "+table+".max_id)", app.ID)
}

// accountedFor is the change up to which a new row accounts for: none, as the database may lack one
// of its name, or all of them with an operator's word that there never was one.
func (m moment) accountedFor(fresh string) int64 {
	if fresh == "" {
		return 0
	}
	return m.Changes
}

// errUsed refuses as fresh what is known to have been used.
func errUsed(what string, last int64) error {
	return fmt.Errorf("%w: add it without fresh: %s was used before, up to %d", model.ErrRefused, what, last)
}

// buryTag leaves a tombstone for a tag, whose next ID is maxID. One that is there only rises.
func buryTag(tx *gorm.DB, name string, maxID int64) error {
	kept, err := keptOfTag(tx, name)
	if err != nil || kept.Buried >= maxID {
		return err
	}
	if err := write(tx, "replace what was handed out before", "DELETE FROM "+deletedTagTable+" WHERE biz_tag = ?",
		name); err != nil {
		return err
	}
	return write(tx, "remember what was handed out", "INSERT INTO "+deletedTagTable+" (biz_tag, max_id) VALUES (?, ?)",
		name, maxID)
}
