package httpapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"shardid/docs"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

// manualHTML is around a page of the documentation. In braces stand the page's name, its
// language, the way to the folder of the documentation, and its HTML.
//
//go:embed web/manual.html
var manualHTML string

// manual is the documentation as pages, by path: alarms of the console link to their
// sections of it. Those in Chinese are in the folder zh.
var manual = sync.OnceValue(func() map[string][]byte {
	english := goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	chinese := goldmark.New(goldmark.WithExtensions(extension.GFM,
		extension.NewCJK(extension.WithEastAsianLineBreaks())), // a break within a sentence is no space
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	pages := map[string][]byte{}
	err := fs.WalkDir(docs.Pages, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		source, err := docs.Pages.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Ext(name) != ".md" {
			pages[name] = source
			return nil
		}
		language, docsFolder, markdown := "en", "", english
		if path.Dir(name) == "zh" {
			language, docsFolder, markdown = "zh-CN", "../", chinese
		}
		// Of links to files that are not part of the binary the texts stay.
		outside := regexp.MustCompile(`\[([^\]]*)\]\(` + docsFolder + `(?:\.\./|examples)[^)]*\)`)
		var body bytes.Buffer
		err = markdown.Convert(outside.ReplaceAll(source, []byte("$1")), &body,
			parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
		page := strings.NewReplacer("{title}", html.EscapeString(name), "{language}", language, "{docs}", docsFolder,
			"{body}", alarmRow.ReplaceAllString(body.String(), `<tr id="$2"$1`)).Replace(manualHTML)
		pages[name] = []byte(page)
		if folder, isIndex := strings.CutSuffix(name, "README.md"); isIndex {
			pages[folder] = pages[name]
		}
		return err
	})
	if err != nil { // not with files that are part of the program
		panic(fmt.Sprintf("render the documentation: %v", err))
	}
	return pages
})

// alarmRow is a row about an alarm, in the table of a page that has no headings for them.
var alarmRow = regexp.MustCompile(`<tr(>\s*<td><a href="[^"]*#(shardid[a-z]+)")`)

// anchors gives headings the anchors that they have on GitHub, in any script. Its keys are
// those that are taken.
type anchors map[string]bool

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// Generate implements parser.IDs.
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	name := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(string(heading)), ""), " ", "-")
	for n, first := 1, name; a[name]; n++ {
		name = first + "-" + strconv.Itoa(n)
	}
	a[name] = true
	return []byte(name)
}

// Put implements parser.IDs.
func (a anchors) Put(name []byte) { a[string(name)] = true }
