package sqlstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gorm.io/gorm"

	"shardid/model"
)

// errInTheWay: an upgrade in place would fail or lose something.
var errInTheWay = errors.New("the schema cannot be upgraded")

// preflight changes nothing. It refuses a schema newer than the files, and a
// table made by others that is not what its name says, or whose rows the upgraded
// table could not hold.
func preflight(g *gorm.DB, files fs.FS) error {
	server, err := query[string](g, "ask for the version", "SELECT VERSION()")
	if err := cmp.Or(err, refuseProduct(server)); err != nil {
		return err
	}
	list, err := listMigrations(files)
	if err != nil {
		return err
	}
	have, err := schemaVersion(g)
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
		if err := a.check(g); err != nil {
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
func schemaVersion(g *gorm.DB) (int64, error) {
	found, err := columns(g, versionTable)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return newestApplied(g)
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
func (a adopted) check(g *gorm.DB) error {
	has, err := columns(g, a.name)
	if err != nil || len(has) == 0 {
		return err
	}
	for _, name := range a.columns {
		if !slices.Contains(has, name) {
			return a.inTheWay("it has no column "+name+", so it is another table", "rename it, or use another database")
		}
	}
	is, err := query[struct{ Kind, PrimaryKey string }](g, "look at "+a.name, `SELECT table_type AS kind, COALESCE((
			SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics
			WHERE table_schema = DATABASE() AND table_name = ? AND index_name = 'PRIMARY'), '') AS primary_key
		FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?`, a.name, a.name)
	switch {
	case err != nil:
		return err
	case is.Kind != "BASE TABLE":
		return a.inTheWay("it is a "+strings.ToLower(is.Kind), "rename it, or use another database")
	case is.PrimaryKey != "" && !strings.EqualFold(is.PrimaryKey, a.key):
		return a.inTheWay("its primary key is ("+is.PrimaryKey+")", "make it ("+a.key+") with ALTER TABLE "+a.name)
	}
	var faults, cures []string
	for _, o := range a.obstacles {
		if !slices.Contains(has, o.column) {
			continue
		}
		rows, err := o.find(g)
		if err != nil {
			return err
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
func columns(g *gorm.DB, name string) ([]string, error) {
	return query[[]string](g, "look for "+name, `SELECT LOWER(column_name) FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = ?`, name)
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
func (o obstacle) find(g *gorm.DB) (string, error) {
	rows, err := query[[]struct{ App, Shard, What string }](g, "look for "+o.fault, fmt.Sprintf(
		`SELECT COALESCE(app_id, 'NULL') AS app, COALESCE(shard_id, 'NULL') AS shard, COALESCE(%s, 'NULL') AS what
		FROM %s %s ORDER BY 1, 2 LIMIT %d`, o.what, table, o.rest, namedRows+1))
	var names []string
	for _, r := range rows {
		names = append(names, fmt.Sprintf("(app_id %s, shard_id %s) %s", r.App, r.Shard, r.What))
	}
	if len(names) > namedRows {
		names[namedRows] = "and more"
	}
	return strings.Join(names, ", "), err
}
