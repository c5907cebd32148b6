//go:build unix

package rig

import (
	"database/sql"
	"net"
	"testing"

	"shardid/scripts/check"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

// FreeAddrs are addresses of this machine that were free a moment ago.
func FreeAddrs(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check.Must(t, err)
		defer listener.Close()
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs
}

// Query runs statements one by one; they must succeed.
func Query(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
