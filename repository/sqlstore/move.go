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
// rows go to. It is taken back unless a COMMIT may have had no answer; then the same move may be tried again. The
// secret of scrambled apps, which is copied, tells a database that has the rows from one that has others.

// movedPrefix begins the region of a database that was moved. The deployment follows that it was moved to, and the
// region that it had.
const movedPrefix = "moved/"

// batchRows is how many rows are copied in one statement.
const batchRows = 500

// notMoved are the tables about the server itself, its replicas and its schema.
var notMoved = []string{
	deploymentTable, replicaTable, changeTable, fenceTable, versionTable, "sqlite_sequence",
}

// Moved is how many rows of a table were copied.
type Moved struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
}

// ErrMoved says that all was copied before.
var ErrMoved = errors.New("it was moved here already")

// MovedError says that a SQLite file was moved. It is a model.ErrLayoutChanged.
type MovedError struct{ file, deployment string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("set database.driver and database.dsn to those of deployment %s, to which %s was moved",
		e.deployment, e.file)
}

// Is says that the process cannot serve.
func (e *MovedError) Is(err error) bool { return err == model.ErrLayoutChanged }

// MoveFrom copies all that an embedded database has issued, and has that hand out nothing any more. Both have the
// schema of this version; tables and columns that only earlier ones used are left out. Errors: ErrMoved;
// model.ErrRefused for a database that has rows of its own, and for another one of another region; *MovedError for
// another one that was moved elsewhere; *model.StoreError, after which the same move may be tried again. Nothing has
// changed after an error that does not say that.
func (s *Store) MoveFrom(ctx context.Context, from *Store) (moved []Moved, err error) {
	own, err := s.Deployment(ctx)
	if err != nil {
		return nil, err
	}
	tables, err := s.movedTables(ctx, from)
	if err != nil {
		return nil, err
	}
	const op = "move into the database"
	if err := s.refuseFilled(s.gorm.WithContext(ctx), tables); err != nil {
		const secret = "SELECT scramble_secret FROM " + deploymentTable
		ours, _ := query[string](s.gorm.WithContext(ctx), "read", secret) // the first error is the one to tell
		theirs, _ := query[string](from.gorm.WithContext(ctx), "read", secret+" WHERE region LIKE ?",
			movedPrefix+own+"/%")
		if ours != "" && ours == theirs {
			return nil, ErrMoved
		}
		return nil, s.answer(ctx, op, err)
	}
	region, mayBeThere, err := from.markMoved(ctx, own)
	if err != nil {
		return nil, err
	}
	moved, err = withMoment(ctx, s, op, []need{toOwn}, func(tx *gorm.DB, m *moment) (all []Moved, err error) {
		if m.Region != region {
			err = fmt.Errorf("%w: %w: its IDs are of region %q, and those of this one of %q",
				model.Do("set region.id and region.bits to %q", region), model.ErrRefused, region, m.Region)
		}
		if err := cmp.Or(err, s.refuseFilled(tx, tables)); err != nil {
			return nil, err
		}
		all, err = moveTables(tx, from.gorm.WithContext(ctx), tables, m.Deployment)
		mayBeThere = mayBeThere || err == nil // the COMMIT follows
		return all, err
	})
	switch {
	case err == nil:
		return moved, nil
	case mayBeThere: // now, or by an earlier move
		return nil, fmt.Errorf("%w, as the database may have taken everything over: %w",
			model.Do("run the same command again"), err)
	}
	return nil, errors.Join(err, from.do(ctx, "take the mark back", func(tx *gorm.DB) error {
		return write(tx, "write", "UPDATE "+deploymentTable+" SET region = ?", region)
	}))
}

// markMoved has this database hand out nothing any more, and gives the region that it had. again says that the mark is
// that of an earlier move.
func (s *Store) markMoved(ctx context.Context, to string) (region string, again bool, err error) {
	mark := movedPrefix + to + "/"
	err = s.do(ctx, "mark the database as moved", func(tx *gorm.DB) error {
		now, err := query[string](tx, "read", "SELECT region FROM "+deploymentTable)
		if region, again = strings.CutPrefix(now, mark); again || err != nil {
			return err
		}
		if err := cmp.Or(s.refuseMoved(now), makeSecret(tx)); err != nil {
			return err
		}
		return write(tx, "write", "UPDATE "+deploymentTable+" SET region = ?", mark+now)
	})
	return region, again, err
}

