package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
)

// FileState is what stands at the path of a SQLite file.
type FileState string

// The states of a file. Only FileOurs may follow an earlier start.
const (
	FileMissing FileState = "missing"
	FileEmpty   FileState = "empty"   // of no byte, or a database without tables
	FileForeign FileState = "foreign" // a database whose tables shardid did not make
	FileOurs    FileState = "ours"
)

// InspectSQLite looks at the file of a DSN and changes nothing: it makes no file, and
// no journal beside one. Errors: model.ErrInvalidArgument, *model.StoreError for a
// file that cannot be read.
func InspectSQLite(ctx context.Context, dsn string) (FileState, error) {
	path, err := sqlitePath(dsn)
	if err != nil {
		return "", err
	}
	s := &Store{file: path} // for the advice
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return FileMissing, nil
	case err != nil:
		return "", s.explain("look at "+path, err)
	case info.Size() == 0:
		return FileEmpty, nil
	}
	uri := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	db, err := sql.Open(sqliteDriver, uri.String())
	if err != nil {
		return "", s.explain("look at "+path, err)
	}
	defer db.Close()
	var tables, ours int
	err = s.untilFree(ctx, func() error {
		return db.QueryRowContext(ctx, "SELECT COUNT(*), COUNT(CASE WHEN name = ? THEN 1 END) FROM sqlite_master WHERE type = 'table'", versionTable).Scan(&tables, &ours)
	})
	switch {
	case err != nil:
		return "", s.explain("look at "+path, fmt.Errorf("read its tables: %w", err))
	case ours > 0:
		return FileOurs, nil
	case tables > 0:
		return FileForeign, nil
	}
	return FileEmpty, nil
}
