//go:build unix

package testserver

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// binaryDirs returns where distributions keep servers that are not in the PATH
// of an ordinary user.
func binaryDirs() []string {
	return []string{
		"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin",
		"/usr/libexec", "/usr/lib/mysql", "/usr/lib/mariadb", "/usr/local/mysql/bin",
		"/opt/homebrew/bin", "/opt/homebrew/sbin",
	}
}

// findBinary returns the path of the first of names found in PATH or dirs.
// The error tells people how to install the Debian package.
func findBinary(debian string, dirs []string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s not found: install the Debian package %s; `make test` or scripts/install-test-servers.sh does so",
		strings.Join(names, " or "), debian)
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
