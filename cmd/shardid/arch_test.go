package main_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rule says that what is imported may be imported only from some folders. Folders and imports hold what is below them.
type rule struct {
	imported string
	except   []string // below it, which the rule is not about
	only     []string // folders that may
}

// rules are the arrows of the architecture, for all but test files.
func rules() []rule {
	return []rule{
		{imported: "shardid/repository", only: []string{"cmd", "repository", "scripts"}},
		{imported: "shardid/service", only: []string{"cmd", "service", "scripts"}},
		{imported: "shardid/client", except: []string{"shardid/client/hold", "shardid/client/idgen",
			"shardid/client/idtext"}, only: []string{"client", "model", "scripts", "docs/examples"}},
		{imported: "shardid/model", only: []string{"cmd", "model", "repository", "service", "scripts"}},
		{imported: "shardid/cmd", only: []string{"cmd"}},
		{imported: "shardid/scripts", only: []string{"scripts", "repository/listtest", "repository/workertest",
			"repository/sequencetest"}},
		{imported: "github.com/gin-gonic/gin", only: []string{"service/httpapi", "scripts/bench"}},
		{imported: "go.opentelemetry.io", only: []string{"service/observe", "service/httpapi"}},
		{imported: "gorm.io", only: []string{"repository/sqlstore", "client/gormid", "docs/examples"}},
		{imported: "github.com/redis/go-redis", only: []string{"repository/redisstore", "cmd", "scripts/testserver",
			"scripts/rig", "scripts/bench"}},
	}
}

// TestArchitecture reads the imports of every file of the module.
func TestArchitecture(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files++
		checkImports(t, name)
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files read, %v", files, err)
	}
}

func checkImports(t *testing.T, name string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	folder := path.Dir(strings.TrimPrefix(filepath.ToSlash(name), "../../"))
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Error(err)
		}
		for _, r := range rules() {
			isAllowed := slices.ContainsFunc(r.only, func(f string) bool { return within(folder, f) })
			if within(imported, r.imported) && !slices.Contains(r.except, imported) && !isAllowed {
				t.Errorf("%s imports %s", name, imported)
			}
		}
	}
}

// within says whether a path is root or below it.
func within(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }
