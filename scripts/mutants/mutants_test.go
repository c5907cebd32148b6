// Package mutants has patches of the real code, each of which leaves out one rule, with the test that
// must notice.
//
// Each file has those of one layer, or of one part of the model. A patch begins with its name behind two equals signs,
// and a sentence that says what it leaves out. A line follows with the arguments of go test,
//
//	test: ./repository/sqlstore -run 'TestOneWitness$'
//
// for the narrowest test that must fail; the word deep before them sets DEEP=1. Then comes a diff for git apply.
package mutants

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// always are the mutants of make test: of the lists in Redis, of the numbers of the database, of worker IDs.
var always = []string{"redisstore-push-life", "sqlstore-mark-late", "idgen-until"}

var (
	nameLine   = regexp.MustCompile(`(?m)^== (\S+)$`)
	testLine   = regexp.MustCompile(`(?m)^test: (deep )?(.+)$`)
	fileLine   = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)
	failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: \S+ .*\n +\S+\.go:\d+: .*`)
)

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs the servers of make test")
	}
	var all []byte
	files, _ := filepath.Glob("*.patch") // the pattern is right
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		all = append(all, text...)
	}
	begins := nameLine.FindAllSubmatchIndex(all, -1)
	check.Equal(t, len(begins), bytes.Count(all, []byte("\ntest: ")), "a name for each patch")
	missing := slices.Clone(always)
	for i, at := range begins {
		name, end := string(all[at[2]:at[3]]), len(all)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		text := all[at[1]:end]
		missing = slices.DeleteFunc(missing, func(one string) bool { return one == name })
		if os.Getenv("DEEP") == "" && !slices.Contains(always, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			test, noticed := run(t, name, text)
			t.Logf("%.0f s, %s: %.200s", time.Since(began).Seconds(), test, noticed)
		})
	}
	check.Equal(t, len(missing), 0, "mutants of make test that are missing", missing)
}

// run gives the test that a patch names, and what it says of the mutant.
func run(t *testing.T, patch string, text []byte) (test, noticed string) {
	t.Helper()
	named, files := testLine.FindSubmatch(text), fileLine.FindAllSubmatch(text, -1)
	if named == nil || files == nil {
		t.Fatalf("give %s a line \"test: PACKAGE -run 'TEST$'\", and a diff", patch)
	}
	root, err := filepath.Abs("../..")
	check.Must(t, err)
	folder, replaced := t.TempDir(), map[string]string{}
	for _, f := range files {
		original, mutated := filepath.Join(root, string(f[1])), filepath.Join(folder, string(f[1]))
		replaced[original] = mutated
		source, err := os.ReadFile(original)
		check.Must(t, err)
		check.Must(t, os.MkdirAll(filepath.Dir(mutated), 0o700))
		check.Must(t, os.WriteFile(mutated, source, 0o600))
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", "-")
	apply.Dir, apply.Stdin = folder, bytes.NewReader(text)
	if said, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("write %s anew for the code as it is now: %s", patch, said)
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": replaced})
	check.Must(t, os.WriteFile(filepath.Join(folder, "overlay"), overlay, 0o600))
	test = string(named[2])
	args := append([]string{"test"}, strings.Fields(strings.ReplaceAll(test, "'", ""))...)
	args = append(args, "-count=1", "-vet=off", "-timeout=5m", "-overlay="+filepath.Join(folder, "overlay"))
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir, command.Env = root, append(os.Environ(), "DEEP="+strings.TrimSpace(string(named[1])))
	said, err := command.CombinedOutput()
	failed := failedTest.Find(said)
	switch {
	case err == nil && strings.Contains(string(said), "no tests to run"):
		t.Fatalf("name another test in %s: there is none of the name: %s", patch, test)
	case err == nil:
		t.Fatalf("write a test that notices %s, or drop the rule: this one passes: %s", patch, test)
	case failed == nil:
		t.Fatalf("correct %s: no test has failed, but:\n%s", patch, said)
	}
	return test, strings.Join(strings.Fields(string(failed)), " ")
}
