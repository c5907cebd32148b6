//go:build unix

// Package testserver starts private Redis, Sentinel, Redis Cluster, MariaDB and
// ZooKeeper servers for tests: real servers, on free ports of 127.0.0.1, each in
// a temporary folder of its own.
//
//	func TestMain(m *testing.M) { testserver.Main(m) }
//
//	func TestStore(t *testing.T) {
//		db := testserver.SharedMariaDB(t).NewDatabase(t) // a DSN
//		rdb := testserver.Redis(t)                       // may be killed
//		zoo := testserver.ZooKeeper(t).Addr()            // host:port
//		...
//	}
//
// A helper returns when its server answers and fails the test when it does
// not; with `go test -short` it skips the test. Private servers end with their
// test, shared ones with the test process.
//
// # Other versions
//
// DB=mysql-9.7, mariadb-10.11 or mariadb-11.8 chooses what runs where MariaDB is
// asked for, KV=redis-7.0, redis-8.0 or valkey-9.1 what runs where Redis is. Without
// them it is what is installed. scripts/fetch-test-server.sh fetches the others.
//
// # Nothing is left behind
//
// A server belongs to a watchdog: a shell that waits for the end of a pipe from
// the test process. The kernel closes that pipe however the test process ends,
// kill -9 included; the watchdog then kills the server and removes the folder.
// The ordinary end of a test takes the same path.
//
// # Goroutines
//
// The package starts no goroutine, so goleak sees only the caller's own; a Fake and
// the links of an Ensemble have some, which end with their test.
// Unless said otherwise its functions and methods belong to the goroutine that
// runs the test, as they report errors by t.Fatal.
package testserver
