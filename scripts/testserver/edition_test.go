//go:build unix

package testserver

import (
	"context"
	"database/sql"
	"strings"
	"testing"
)

// The server that runs is the one that DB and KV name.
func TestEditionRuns(t *testing.T) {
	var version string
	wantNil(t, "ask", SharedMariaDB(t).withDB(askLimit, func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	}))
	_, want, _ := strings.Cut(Database(), "-")
	if !strings.HasPrefix(version, want) || OnMySQL() == strings.Contains(version, "MariaDB") {
		t.Errorf("DB=%s runs version %s", Database(), version)
	}
	info, err := SharedRedis(t).Client().Info(t.Context(), "server").Result()
	wantNil(t, "info", err)
	product, want, _ := strings.Cut(KeyValue(), "-")
	if product == "" {
		product = "redis"
	}
	if !strings.Contains(info, product+"_version:"+want) {
		t.Errorf("KV=%s runs %s", KeyValue(), info)
	}
}
