//go:build unix

package testserver

import (
	"net"
	"testing"

	"shardid/scripts/check"
)

// taken returns a port somebody listens on.
func taken(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	wantNil(t, "listen", err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// A port that was free when picked and is not when the server starts.
func TestPortClash(t *testing.T) {
	t.Parallel()
	redis, mariadb, zookeeper := Redis(t), MariaDB(t), ZooKeeper(t)
	free, err := freePorts(3)
	wantNil(t, "free ports", err)
	for name, c := range map[string]struct {
		server *server
		picks  []int
	}{
		"redis":     {&redis.server, []int{taken(t), taken(t), free[0]}},
		"mariadb":   {&mariadb.server, []int{taken(t), free[1]}},
		"zookeeper": {&zookeeper.server, []int{taken(t), free[2]}},
	} {
		t.Run(name, func(t *testing.T) {
			wantNil(t, "stop", c.server.stop())
			tries := 0
			wantNil(t, "start", c.server.startOn(func(int) ([]int, error) { tries++; return []int{c.picks[tries-1]}, nil }))
			check.Equal(t, tries, len(c.picks), "tries")
		})
	}
}
