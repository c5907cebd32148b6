//go:build unix

package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edition is one version of a server that the tests can run on.
type edition struct {
	name     string   // as DB or KV gives it; "" is whatever is installed
	programs []string // names of the server, any of them
	banner   string   // what --version says of this version
	root     string   // where scripts/fetch-test-server.sh put it; "" is the installed one
}

// The names that DB and KV may have, the same as scripts/fetch-test-server.sh knows.
var (
	mariadbPrograms = []string{"mariadbd", "mysqld"}
	databases       = []edition{
		{name: "mysql-9.7", programs: []string{"mysqld"}, banner: "Ver 9.7."},
		{name: "mariadb-10.11", programs: mariadbPrograms, banner: "Ver 10.11."},
		{name: "mariadb-11.8", programs: mariadbPrograms, banner: "Ver 11.8."},
	}
	keyValues = []edition{
		{name: "redis-7.0", programs: []string{"redis-server"}, banner: "v=7.0."},
		{name: "redis-8.0", programs: []string{"redis-server"}, banner: "v=8.0."},
		{name: "valkey-9.1", programs: []string{"valkey-server"}, banner: "v=9.1."},
	}
)

// Database is the value of DB, which chooses the SQL server of MariaDB and
// SharedMariaDB; "" is the MariaDB that is installed. Safe for concurrent use.
func Database() string { return os.Getenv("DB") }

// KeyValue is the value of KV, which chooses the server of Redis, Sentinel and
// Cluster; "" is the Redis that is installed. Safe for concurrent use.
func KeyValue() string { return os.Getenv("KV") }

// OnMySQL reports whether DB chooses a MySQL, for statements that only one of the
// two products has. Safe for concurrent use.
func OnMySQL() bool { return strings.HasPrefix(Database(), "mysql-") }

// On makes MariaDB and Redis start for t what db and kv name, as DB and KV do for a whole
// run, and skips t where one of them is not here. It returns the folders of their clients,
// for a PATH. The shared servers stay what they are.
func On(t *testing.T, db, kv string) (clients []string) {
	t.Helper()
	skipShort(t)
	t.Setenv("DB", db)
	t.Setenv("KV", kv)
	for _, find := range []func() (edition, error){database, keyValue} {
		e, err := find()
		if err != nil {
			t.Skip(err)
		}
		if e.root != "" {
			clients = append(clients, filepath.Join(e.root, "usr", "bin"))
		}
	}
	return clients
}

// choose returns the edition that an environment variable names, or the installed one.
func choose(variable string, known []edition, installed edition) (edition, error) {
	name, names := os.Getenv(variable), []string(nil)
	if name == "" {
		return installed, nil
	}
	for _, e := range known {
		if e.name == name {
			return e.locate()
		}
		names = append(names, e.name)
	}
	return edition{}, fmt.Errorf("%s=%s names no server: choose one of %s, or leave it out for the installed one",
		variable, name, strings.Join(names, ", "))
}

// locate finds the edition: the installed server if it has that version, else the
// fetched one.
func (e edition) locate() (edition, error) {
	for _, e.root = range []string{"", filepath.Join(fetchedDir(), e.name)} {
		bin, err := e.program("", e.programs...)
		if err != nil {
			continue
		}
		if out, err := exec.Command(bin, "--version").Output(); err == nil && strings.Contains(string(out), e.banner) {
			return e, nil
		}
	}
	return e, fmt.Errorf("%s is not in %s: `scripts/fetch-test-server.sh %s` fetches it", e.name, e.root, e.name)
}

// program returns the path of the first of names that this edition has: in the PATH, or where distributions keep
// servers, unless it was fetched. The error tells people what to do.
func (e edition) program(debian string, names ...string) (string, error) {
	dirs := []string{"", "/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/usr/libexec", "/usr/lib/mysql",
		"/usr/lib/mariadb", "/usr/local/mysql/bin", "/opt/homebrew/bin", "/opt/homebrew/sbin"}
	advice := "install the Debian package " + debian + "; `make test` or scripts/install-test-servers.sh does so"
	if e.root != "" {
		dirs = []string{filepath.Join(e.root, "usr/sbin"), filepath.Join(e.root, "usr/bin")}
		advice = "remove " + e.root + " and fetch the server again"
	}
	for _, name := range names {
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return filepath.Abs(path)
			}
		}
	}
	return "", fmt.Errorf("%s not found: %s", strings.Join(names, " or "), advice)
}

// fetchedDir is where scripts/fetch-test-server.sh puts what it fetches.
func fetchedDir() string {
	if dir := os.Getenv("SHARDID_TEST_SERVERS"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "shardid", "test-servers")
	}
	return filepath.Join(os.Getenv("HOME"), ".cache", "shardid", "test-servers")
}

func database() (edition, error) {
	return choose("DB", databases, edition{programs: mariadbPrograms})
}

func keyValue() (edition, error) {
	return choose("KV", keyValues, edition{programs: []string{"redis-server"}})
}

// MariaDBClient returns the path of the mariadb (or mysql) command line client of
// the server that DB chooses, "" when there is none. Safe for concurrent use.
func MariaDBClient() string {
	e, err := database()
	if err != nil {
		return ""
	}
	path, err := e.program("mariadb-server", "mariadb", "mysql")
	if err != nil {
		return ""
	}
	return path
}
