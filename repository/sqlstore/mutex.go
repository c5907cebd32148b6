package sqlstore

import (
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// errNoLockRow: the row that callers wait for each other at, or that of the
// deployment, is missing.
var errNoLockRow = errors.New("a row of the schema is missing")

// lockNamed makes this transaction the only one that gives out rows of a table,
// until it ends. As the first statement it also makes all that follow see what
// the others before it have stored. Locking the table's own rows instead would
// make callers who find none deadlock over the gap, and hold up renewals. The
// row is locked and never changed. SQLite's lock was taken by BEGIN. Errors:
// errReadOnly, errNoLockRow.
func (s *Store) lockNamed(tx *gorm.DB, name string) error {
	if s.server == nil {
		return nil
	}
	var found []string // of one column, whether the server is read-only
	err := tx.Raw("SELECT @@global.read_only FROM "+mutexTable+" WHERE name = ? FOR UPDATE", name).Scan(&found).Error
	switch {
	case err != nil:
		return fmt.Errorf("lock %s: %w", name, err)
	case len(found) == 0:
		return fmt.Errorf("%w: %s", errNoLockRow, name)
	case isOn(found[0]):
		return errReadOnly
	}
	return nil
}

// forUpdate ends a SELECT that locks its rows. SQLite's lock was taken by BEGIN.
func (s *Store) forUpdate() string {
	if s.server == nil {
		return ""
	}
	return " FOR UPDATE"
}
