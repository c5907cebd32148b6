package sqlstore

import (
	"context"
	"fmt"
	"io/fs"

	"gorm.io/gorm"

	migrations "shardid/sql"
)

// sqliteVersions has goose's layout, so that its tool can read the file.
const sqliteVersions = `CREATE TABLE IF NOT EXISTS ` + versionTable + ` (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	version_id INTEGER NOT NULL,
	is_applied INTEGER NOT NULL,
	tstamp TIMESTAMP DEFAULT (datetime('now'))
)`

// migrateSQLite upgrades in one transaction that holds the write lock from its
// beginning: whoever waited finds the work done, and whoever is killed leaves
// nothing behind.
func (s *Store) migrateSQLite(ctx context.Context, progress func(string)) error {
	files, err := migrations.SQLite()
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	list, err := listMigrations(files)
	if err != nil {
		return err
	}
	var done []string
	err = s.untilFree(ctx, func() error {
		done = nil
		return s.inTx(ctx, func(tx *gorm.DB) (err error) {
			done, err = applySQLite(tx, files, list)
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, step := range append(done, fmt.Sprintf("schema is at version %d", list[len(list)-1].version)) {
		progress(step)
	}
	return nil
}

func applySQLite(tx *gorm.DB, files fs.FS, list []migration) (done []string, err error) {
	var have int64
	if err := tx.Exec(sqliteVersions).Error; err != nil {
		return nil, fmt.Errorf("version table: %w", err)
	}
	if err := tx.Raw("SELECT COALESCE(MAX(version_id), 0) FROM " + versionTable).Scan(&have).Error; err != nil {
		return nil, fmt.Errorf("read version: %w", err)
	}
	if err := refuseNewer(have, list); err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.version <= have {
			continue
		}
		if err := applyFile(tx, files, m); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		done = append(done, "applied "+m.name)
	}
	return done, nil
}

func applyFile(tx *gorm.DB, files fs.FS, m migration) error {
	text, err := fs.ReadFile(files, m.name)
	if err != nil {
		return err
	}
	if err := tx.Exec(string(text)).Error; err != nil {
		return err
	}
	return tx.Exec("INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (?, 1)", m.version).Error
}
