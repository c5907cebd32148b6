package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"shardid/model"
)

// probe reads every column that is used, and no row.
const probe = "SELECT app_id, app_name, max_id, shard_id, step, description, create_time, update_time, " +
	"max_limit_id, limit_policy, current_step, taken_at, list_history, last_max_id, doubt, tokens, max_rate, rate_from FROM " + table +
	" WHERE 1 = 0 AND NOT EXISTS (SELECT app_id, shard_id, max_id FROM " + deletedTable + ") AND NOT EXISTS (SELECT " + deploymentColumns + " FROM " + deploymentTable + ")"

// Check says whether segments can be taken: the server answers, is a writable
// primary, and has id_alloc with all its columns and the tombstones. It is cheap: two queries that
// read no row. Errors: *model.StoreError with what to do.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkPrimary(ctx); err != nil {
		return s.explain("check", err)
	}
	if _, err := s.pool.ExecContext(ctx, probe); err != nil {
		return s.explain("check", err)
	}
	return nil
}

// checkPrimary returns errReadOnly for a server or a file that takes no writes.
// super_read_only switches read_only on as well.
func (s *Store) checkPrimary(ctx context.Context) error {
	if s.server == nil {
		return s.checkFile(ctx)
	}
	var readOnly, innodb, engine string
	err := s.pool.QueryRowContext(ctx, `SELECT @@global.read_only, @@global.innodb_read_only,
		COALESCE((SELECT engine FROM information_schema.tables
			WHERE table_schema = DATABASE() AND table_name = ?), '')`, table).Scan(&readOnly, &innodb, &engine)
	switch {
	case err != nil:
		return fmt.Errorf("ask for the server's state: %w", err)
	case isOn(readOnly) || isOn(innodb):
		return errReadOnly
	case engine != "" && engine != "InnoDB":
		return &model.StoreError{Store: "database", Op: "check", Advice: adviceMigrate,
			Err: fmt.Errorf("the engine of %s is %s, which cannot lock rows", table, engine)}
	}
	return nil
}

// checkFile takes the write lock and gives it back.
func (s *Store) checkFile(ctx context.Context) error {
	tx, err := s.pool.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := tx.Rollback(); err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	return nil
}

// isOn reads a server variable; MariaDB 12 has more than one way of on.
func isOn(value string) bool {
	return value != "0" && !strings.EqualFold(value, "OFF")
}
