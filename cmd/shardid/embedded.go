package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"shardid/repository/sqlstore"
)

// errNoData: nothing was begun in this data folder.
var errNoData = errors.New("there is no database")

// checkEmbedded refuses to begin a new database where an earlier one was: its IDs
// would begin at 1 again. The worker file of an instance is written only after the
// database was there, so that it tells of one that was lost.
func checkEmbedded(ctx context.Context, cfg Config) error {
	if cfg.Database.Driver != sqlstore.SQLite {
		return nil
	}
	// Before the database: what another process makes in between is no trace.
	traces, err := filepath.Glob(filepath.Join(cfg.DataDir, "*", "*", "worker.json"))
	if err != nil || len(traces) == 0 {
		return err
	}
	state, err := sqlstore.InspectSQLite(ctx, cfg.DatabaseDSN())
	if err != nil || state == sqlstore.FileOurs {
		return err
	}
	what := map[sqlstore.FileState]string{
		sqlstore.FileMissing: "is not there",
		sqlstore.FileEmpty:   "is empty",
		sqlstore.FileForeign: "has no table of shardid",
	}[state]
	return fmt.Errorf("%s %s, but %s tells of an earlier start: a new database would issue its IDs again: "+
		"restore the file from a backup, or correct data_dir and database.dsn; if all of its IDs may be forgotten, remove %[3]s",
		cfg.DatabaseDSN(), what, traces[0])
}

// needData refuses a command that only reads or changes what is there, where there
// is nothing yet. Opening the database would make it.
func needData(ctx context.Context, cfg Config) error {
	if cfg.Database.Driver != sqlstore.SQLite {
		return nil
	}
	state, err := sqlstore.InspectSQLite(ctx, cfg.DatabaseDSN())
	if err != nil || state != sqlstore.FileMissing {
		return err
	}
	return fmt.Errorf("%w at %s: nothing was made; begin with `shardid serve` or `shardid provision`, or correct data_dir", errNoData, cfg.DatabaseDSN())
}
