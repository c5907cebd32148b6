// Package migrations holds the schema of shardid, for MySQL and MariaDB and for SQLite: a baseline
// and, after it, numbered changes. Each file may be loaded by hand (`mysql db < file`, in order, any
// number of times) as well as by `shardid migrate`.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed mysql/*.sql sqlite/*.sql
var files embed.FS

// Files gives the files of a dialect, mysql (MySQL 8.0.16+, MariaDB 10.11+) or sqlite, with their
// names at the root.
func Files(dialect string) (fs.FS, error) { return fs.Sub(files, dialect) }
