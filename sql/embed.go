// Package migrations holds the numbered schema migrations of every database
// shardid runs on. Each file may be loaded by hand (`mysql db < file`, in
// order, any number of times) as well as by `shardid migrate`.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed mysql/*.sql sqlite/*.sql
var files embed.FS

// MySQL gives the migrations for MySQL 8.0.16+ and MariaDB 10.11+, file names
// at the root.
func MySQL() (fs.FS, error) { return fs.Sub(files, "mysql") }

// SQLite gives the migrations for SQLite, file names at the root.
func SQLite() (fs.FS, error) { return fs.Sub(files, "sqlite") }
