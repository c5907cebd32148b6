package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"shardid/model"
)

// Four tables may have been made by another program before: the article's service, Leaf, a fork of
// Leaf, UidGenerator. Their rows stay, and those programs can go on. What such a table lacks of the
// definition in the baseline is read from information_schema and put into one ALTER, so that it is
// upgraded whole or not at all; before the first one, everything that could make it fail or lose
// something is looked for, and refused by name.

// errInTheWay: an upgrade in place would fail or lose something.
var errInTheWay = errors.New("the schema cannot be upgraded")

// adopted is a table that another program may have made, and that is upgraded in place.
type adopted struct {
	name      string   // of the table
	columns   []string // without them it is another table
	key       string   // columns of the primary key, if it has one
	obstacles []obstacle
	ours      bool // types, NULLs, defaults and checks become those of the definition, too
}

func adoptedTables() []adopted {
	return []adopted{
		{table, []string{"app_id", "app_name", "max_id", "shard_id"}, "app_id,shard_id", obstacles(), true},
		{tagTable, []string{"biz_tag", "max_id", "step"}, "biz_tag", nil, false},
		{workerTable, []string{"id", "ip", "port", "ip_port", "max_timestamp"}, "id", nil, false},
		{nodeTable, []string{"id", "host_name", "port", "type", "launch_date", "modified", "created"}, "id", nil,
			false},
	}
}

// preflight changes nothing. It refuses a schema newer than the files or older than the baseline, and
// a table made by others that is not what its name says, or whose rows the upgraded table could not hold.
func (s *Store) preflight(g *gorm.DB, files fs.FS) error {
	list, err := listMigrations(files)
	if err != nil {
		return err
	}
	have, err := s.schemaVersion(g)
	if err := cmp.Or(err, refuseVersion(have, list)); err != nil {
		return err
	}
	for _, a := range adoptedTables() {
		if err := a.check(g); err != nil {
			return err
		}
	}
	return nil
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

// alterations gives what makes the table, if it is there, fit the baseline: none when it does.
func (a adopted) alterations(g *gorm.DB, baseline string) (statements []string, err error) {
	const here = " WHERE table_schema = DATABASE() AND table_name = ?"
	look := "look at " + a.name
	have, err := query[[]columnFacts](g, look, `SELECT LOWER(column_name) AS name, data_type AS data_type,
			column_type AS column_type, is_nullable AS is_nullable, COALESCE(column_default, '') AS column_default,
			extra AS extra, COALESCE(character_set_name, '') AS charset, COALESCE(character_maximum_length, 0) AS length
		FROM information_schema.columns`+here, a.name)
	if err != nil || len(have) == 0 {
		return nil, err
	}
	indexes, err := query[[]string](g, look, `SELECT CONCAT(IF(non_unique, '', 'UNIQUE '),
			LOWER(GROUP_CONCAT(column_name ORDER BY seq_in_index)))
		FROM information_schema.statistics`+here+` GROUP BY index_name, non_unique`, a.name)
	if err != nil {
		return nil, err
	}
	constraints, err := query[[]string](g, look,
		`SELECT constraint_name FROM information_schema.table_constraints`+here, a.name)
	if err != nil {
		return nil, err
	}
	is, err := query[struct{ Engine, TableCollation string }](g, look,
		`SELECT engine AS engine, table_collation AS table_collation FROM information_schema.tables`+here, a.name)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, line := range definition(baseline, a.name) {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "PRIMARY":
			if !slices.Contains(constraints, "PRIMARY") {
				parts = append(parts, "ADD "+line)
			}
		case "UNIQUE", "KEY":
			_, columns, _ := strings.Cut(strings.TrimSuffix(line, ")"), "(")
			columns = strings.ToLower(strings.ReplaceAll(columns, " ", ""))
			if !slices.Contains(indexes, "UNIQUE "+columns) &&
				(kind == "UNIQUE" || !slices.Contains(indexes, columns)) {
				parts = append(parts, "ADD "+line)
			}
		case "CONSTRAINT":
			if name, _, _ := strings.Cut(rest, " "); a.ours && !slices.Contains(constraints, name) {
				parts = append(parts, "ADD "+line)
			}
		default:
			at := slices.IndexFunc(have, func(c columnFacts) bool { return c.Name == strings.ToLower(kind) })
			switch {
			case at < 0:
				parts = append(parts, "ADD COLUMN "+withCharset(line, 0))
			case !have[at].fits(line, a.ours):
				parts = append(parts, "MODIFY "+withCharset(line, have[at].Length))
				if have[at].IsNullable == "YES" && strings.Contains(line, "NOT NULL") {
					statements = append(statements, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %[2]s IS NULL",
						a.name, kind, cmp.Or(defaultOf(line), "''")))
				}
			}
		}
	}
	if is.Engine != "InnoDB" { // row locks need it
		parts = append(parts, "ENGINE=InnoDB")
	}
	if a.ours && !strings.HasPrefix(is.TableCollation, "utf8mb4") {
		parts = append(parts, "DEFAULT CHARACTER SET utf8mb4")
	}
	if len(parts) == 0 {
		return nil, nil
	}
	if !a.ours { // strict modes refuse any ALTER of a table whose timestamps default to zero
		statements = append(statements, "SET SESSION sql_mode = ''")
	}
	return append(statements, "ALTER TABLE "+a.name+" "+strings.Join(parts, ", ")), nil
}

