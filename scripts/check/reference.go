package check

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what tests make from the source, as make references does")

// Made reports a file that is not want, which was made from the source. With -update it
// writes it.
func Made(t testing.TB, file, want string) {
	t.Helper()
	if *update {
		Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	Must(t, err)
	if string(got) != want {
		t.Errorf("%s is out of date: make references", file)
	}
}

// MadePart is Made for the lines of a file between the comments <!-- NAME: made by make
// references --> and <!-- end of NAME -->, with the indentation of the first.
func MadePart(t testing.TB, file, name, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	Must(t, err)
	around := regexp.MustCompile(`(?s)^(.*\n( *)<!-- ` + name + `: made by make references -->\n).*?` +
		`( *<!-- end of ` + name + ` -->\n.*)$`)
	m := around.FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("%s has no comments around its part %s", file, name)
	}
	for line := range strings.Lines(want) {
		m[1] += m[2] + line
	}
	Made(t, file, m[1]+m[3])
}
