package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"shardid/model"
)

// errInTheWay: an upgrade in place would fail or lose something.
var errInTheWay = errors.New(table + " cannot be upgraded")

// preflight changes nothing. It refuses a schema newer than the files, and an
// id_alloc made by others whose rows the upgraded table could not hold.
func preflight(ctx context.Context, db *sql.DB, files fs.FS) error {
	list, err := listMigrations(files)
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, db)
	if err != nil {
		return err
	}
	if err := refuseNewer(have, list); err != nil {
		return err
	}
	return checkAdoption(ctx, db)
}

// schemaVersion is 0 before the first migration.
func schemaVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	found, err := columns(ctx, db, versionTable)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM "+versionTable).Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("read version: %w", err)
	}
	return version, nil
}

// checkAdoption looks at the id_alloc that is there, if any, and names whatever
// stands in the way in one line.
func checkAdoption(ctx context.Context, db *sql.DB) error {
	found, err := columns(ctx, db, table)
	if err != nil || len(found) == 0 {
		return err
	}
	for _, name := range []string{"app_id", "app_name", "max_id", "shard_id"} {
		if !found[name] {
			return inTheWay(fmt.Sprintf("it has no column %s, so it is another table", name),
				"rename it, or use another database")
		}
	}
	if err := checkKey(ctx, db); err != nil {
		return err
	}
	var faults, cures []string
	for _, o := range obstacles() {
		rows, err := o.find(ctx, db, found)
		if err != nil {
			return err
		}
		if rows != "" {
			faults, cures = append(faults, o.fault+": "+rows), append(cures, o.cure)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return inTheWay(strings.Join(faults, "; "), strings.Join(cures, "; "))
}

func inTheWay(fault, cure string) error {
	return &model.StoreError{Store: "database", Op: "migrate",
		Err: fmt.Errorf("%w: %s", errInTheWay, fault), Advice: cure + "; nothing was changed"}
}

// checkKey refuses a table that is no table, or whose primary key is another.
func checkKey(ctx context.Context, db *sql.DB) error {
	var kind, key string
	err := db.QueryRowContext(ctx, `SELECT table_type, COALESCE((
			SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics
			WHERE table_schema = DATABASE() AND table_name = ? AND index_name = 'PRIMARY'), '')
		FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?`,
		table, table).Scan(&kind, &key)
	switch {
	case err != nil:
		return fmt.Errorf("look at %s: %w", table, err)
	case kind != "BASE TABLE":
		return inTheWay("it is a "+strings.ToLower(kind), "rename it, or use another database")
	case key != "" && !strings.EqualFold(key, "app_id,shard_id"):
		return inTheWay("its primary key is ("+key+")", "make it (app_id, shard_id) with ALTER TABLE "+table)
	}
	return nil
}

// columns gives the lower-case names of a table's columns; none without it.
func columns(ctx context.Context, db *sql.DB, name string) (map[string]bool, error) {
	rows, err := db.QueryContext(ctx, `SELECT LOWER(column_name) FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = ?`, name)
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", name, err)
	}
	defer rows.Close()
	found := map[string]bool{}
	for rows.Next() {
		var column string
		if err := rows.Scan(&column); err != nil {
			return nil, fmt.Errorf("look for %s: %w", name, err)
		}
		found[column] = true
	}
	return found, rows.Err()
}
