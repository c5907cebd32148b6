package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"shardid/model"
)

// An embedded database moves to a server: the rows of all its tables are copied as they are, tombstones, leases and
// starts included, so that the server's database continues above every number that was issued. It is one transaction,
// into a database that has none of these rows.
//
// No number may be issued on both sides. So first the embedded database is marked as moved, in the column that each
// of its transactions looks at (region); shardid 0.3 refuses such a region, too. The mark names the deployment that the
// rows go to. It is taken back only when nothing was copied for sure; else the same move may be tried again.

// movedPrefix begins the region of a database that was moved. The deployment follows that it was moved to, and the
// region that it had.
const movedPrefix = "moved/"

// batchRows is how many rows are copied in one statement.
const batchRows = 500

// notMoved are the tables about the server itself, its replicas and its schema.
var notMoved = []string{
	deploymentTable, replicaTable, changeTable, fenceTable, mutexTable, versionTable, lockTable, "sqlite_sequence",
}

// Moved is how many rows of a table were copied.
type Moved struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
}

// MoveFrom copies all that an embedded database has issued, with which no process may serve meanwhile, and has that
// hand out nothing any more. Both have the schema of this version. Errors: model.ErrRefused, after which nothing has
// changed, for a database that has rows already, and for another one that was moved elsewhere or is of another region;
// *model.StoreError, after which the same move may be tried again.
func (s *Store) MoveFrom(ctx context.Context, from *Store) (moved []Moved, err error) {
	own, err := s.Deployment(ctx)
	if err != nil {
		return nil, err
	}
	tables, err := movedTables(from.gorm.WithContext(ctx))
	if err != nil {
		return nil, from.explain("list the tables", err)
	}
	if err := s.refuseFilled(s.gorm.WithContext(ctx), tables); err != nil {
		return nil, s.answer(ctx, "move into the database", err)
	}
	region, err := from.markMoved(ctx, own)
	if err != nil {
		return nil, err
	}
	const op = "move into the database"
	moved, err = withMoment(ctx, s, op, []need{toOwn}, func(tx *gorm.DB, m *moment) (_ []Moved, err error) {
		if m.Region != region {
			err = fmt.Errorf("%w: its IDs are of region %q, and those of this one of %q: "+
				"set region.id and region.bits to the former", model.ErrRefused, region, m.Region)
		}
		if err := cmp.Or(err, s.refuseFilled(tx, tables)); err != nil {
			return nil, err
		}
		return moveTables(tx, from.gorm.WithContext(ctx), tables)
	})
	if errors.Is(err, model.ErrRefused) || errors.Is(err, model.ErrLayoutChanged) {
		err = errors.Join(err, from.do(ctx, "take the mark back", func(tx *gorm.DB) error {
			return write(tx, "write", "UPDATE "+deploymentTable+" SET region = ?", region)
		}))
	}
	return moved, err
}

// markMoved has this database hand out nothing any more, and gives the region that it had.
func (s *Store) markMoved(ctx context.Context, to string) (region string, err error) {
	mark := movedPrefix + to + "/"
	return within(ctx, s, "mark the database as moved", func(tx *gorm.DB) (string, error) {
		now, err := query[string](tx, "read", "SELECT region FROM "+deploymentTable)
		if err != nil {
			return "", err
		}
		if region, again := strings.CutPrefix(now, mark); again {
			return region, nil
		}
		if err := refuseMoved(now); err != nil {
			return "", err
		}
		return now, write(tx, "write", "UPDATE "+deploymentTable+" SET region = ?", mark+now)
	})
}

// refuseMoved refuses, with model.ErrLayoutChanged, a region that says that the database was moved.
func refuseMoved(region string) error {
	rest, moved := strings.CutPrefix(region, movedPrefix)
	if !moved {
		return nil
	}
	to, _, _ := strings.Cut(rest, "/")
	return fmt.Errorf("%w: the database was moved to deployment %s, which continues with its numbers: "+
		"set database.driver and database.dsn to those of that one", model.ErrLayoutChanged, to)
}

// movedTable is a table with the columns that are copied.
type movedTable struct {
	name    string
	columns []string
}

// movedTables are all tables but those of notMoved. Times at which a row was stored are left out: they mean the
// server's clock and zone, and no number depends on them but for the age of a layout (moveTables).
func movedTables(g *gorm.DB) (all []movedTable, err error) {
	names, err := query[[]string](g, "read", "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	for _, name := range names {
		if slices.Contains(notMoved, name) {
			continue
		}
		columns, err := query[[]string](g, "read", "SELECT name FROM pragma_table_info(?) WHERE type <> 'TEXT' OR "+
			"COALESCE(dflt_value, '') NOT LIKE '%CURRENT_TIMESTAMP%' AND "+
			"COALESCE(dflt_value, '') NOT LIKE '%strftime%' AND name NOT IN ('create_time', 'update_time')", name)
		if err != nil {
			return nil, err
		}
		all = append(all, movedTable{name, columns})
	}
	return all, err
}

// refuseFilled refuses, with model.ErrRefused, a database that has rows of its own.
func (s *Store) refuseFilled(tx *gorm.DB, tables []movedTable) error {
	for _, t := range tables {
		found, err := query[int64](tx, "look into "+t.name,
			"SELECT COUNT(*) FROM (SELECT 1 FROM "+t.name+" LIMIT 1) AS f")
		if err == nil && found > 0 {
			err = fmt.Errorf("%w: %s has rows already: move into a database that has no app, no tag, no name "+
				"and no space, and that no replica has used", model.ErrRefused, t.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveTables copies the rows of all tables, and what the row of the deployment says of numbers. It reads a table at
// once: an embedded database is small.
func moveTables(tx, from *gorm.DB, tables []movedTable) (all []Moved, err error) {
	for _, t := range tables {
		var rows []map[string]any
		if err := from.Table(t.name).Select(t.columns).Find(&rows).Error; err != nil {
			return nil, fmt.Errorf("read %s: %w", t.name, err)
		}
		if len(rows) == 0 {
			continue
		}
		if err := tx.Table(t.name).CreateInBatches(rows, batchRows).Error; err != nil {
			return nil, fmt.Errorf("fill %s: %w", t.name, err)
		}
		all = append(all, Moved{t.name, int64(len(rows))})
	}
	// A layout whose age is not known is as old as one can be.
	err = write(tx, "age the layouts", "UPDATE "+layoutTable+" SET recorded_at = '1971-01-01 00:00:00'")
	if err != nil {
		return nil, err
	}
	row, err := query[struct {
		ScrambleSecret                string
		NodeLast, NodeLost, NodeDoubt int64
	}](from, "read "+deploymentTable,
		"SELECT scramble_secret, node_last, node_lost, node_doubt FROM "+deploymentTable)
	if err != nil {
		return nil, err
	}
	return all, write(tx, "write "+deploymentTable,
		"UPDATE "+deploymentTable+" SET scramble_secret = ?, node_last = ?, node_lost = ?, node_doubt = ?",
		row.ScrambleSecret, row.NodeLast, row.NodeLost, row.NodeDoubt)
}