// refuseMoved refuses, with *MovedError, a region that says that the database was moved.
func (s *Store) refuseMoved(region string) error {
	rest, moved := strings.CutPrefix(region, movedPrefix)
	if !moved {
		return nil
	}
	to, _, _ := strings.Cut(rest, "/")
	return &MovedError{s.opts.DSN, to}
}

// movedTable is a table with the columns that are copied.
type movedTable struct {
	name    string
	columns []string
}

// movedTables are all tables of a file but those of notMoved, as far as this database has them. Times at which a row
// was stored are left out: they mean the server's clock and zone, and no number depends on them but for the age of a
// layout (moveTables).
func (s *Store) movedTables(ctx context.Context, from *Store) (all []movedTable, err error) {
	g := from.gorm.WithContext(ctx)
	names, err := query[[]string](g, "read", "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	if err != nil {
		return nil, from.explain("list the tables", err)
	}
	for _, name := range names {
		known, err := query[[]string](s.gorm.WithContext(ctx), "read", s.columnsOf(), name)
		if err != nil {
			return nil, s.explain("list the columns of "+name, err)
		}
		if known == nil || slices.Contains(notMoved, name) {
			continue
		}
		columns, err := query[[]string](g, "read", "SELECT name FROM pragma_table_info(?) WHERE type <> 'TEXT' OR "+
			"COALESCE(dflt_value, '') NOT LIKE '%CURRENT_TIMESTAMP%' AND "+
			"COALESCE(dflt_value, '') NOT LIKE '%strftime%' AND name NOT IN ('create_time', 'update_time')", name)
		if err != nil {
			return nil, from.explain("list the columns of "+name, err)
		}
		columns = slices.DeleteFunc(columns, func(c string) bool { return !slices.Contains(known, c) })
		all = append(all, movedTable{name, columns})
	}
	return all, nil
}

// refuseFilled refuses, with model.ErrRefused, a database that has rows of its own.
func (s *Store) refuseFilled(tx *gorm.DB, tables []movedTable) error {
	for _, t := range tables {
		found, err := query[int64](tx, "look into "+t.name,
			"SELECT COUNT(*) FROM (SELECT 1 FROM "+t.name+" LIMIT 1) AS f")
		if err == nil && found > 0 {
			err = fmt.Errorf("%w: %w: %s has rows already", model.Do("move into a database that has no app, no tag, "+
				"no name and no space, and that no replica has used"), model.ErrRefused, t.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveTables copies the rows of all tables, and what the row of the deployment says of numbers. It reads a table at
// once: an embedded database is small.
func moveTables(tx, from *gorm.DB, tables []movedTable, own string) (all []Moved, err error) {
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
	row, err := query[struct {
		Deployment, ScrambleSecret    string
		NodeLast, NodeLost, NodeDoubt int64
	}](from, "read "+deploymentTable,
		"SELECT deployment, scramble_secret, node_last, node_lost, node_doubt FROM "+deploymentTable)
	if err != nil {
		return nil, err
	}
	// The registry of worker IDs is the same, with another name.
	err = write(tx, "rename the registry", "UPDATE "+claimTable+" SET registry = ? WHERE registry = ?", "mysql "+own,
		"mysql "+row.Deployment)
	if err != nil {
		return nil, err
	}
	// It has lost nothing since the layouts are there, which is now. Another registry may have: for that one they are
	// as old as can be.
	err = write(tx, "age the layouts", "UPDATE "+layoutTable+" SET recorded_at = '1971-01-01 00:00:00' WHERE EXISTS "+
		"(SELECT 1 FROM "+claimTable+" WHERE registry <> ?)", "mysql "+own)
	if err != nil {
		return nil, err
	}
	return all, write(tx, "write "+deploymentTable,
		"UPDATE "+deploymentTable+" SET scramble_secret = ?, node_last = ?, node_lost = ?, node_doubt = ?",
		row.ScrambleSecret, row.NodeLast, row.NodeLost, row.NodeDoubt)
}
