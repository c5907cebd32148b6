package deploytest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

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

// tree is the files of the sources, some of them changed.
type tree map[string]string // path below root to content

// read gives a file, changed or as it is.
func (f tree) read(path string) string {
	if text, ok := f[path]; ok {
		return text
	}
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		panic(err) // a test that names a file that is not there
	}
	return string(raw)
}

// decode reads all documents of a YAML file; a key that T does not know is an error.
func decode[T any](f tree, path string) ([]T, error) {
	var all []T
	dec := yaml.NewDecoder(strings.NewReader(f.read(path)), yaml.Strict(), yaml.DisallowUnknownField())
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

// complaints collects what is wrong.
type complaints []string

// unless complains when ok does not hold.
func (c *complaints) unless(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Sprintf(format, args...))
	}
}

// change is a mistake in a file that a check must notice.
type change struct{ file, from, to, complaint string }

// notices makes each mistake by itself and sees that the check complains of it.
func notices(t *testing.T, check func(tree) complaints, changes []change) {
	t.Helper()
	for _, c := range changes {
		t.Run(c.from+" becomes "+c.to, func(t *testing.T) {
			text := tree{}.read(c.file)
			if !strings.Contains(text, c.from) {
				t.Fatalf("%s does not hold %q", c.file, c.from)
			}
			found := check(tree{c.file: strings.Replace(text, c.from, c.to, 1)})
			if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, c.complaint) }) {
				t.Errorf("not noticed, want %q: %.300q", c.complaint, found)
			}
		})
	}
}

// wantNone fails with each complaint.
func wantNone(t *testing.T, found complaints) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}
