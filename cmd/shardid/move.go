package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/repository/workerfile"
)

// moveEmbedded takes the embedded database of a data folder over into db, which has just been migrated, and tells what
// it did. A process that serves with that database keeps it.
func moveEmbedded(ctx context.Context, cfg Config, db *sqlstore.Store, from string, tell func(string)) (err error) {
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		from = filepath.Join(from, "shardid.db")
	}
	ours, err := sqlstore.IsOwnFile(ctx, from)
	if err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("%w: --from %s is no database of shardid: name the data_dir of the embedded deployment, "+
			"or the file", model.ErrInvalidArgument, from)
	}
	lock, err := workerfile.Lock(from + ".lock")
	if err != nil {
		return fmt.Errorf("stop the shardid that serves with %s: %w", from, err)
	}
	defer func() { err = cmp.Or(err, lock.Close()) }()
	embedded, err := sqlstore.Open(ctx, sqlstore.Options{Driver: sqlstore.SQLite, DSN: from, Region: region(cfg)})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, embedded.Close()) }()
	if err := embedded.Migrate(ctx, nil); err != nil {
		return err
	}
	moved, err := db.MoveFrom(ctx, embedded)
	if err != nil {
		return err
	}
	for _, m := range moved {
		tell(fmt.Sprintf("%s: %d rows taken over", m.Table, m.Rows))
	}
	tell(from + " hands out nothing any more: start the replicas with the configuration of this command")
	return nil
}
