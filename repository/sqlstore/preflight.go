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
var errInTheWay = errors.New("the schema cannot be upgraded")

// preflight changes nothing. It refuses a schema newer than the files, and a
// table made by others that is not what its name says, or whose rows the upgraded
// table could not hold.
func preflight(ctx context.Context, db *sql.DB, files fs.FS) error {
	var server string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&server); err != nil {
		return fmt.Errorf("ask for the version: %w", err)
	}
	if err := refuseProduct(server); err != nil {
		return err
	}
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
	for _, a := range []adopted{
		{table, []string{"app_id", "app_name", "max_id", "shard_id"}, "app_id,shard_id", obstacles()},
		{tagTable, []string{"biz_tag", "max_id", "step"}, "biz_tag", nil},
		{workerTable, []string{"id", "ip", "port", "ip_port", "max_timestamp"}, "id", nil},
		{nodeTable, []string{"id", "host_name", "port", "type", "launch_date", "modified", "created"}, "id", nil},
	} {
		if err := a.check(ctx, db); err != nil {
			return err
		}
	}
	return nil
}

// refuseProduct ends a migration that a server could not hold.
func refuseProduct(version string) error {
	p, found := model.ProductNamed(product(version, "", "", ""))
	if !found || p.Verdict != model.VerdictRefused {
		return nil
	}
	return &model.StoreError{Store: "database", Op: "migrate", Advice: p.Advice, Err: fmt.Errorf("%w: this is %s, version %s", errInTheWay, p.Name, version)}
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

// adopted is a table that another program may have made, and that is upgraded in place.
type adopted struct {
	name      string
	columns   []string // without them it is another table
	key       string   // columns of the primary key, if it has one
	obstacles []obstacle
}

// check looks at a table that is there, if it is, and names whatever
// stands in the way in one line.
func (a adopted) check(ctx context.Context, db *sql.DB) error {
	has, err := columns(ctx, db, a.name)
	if err != nil || len(has) == 0 {
		return err
	}
	for _, name := range a.columns {
		if !has[name] {
			return a.inTheWay("it has no column "+name+", so it is another table", "rename it, or use another database")
		}
	}
	var kind, key string
	err = db.QueryRowContext(ctx, `SELECT table_type, COALESCE((
			SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics
			WHERE table_schema = DATABASE() AND table_name = ? AND index_name = 'PRIMARY'), '')
		FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?`,
		a.name, a.name).Scan(&kind, &key)
	switch {
	case err != nil:
		return fmt.Errorf("look at %s: %w", a.name, err)
	case kind != "BASE TABLE":
		return a.inTheWay("it is a "+strings.ToLower(kind), "rename it, or use another database")
	case key != "" && !strings.EqualFold(key, a.key):
		return a.inTheWay("its primary key is ("+key+")", "make it ("+a.key+") with ALTER TABLE "+a.name)
	}
	var faults, cures []string
	for _, o := range a.obstacles {
		if !has[o.column] {
			continue
		}
		rows, err := o.find(ctx, db)
		if err != nil {
			return fmt.Errorf("look for %s: %w", o.fault, err)
		}
		if rows != "" {
			faults, cures = append(faults, o.fault+": "+rows), append(cures, o.cure)
		}
	}
	if len(faults) > 0 {
		return a.inTheWay(strings.Join(faults, "; "), strings.Join(cures, "; "))
	}
	return nil
}

func (a adopted) inTheWay(fault, cure string) error {
	return &model.StoreError{Store: "database", Op: "migrate",
		Err: fmt.Errorf("%w: %s: %s", errInTheWay, a.name, fault), Advice: cure + "; nothing was changed"}
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

// obstacle is a kind of rows that the upgraded table could not hold.
type obstacle struct {
	fault, cure string
	column      string // looked for only when the table has it
	what        string // SQL: how to name what is wrong with the row
	rest        string // SQL: from WHERE on
}

// namedRows is how many rows of a kind are named.
const namedRows = 5

func obstacles() []obstacle {
	return []obstacle{
		{"several rows for one list", "keep of each list only the row with the highest max_id", "max_id",
			"CONCAT(COUNT(*), ' rows, highest max_id ', COALESCE(MAX(max_id), 'NULL'))", "GROUP BY app_id, shard_id HAVING COUNT(*) > 1"},
		{"app_id outside 0…255", "move those apps to a free app_id or delete their rows: an ID has 8 bits for it", "app_id",
			"'out of range'", "WHERE app_id IS NULL OR app_id NOT BETWEEN 0 AND 255"},
		{"shard_id outside 0…63", "delete those rows: an ID has 6 bits for the shard", "shard_id",
			"'out of range'", "WHERE shard_id IS NULL OR shard_id NOT BETWEEN 0 AND 63"},
		{"max_id NULL, negative or beyond a bigint", "set max_id to the highest index handed out", "max_id",
			"COALESCE(max_id, 'NULL')", "WHERE max_id IS NULL OR max_id NOT BETWEEN 0 AND 9223372036854775807"},
		{"step outside 1…1000000", "set step to 1000", "step",
			"step", "WHERE step NOT BETWEEN 1 AND 1000000"},
		{"negative max_limit_id", "set max_limit_id to 0, which means no limit", "max_limit_id",
			"max_limit_id", "WHERE max_limit_id < 0 OR max_limit_id > 9223372036854775807"},
		{"unknown limit_policy", "set limit_policy to 'reject'", "limit_policy",
			"limit_policy", "WHERE limit_policy IS NULL OR limit_policy NOT IN ('reject', 'wrap')"},
	}
}

// find names up to namedRows rows, or gives "" when there are none.
func (o obstacle) find(ctx context.Context, db *sql.DB) (string, error) {
	//nolint:gosec // every part is a constant of this file
	query := fmt.Sprintf(`SELECT COALESCE(app_id, 'NULL'), COALESCE(shard_id, 'NULL'), COALESCE(%s, 'NULL')
		FROM %s %s ORDER BY 1, 2 LIMIT %d`, o.what, table, o.rest, namedRows+1)
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var app, shard, what string
		if err := rows.Scan(&app, &shard, &what); err != nil {
			return "", err
		}
		names = append(names, fmt.Sprintf("(app_id %s, shard_id %s) %s", app, shard, what))
	}
	if len(names) > namedRows {
		names[namedRows] = "and more"
	}
	return strings.Join(names, ", "), rows.Err()
}
