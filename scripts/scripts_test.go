// Package scripts tests the shell scripts beside it.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulncheck: a check that could not look passes and says so where make test shows it
// last; a finding fails; the next check that could look takes the words away.
func TestVulncheck(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "govulncheck")
	skipped := filepath.Join(filepath.Dir(tool), "vulncheck-skipped")
	for _, c := range []struct {
		says   string
		status string
		fails  bool
		loud   bool
	}{
		{"govulncheck: fetching vulnerabilities: Get https://vuln.go.dev: no such host", "1", false, true},
		{"No vulnerabilities found.", "0", false, false},
		{"govulncheck: fetching vulnerabilities: no such host", "1", false, true},
		{"Vulnerability #1: GO-2026-0001", "3", true, false},
		{"govulncheck: loading packages: a broken file", "1", true, false},
	} {
		if err := os.WriteFile(tool, []byte("#!/bin/sh\necho '"+c.says+"' >&2\nexit "+c.status+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("./vulncheck.sh", tool).CombinedOutput()
		if (err != nil) != c.fails || strings.Contains(string(out), "!!! NOT CHECKED") != c.loud {
			t.Errorf("%s: %v\n%s", c.says, err, out)
		}
		left, _ := os.ReadFile(skipped) // none is as it should be
		if strings.Contains(string(left), "!!! NOT CHECKED") != c.loud {
			t.Errorf("%s: make test ends with %q", c.says, left)
		}
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(makefile), "\ntest: ")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	if lines := strings.Split(recipe, "\n"); !strings.Contains(lines[len(lines)-1], "vulncheck-skipped") {
		t.Errorf("make test ends with %s", lines[len(lines)-1])
	}
}

// TestRerunFailed: failed tests run again, each alone; what shows a repeated ID, or is
// no failure of a few tests, does not.
func TestRerunFailed(t *testing.T) {
	const late = "--- FAIL: TestLate (1.00s)\n    late_test.go:3: too late\n    --- FAIL: TestLate/one (1.00s)\nFAIL\nFAIL\tshardid/one\t1.0s\n"
	for name, c := range map[string]struct {
		log, again string // the tests that run again
		passes     string // a pattern of their names
		ok         bool
	}{
		"passes alone":          {late + "ok  \tshardid/two\t1.0s\n", "-run ^TestLate$ shardid/one", "TestLate", true},
		"fails alone":           {late, "-run ^TestLate$ shardid/one", "TestElse", false},
		"two packages":          {late + "--- FAIL: TestB (0s)\nFAIL\nFAIL\tshardid/two\t1.0s\n", "-run ^TestLate$ shardid/one\n-run ^TestB$ shardid/two", "Test", true},
		"one of two":            {late + "--- FAIL: TestB (0s)\nFAIL\nFAIL\tshardid/two\t1.0s\n", "-run ^TestLate$ shardid/one\n-run ^TestB$ shardid/two", "TestB", false},
		"an ID came twice":      {"    ledger_test.go:9: ID 7 came twice\n" + late, "", "Test", false},
		"none came twice":       {"    restore_test.go:9: 5000 IDs after the restore, 0 of them twice\n" + late, "-run ^TestLate$ shardid/one", "Test", true},
		"none of a story":       {"    directed_host_test.go:71: uid: 187000 IDs, 0 times twice\n" + late, "-run ^TestLate$ shardid/one", "Test", true},
		"some of a story":       {"    directed_host_test.go:71: uid: 187000 IDs, 10 times twice\n" + late, "", "Test", false},
		"a test's name says so": {"=== RUN   TestLate/each_twice\n    --- FAIL: TestLate/each_twice (1.00s)\n" + late, "-run ^TestLate$ shardid/one", "Test", true},
		"data race":             {"WARNING: DATA RACE\n" + late, "", "Test", false},
		"panic":                 {"panic: nil map\n" + late, "", "Test", false},
		"does not compile":      {"FAIL\tshardid/one [build failed]\n", "", "Test", false},
		"package without tests": {late + "FAIL\nFAIL\tshardid/two\t1.0s\n", "", "Test", false},
		"no test failed":        {"signal: killed\n", "", "Test", false},
		"six tests":             {strings.Repeat("--- FAIL: TestLate (0s)\n", 6) + "FAIL\tshardid/one\t1s\n", "", "Test", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log, command, ran := filepath.Join(dir, "log"), filepath.Join(dir, "command"), filepath.Join(dir, "ran")
			script := "#!/bin/sh\necho \"$@\" >>" + ran + "\necho \"$2\" | grep -q '" + c.passes + "'\n"
			for file, text := range map[string]string{log: c.log, command: script} {
				if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("./rerun-failed.sh", log, command).CombinedOutput()
			if (err == nil) != c.ok || strings.Contains(string(out), "PASSED ALONE") != c.ok {
				t.Errorf("%v:\n%s", err, out)
			}
			again, _ := os.ReadFile(ran) // none is as it should be
			if got := strings.TrimSpace(string(again)); got != c.again {
				t.Errorf("ran again: %q, want %q", got, c.again)
			}
		})
	}
}
