//go:build unix

package rig

import (
	"database/sql"
	"net"
	"strconv"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

// FreeAddrs are addresses of this machine that were free a moment ago. No connection gets one of their ports.
func FreeAddrs(t testing.TB, n int) (addrs []string) {
	t.Helper()
	ports, err := testserver.FreePorts(n)
	check.Must(t, err)
	for _, port := range ports {
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
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
