package httpapi

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// consoleFiles are the operators' console: a page, and the files that it asks for.
//
//go:embed web/console.html web/console web/uplot-1.6.32.min.js web/uplot-1.6.32.min.css web/uplot.LICENSE
var consoleFiles embed.FS

// consolePolicy lets the console load its own files and ask its own server, and
// nothing else: no inline script or style, no frame around it.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// asset is a file of the console with its headers.
type asset struct {
	body        []byte
	contentType []string
	tag         string // strong ETag, of the content
}

// console has the files by name, that of the page is consolePage. They hold nothing
// of a caller and no figure: those come from the routes that the page asks.
type console struct {
	assets map[string]asset
	csp    []string
	// revalidate lets a browser keep a file, and makes it ask each time: after an
	// upgrade nobody sees the page of the earlier version.
	revalidate []string
}

// consolePage is the name of the page among its files.
const consolePage = "console.html"

func newConsole() console {
	c := console{assets: map[string]asset{}, csp: []string{consolePolicy}, revalidate: []string{"no-cache"}}
	err := fs.WalkDir(consoleFiles, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := consoleFiles.ReadFile(name)
		c.assets[path.Base(name)] = newAsset(name, body)
		return err
	})
	if err != nil { // not with files that are part of the program
		panic(fmt.Sprintf("read the embedded console: %v", err))
	}
	return c
}

func newAsset(name string, body []byte) asset {
	hash := sha256.Sum256(body)
	return asset{
		body:        body,
		contentType: []string{contentTypeOf(name)},
		tag:         `"` + base64.RawURLEncoding.EncodeToString(hash[:12]) + `"`, // 96 bits: no two files share them
	}
}

// contentTypeOf does not ask the machine, whose table may say anything.
func contentTypeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

// routeConsole registers the page and its files.
func (a *API) routeConsole() {
	a.engine.GET("/", func(c *gin.Context) { a.writeAsset(c, a.console.assets[consolePage]) })
	a.engine.GET("/console/*file", a.consoleFile)
	a.engine.GET("/docs/*file", a.docs)
}

func (a *API) consoleFile(c *gin.Context) {
	name, ok := lastSegment(c, "file")
	file, found := a.console.assets[name]
	if !ok || !found || name == consolePage {
		a.noRoute(c)
		return
	}
	a.writeAsset(c, file)
}

// writeAsset sends a file, or 304 to a browser that has it.
func (a *API) writeAsset(c *gin.Context, file asset) {
	h := c.Writer.Header()
	h["Content-Security-Policy"] = a.console.csp
	h["Cache-Control"] = a.console.revalidate
	h["X-Content-Type-Options"] = a.headers.nosniff
	h.Set("ETag", file.tag)
	isolate(h)
	if hasTag(c.Request.Header.Values("If-None-Match"), file.tag) {
		c.Status(http.StatusNotModified)
		return
	}
	h["Content-Type"] = file.contentType
	h["Content-Length"] = []string{strconv.Itoa(len(file.body))}
	// A failed write means the client has gone; there is nobody to tell.
	_, _ = c.Writer.Write(file.body)
}

// hasTag says whether an If-None-Match names the tag. A proxy that compresses makes
// a tag weak, which is as good here.
func hasTag(fields []string, tag string) bool {
	for _, field := range fields {
		for one := range strings.SplitSeq(field, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
