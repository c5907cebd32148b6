package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"shardid/scripts/check"
	"shardid/service/access"
)

// Everything that is appended at the same time is there afterwards.
func TestAppendedTokensAreNotLost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	const count = 40
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			check.OK(t, appendEntry(file, entryOf(fmt.Sprint("service-", i))))
		})
	}
	all.Wait()
	tokens, err := access.ReadFile(file)
	if err != nil || len(tokens) != count {
		t.Errorf("%d tokens of %d, %v", len(tokens), count, err)
	}
}

func entryOf(name string) string {
	_, sum := access.Generate()
	return tokenFlags{name: name, role: "get"}.entry(sum)
}

// A symbolic link stays one and its file is written; a link to nothing is refused.
func TestAppendFollowsALink(t *testing.T) {
	dir := t.TempDir()
	check.Must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	file, link := filepath.Join(dir, "real", "tokens.yaml"), filepath.Join(dir, "link.yaml")
	if err := os.Symlink(filepath.Join("real", "tokens.yaml"), link); err != nil {
		t.Skip(err)
	}
	if err := appendEntry(link, entryOf("a")); err == nil || !strings.Contains(err.Error(), "correct the link") {
		t.Errorf("a link to nothing: %v", err)
	}
	check.Must(t, os.WriteFile(file, []byte("[]\n"), 0o640))
	check.Must(t, appendEntry(link, entryOf("b")))
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	tokens, err := access.ReadFile(file)
	info, statErr := os.Stat(file)
	if err != nil || len(tokens) != 1 || statErr != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%d tokens, %v; %v", len(tokens), err, info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(left) != 1 {
		t.Errorf("files are left over: %v", left)
	}
}
