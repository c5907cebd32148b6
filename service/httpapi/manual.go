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
var manual = sync.OnceValue(func() map[string]asset {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.NewCJK(extension.WithEastAsianLineBreaks())),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	pages := map[string]asset{}
	err := fs.WalkDir(docs.Pages, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		source, err := docs.Pages.ReadFile(name)
		if err != nil {
			return err
		}
		language, docsFolder := "en", ""
		if path.Dir(name) == "zh" {
			language, docsFolder = "zh-CN", "../"
		}
		var body bytes.Buffer
		err = markdown.Convert(withoutOutside(name, source), &body, parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
		page := strings.NewReplacer("{title}", html.EscapeString(name), "{language}", language, "{docs}", docsFolder,
			"{body}", body.String()).Replace(manualHTML)
		pages[name] = newAsset("page.html", []byte(page))
		return err
	})
	if err != nil { // not with files that are part of the program
		panic(fmt.Sprintf("render the documentation: %v", err))
	}
	return pages
})

// link is one of Markdown: an image's mark, the text, the file, and the rest.
var link = regexp.MustCompile(`(!?)\[([^\]]*)\]\(([^)#\s]*)([^)]*)\)`)

// withoutOutside removes images from a page, and links to files that are not part of the
// binary; their texts stay.
func withoutOutside(name string, source []byte) []byte {
	return link.ReplaceAllFunc(source, func(found []byte) []byte {
		part := link.FindSubmatch(found)
		file := string(part[3])
		_, err := fs.Stat(docs.Pages, path.Join(path.Dir(name), file))
		switch {
		case len(part[1]) > 0:
			return nil
		case file == "" || strings.Contains(file, "://") || err == nil:
			return found
		}
		return part[2]
	})
}

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
