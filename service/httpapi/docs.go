package httpapi

import (
	"bytes"
	"fmt"
	"html"
	"io/fs"
	"regexp"
	"sync"

	"shardid/docs"

	"github.com/gin-gonic/gin"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

// manual is the documentation as pages, by file name: alarms of the console link to
// their sections of it.
var manual = sync.OnceValue(func() map[string]asset {
	files, err := fs.ReadDir(docs.Pages, ".")
	pages := make(map[string]asset, len(files))
	for _, file := range files {
		var page asset
		if page, err = manualPage(file.Name()); err != nil {
			break
		}
		pages[file.Name()] = page
	}
	if err != nil { // not with files that are part of the program
		panic(fmt.Sprintf("render the documentation: %v", err))
	}
	return pages
})

// outside matches what is not part of the binary: images, and links to files that are not
// in the folder of the documentation.
var outside = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)|\[([^\]]*)\]\(\.\./[^)]*\)`)

// manualPage renders a document. Headings have the anchors that they have on GitHub.
func manualPage(name string) (asset, error) {
	source, err := docs.Pages.ReadFile(name)
	if err != nil {
		return asset{}, err
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	var body bytes.Buffer
	if err := markdown.Convert(outside.ReplaceAll(source, []byte("$1")), &body); err != nil {
		return asset{}, err
	}
	page := fmt.Sprintf(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<link rel="icon" href="../console/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../console/console.css">
<script src="../console/theme.js"></script>
</head>
<body class="manual">
<nav><a href="../">Console</a> <a href="operations.md">Operation</a> <a href="never-twice.md">Never twice</a></nav>
<main>
%s</main>
</body>
</html>
`, html.EscapeString(name), body.Bytes())
	return newAsset("page.html", []byte(page)), nil
}

// docs answers a page of the documentation.
func (a *API) docs(c *gin.Context) {
	name, ok := lastSegment(c, "file")
	page, found := manual()[name]
	if !ok || !found {
		a.noRoute(c)
		return
	}
	a.writeAsset(c, page)
}
