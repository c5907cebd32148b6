//go:build unix

package stories_test

import (
	"regexp"
	"strings"
	"testing"
)

// try is a command, how it ends, and what it prints and says on stderr.
type try struct {
	args   string
	exit   int
	stdout string // regular expression
	stderr string // part
}

// in runs it, with further arguments. On stderr is nothing when it works, else one line.
func (c try) in(t *testing.T, dir string, s settings, more ...string) outcome {
	t.Helper()
	o := shardidIn(t, dir, s, append(strings.Fields(c.args), more...)...)
	isShown := regexp.MustCompile(c.stdout).MatchString(o.stdout)
	if o.exit != c.exit || !isShown || !strings.Contains(o.stderr, c.stderr) {
		t.Errorf("%s: %+v, want exit %d, %q, %q", c.args, o, c.exit, c.stdout, c.stderr)
	}
	wantOneLine(t, o)
	return o
}

// wantOneLine: nothing on stderr when it worked, else one line.
func wantOneLine(t *testing.T, o outcome) {
	t.Helper()
	lines := strings.Count(o.stderr, "\n")
	if o.exit == 0 && o.stderr != "" || o.exit != 0 && (lines != 1 || !strings.HasPrefix(o.stderr, "shardid: ")) {
		t.Errorf("exit %d, stderr: %q", o.exit, o.stderr)
	}
}
