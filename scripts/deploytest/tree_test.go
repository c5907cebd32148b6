package deploytest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := os.MkdirAll(buildRoot(), 0o755); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(buildRoot()); err != nil {
			fmt.Fprintln(os.Stderr, "deploytest:", err)
		}
		os.Exit(code)
	}))
}

// buildRoot is the folder of what this process builds.
func buildRoot() string {
	return filepath.Join(os.TempDir(), "shardid-deploytest-"+strconv.Itoa(os.Getpid()))
}

// root is the folder of the sources.
const root = "../.."

// read gives a file of the sources.
func read(path string) string {
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		panic(err) // a test that names a file that is not there
	}
	return string(raw)
}

// decode reads all documents of a YAML file; a key that T does not know is an error.
func decode[T any](path string) ([]T, error) {
	var all []T
	dec := yaml.NewDecoder(strings.NewReader(read(path)), yaml.Strict(), yaml.DisallowUnknownField())
	for {
		var one T
		err := dec.Decode(&one)
		if err != nil && err.Error() == "EOF" {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, one)
	}
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

func mebibytes(text string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(text, "B"), "Mi"))
	if err != nil {
		return 0
	}
	return n
}

// version is that of the sources.
func version() string {
	found := regexp.MustCompile(`var version = "(.*)"`).FindStringSubmatch(read("cmd/shardid/version.go"))
	if found == nil {
		return "unknown"
	}
	return found[1]
}

// checks are those of one test.
type checks struct{ *testing.T }

// unless complains when ok does not hold.
func (c checks) unless(ok bool, format string, args ...any) {
	c.Helper()
	if !ok {
		c.Errorf(format, args...)
	}
}
