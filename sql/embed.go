// Package migrations holds the schema of shardid, for MySQL and MariaDB and for SQLite: a baseline
// and, after it, numbered changes. Each file may be loaded by hand (`mysql db < file`, in order, any
// number of times) as well as by `shardid migrate`.
package migrations

import "embed"

// Files are those of the dialects, mysql (MySQL 8.0.16+, MariaDB 10.11+) and sqlite, in a folder each.
//
//go:embed mysql/*.sql sqlite/*.sql
var Files embed.FS