// columnFacts is a column as information_schema has it.
type columnFacts struct {
	Name          string // in lower case
	DataType      string // without its width, such as bigint
	ColumnType    string // with it, and unsigned
	IsNullable    string // YES or NO
	ColumnDefault string // MariaDB quotes a text, MySQL does not; "" for none
	Extra         string // such as on update current_timestamp
	Charset       string // "" for what is no text
	Length        int    // of a text, in characters
}

// fits says whether the column can stay beside the definition. In a table of others only texts in
// another character set cannot; in ours type, NULLs and default are those of the definition, and a
// text may be longer.
func (c columnFacts) fits(line string, ours bool) bool {
	if c.DataType == "varchar" && c.Charset != "utf8mb4" {
		return false
	}
	if !ours || !strings.Contains(line, "NOT NULL") && defaultOf(line) == "" {
		return true
	}
	if strings.Contains(line, "ON UPDATE") &&
		!strings.Contains(strings.ToLower(c.Extra), "on update current_timestamp") {
		return false
	}
	is := strings.ToLower(strings.NewReplacer("'", "", "()", "").Replace(c.ColumnDefault))
	if want := defaultOf(line); want != "" && is != strings.ToLower(strings.Trim(want, "'")) {
		return false
	}
	if !strings.Contains(line, "NOT NULL") {
		return true
	}
	declared := strings.Fields(line)[1]
	kind, width, _ := strings.Cut(strings.TrimSuffix(declared, ")"), "(")
	least, _ := strconv.Atoi(width) // a number has no width
	return c.DataType == kind && c.IsNullable == "NO" && c.Length >= least &&
		!strings.Contains(c.ColumnType, "unsigned")
}

// definition gives the lines of a table in the baseline: a column, a key or a check each.
func definition(baseline, name string) (lines []string) {
	_, body, _ := strings.Cut(baseline, "CREATE TABLE IF NOT EXISTS "+name+" (\n")
	body, _, _ = strings.Cut(body, "\n) ENGINE")
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// defaultOf is the default of a column's definition, as it is written there; "" for none and NULL.
func defaultOf(line string) string {
	_, value, found := strings.Cut(line, " DEFAULT ")
	value, _, _ = strings.Cut(value, " ")
	if !found || value == "NULL" {
		return ""
	}
	return value
}

var varchar = regexp.MustCompile(`varchar\((\d+)\)`)

// withCharset writes out the character set of a text, which would be the table's otherwise, and
// makes it at least as long as it is. Tags keep apart what differs in case.
func withCharset(line string, length int) string {
	width := varchar.FindStringSubmatch(line)
	if width == nil || strings.Contains(line, "CHARACTER SET") {
		return line
	}
	if least, _ := strconv.Atoi(width[1]); length < least { // it matched digits
		length = least
	}
	kind := fmt.Sprintf("varchar(%d) CHARACTER SET utf8mb4", length)
	if strings.HasPrefix(line, "biz_tag ") {
		kind += " COLLATE utf8mb4_bin"
	}
	return varchar.ReplaceAllLiteralString(line, kind)
}

// planAdoption gives the statements that upgrade the tables of other programs, in order; none when
// they fit the baseline.
func planAdoption(g *gorm.DB, files fs.FS) (statements []string, err error) {
	list, err := listMigrations(files)
	if err != nil {
		return nil, err
	}
	baseline, err := fs.ReadFile(files, list[0].name)
	if err != nil {
		return nil, fmt.Errorf("read the baseline: %w", err)
	}
	for _, a := range adoptedTables() {
		alterations, err := a.alterations(g, string(baseline))
		if err != nil {
			return nil, err
		}
		statements = append(statements, alterations...)
	}
	return statements, nil
}

// alterAdopted runs those statements, and tells each before it runs.
func alterAdopted(ctx context.Context, g *gorm.DB, db *sql.DB, files fs.FS, progress func(string)) error {
	statements, err := planAdoption(g, files)
	if err != nil || len(statements) == 0 {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	defer discard(conn) // its mode is not that of the others
	for _, statement := range statements {
		progress("a table that another program made: " + statement)
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("upgrade a table that another program made: %s: %w", statement, err)
		}
	}
	return nil
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
			"CONCAT(COUNT(*), ' rows, highest max_id ', COALESCE(MAX(max_id), 'NULL'))",
			"GROUP BY app_id, shard_id HAVING COUNT(*) > 1"},
		{"app_id outside 0…255", "move those apps to a free app_id or delete their rows: an ID has 8 bits for it",
			"app_id",
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
