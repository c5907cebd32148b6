package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"shardid/model"
)

// Four tables may have been made by another program before: the article's service, Leaf, a fork of Leaf,
// UidGenerator. Their rows stay. Such a table lacks columns of the baseline; then one ALTER gives it all columns,
// keys and checks of the baseline, so that it is upgraded whole or not at all. A column that holds more than that of
// the baseline keeps its type, as the other program may go on. In a strict mode the server refuses the ALTER where a
// row would not fit, by the row's key or the column's name.

// errInTheWay: an upgrade in place would fail or lose something.
var errInTheWay = errors.New("the table cannot be upgraded")

// adoptedTable is a table that another program may have made.
type adoptedTable struct {
	name    string
	columns []string // a table without them is another one
	key     string   // its primary key, if it has one
	unset   []string // columns whose NULL means what a new row has
}

// adoptedColumn is a column of such a table.
type adoptedColumn struct {
	Name, Type string
	Length     int64 // of a text, in characters; of others 0
}

// holdsMore says whether the column has values that do not fit into one of a type of the baseline.
func (c adoptedColumn) holdsMore(baseline string) bool {
	switch baseline {
	case "int":
		return strings.HasPrefix(c.Type, "bigint")
	case "date":
		return strings.HasPrefix(c.Type, "datetime") || strings.HasPrefix(c.Type, "timestamp")
	}
	var length int64
	_, err := fmt.Sscanf(baseline, "varchar(%d)", &length)
	return err == nil && c.Length > length
}

func adoptedTables() []adoptedTable {
	return []adoptedTable{
		{table, []string{"app_id", "app_name", "max_id", "shard_id"}, "app_id,shard_id",
			[]string{"step", "max_limit_id"}},
		{tagTable, []string{"biz_tag", "max_id", "step"}, "biz_tag", nil},
		{workerTable, []string{"id", "ip", "port", "ip_port", "max_timestamp"}, "id", nil},
		{nodeTable, []string{"id", "host_name", "port", "type", "launch_date", "modified", "created"}, "id", nil},
	}
}

// planUpgrade gives the statements that make the table, if it is there, fit the baseline: none when it does. The
// error, errInTheWay, tells of a table that is not what its name says.
func (a adoptedTable) planUpgrade(g *gorm.DB, baseline string) (statements []string, err error) {
	const here = " WHERE table_schema = DATABASE() AND table_name = ?"
	look := "look at " + a.name
	found, err := query[[]adoptedColumn](g, look, "SELECT LOWER(column_name) AS name, column_type AS type, "+
		"COALESCE(character_maximum_length, 0) AS length FROM information_schema.columns"+here, a.name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	columns := map[string]adoptedColumn{}
	for _, c := range found {
		columns[c.Name] = c
	}
	indexes, err := query[[]string](g, look, "SELECT LOWER(index_name) FROM information_schema.statistics"+here, a.name)
	if err != nil {
		return nil, err
	}
	is, err := query[struct{ Kind, Engine, PrimaryKey string }](g, look,
		"SELECT table_type AS kind, COALESCE(engine, '') AS engine, COALESCE((SELECT GROUP_CONCAT(LOWER(column_name) "+
			"ORDER BY seq_in_index) FROM information_schema.statistics"+here+" AND index_name = 'PRIMARY'), '') "+
			"AS primary_key FROM information_schema.tables"+here, a.name, a.name)
	if err != nil {
		return nil, err
	}
	for _, name := range a.columns {
		if _, has := columns[name]; !has {
			return nil, a.inTheWay("it has no column "+name+", so it is another table",
				"rename it, or use another database")
		}
	}
	switch {
	case is.Kind != "BASE TABLE":
		return nil, a.inTheWay("it is a "+strings.ToLower(is.Kind), "rename it, or use another database")
	case is.PrimaryKey != "" && is.PrimaryKey != a.key:
		return nil, a.inTheWay("its primary key is ("+is.PrimaryKey+")", "make it ("+a.key+") with ALTER TABLE "+a.name)
	}
	var parts []string
	complete := true
	// Of the baseline, the lines of the table: a column, a key or a check each.
	_, definition, _ := strings.Cut(baseline, "CREATE TABLE IF NOT EXISTS "+a.name+" (\n")
	definition, options, _ := strings.Cut(definition, "\n) ")
	options, _, _ = strings.Cut(options, ";")
	for line := range strings.Lines(definition) {
		line = strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ",")), " ")
		words := strings.Fields(strings.ToLower(line))
		switch words[0] {
		case "primary", "key", "unique":
			name := words[slices.Index(words, "key")+1] // PRIMARY KEY (…), UNIQUE KEY name (…)
			if words[0] == "primary" {
				name = words[0]
			}
			if !slices.Contains(indexes, name) {
				parts = append(parts, "ADD "+line)
			}
		case "constraint":
			parts = append(parts, "ADD "+line)
		default:
			column, has := columns[words[0]]
			if !has {
				complete, parts = false, append(parts, "ADD COLUMN "+line)
				continue
			}
			if column.holdsMore(words[1]) {
				line = strings.Replace(line, " "+words[1], " "+column.Type, 1)
			}
			parts = append(parts, "MODIFY "+line)
			if slices.Contains(a.unset, words[0]) {
				value := words[slices.Index(words, "default")+1]
				statements = append(statements,
					fmt.Sprintf("UPDATE %s SET %s = %s WHERE %[2]s IS NULL", a.name, words[0], value))
			}
		}
	}
	switch {
	case !complete:
		statements = append([]string{"SET SESSION sql_mode = 'STRICT_ALL_TABLES', " +
			"time_zone = @@global.time_zone"}, statements...)
		return append(statements, "ALTER TABLE "+a.name+" "+strings.Join(append(parts, options), ", ")), nil
	case is.Engine != "InnoDB": // row locks need it
		return []string{"ALTER TABLE " + a.name + " ENGINE=InnoDB"}, nil
	}
	return nil, nil
}

func (a adoptedTable) inTheWay(fault, cure string) error {
	return &model.StoreError{Store: "database", Op: "migrate",
		Err: fmt.Errorf("%w: %s: %s", errInTheWay, a.name, fault), Advice: cure + "; no table was changed"}
}
