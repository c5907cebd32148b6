package httpapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/issuer"
	"shardid/service/segment"

	"github.com/gin-gonic/gin"
)

// consoleFiles are the operators' console: a page, and the files that it asks for.
//
//go:embed web/console.html web/console web/uplot-1.6.32.min.js web/uplot-1.6.32.min.css web/uplot.LICENSE
var consoleFiles embed.FS

//go:embed web/monitor.html
var monitorHTML string

//go:embed web/monitor.css
var monitorCSS string

// openAPI describes the interface to programs; a test holds the answers to it.
//
//go:embed openapi.yaml
var openAPI string

// pages is what the pages for people are made of. They hold nothing of a caller: figures
// come from the routes that the console asks.
type pages struct {
	console    asset              // the console's page
	assets     map[string]asset   // the files that it asks for, by name
	consoleCSP []string           // Content-Security-Policy of the console and the documentation
	monitor    *template.Template // of Leaf's two monitor pages
	monitorCSP []string
}

// asset is a file with its headers.
type asset struct {
	body        []byte
	contentType []string
	tag         string // strong ETag, of the content
}

// newPages makes them once, as they are the same for every API.
var newPages = sync.OnceValue(func() pages {
	style := sha256.Sum256([]byte(monitorCSS))
	const isolated = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	p := pages{
		assets: map[string]asset{},
		// The console loads its own files and asks its own server, and nothing else: no
		// inline script or style, no frame around it.
		consoleCSP: []string{"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
			"connect-src 'self'; " + isolated},
		// A monitor page has a style of its own and would let no script run.
		monitorCSP: []string{"default-src 'none'; style-src 'sha256-" +
			base64.StdEncoding.EncodeToString(style[:]) + "'; " + isolated},
		monitor: template.Must(template.New("monitor").Parse(monitorHTML)),
	}
	err := fs.WalkDir(consoleFiles, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := consoleFiles.ReadFile(name)
		p.assets[path.Base(name)] = newAsset(name, body)
		return err
	})
	if err != nil { // not with files that are part of the program
		panic(fmt.Sprintf("read the embedded console: %v", err))
	}
	p.console = p.assets["console.html"]
	delete(p.assets, "console.html")
	return p
})

func newAsset(name string, body []byte) asset {
	// The machine is not asked for the type, as its table may say anything.
	kind, known := map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	}[path.Ext(name)]
	if !known {
		kind = "text/plain; charset=utf-8"
	}
	hash := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(hash[:12]) + `"` // 96 bits: no two files share them
	return asset{body: body, contentType: []string{kind}, tag: tag}
}

// file answers a file of a folder.
func (a *API) file(folder func() map[string]asset) gin.HandlerFunc {
	return func(c *gin.Context) {
		file, found := folder()[strings.TrimPrefix(c.Param("file"), "/")]
		if !found {
			a.noRoute(c)
			return
		}
		a.writeAsset(c, file)
	}
}

func (a *API) openAPI(c *gin.Context) {
	a.writeBody(c, http.StatusOK, typeYAML, []byte(openAPI))
}

// writeAsset sends a file, or 304 to a browser that has it.
func (a *API) writeAsset(c *gin.Context, file asset) {
	h := c.Writer.Header()
	h["Content-Security-Policy"] = a.pages.consoleCSP
	h["Cache-Control"] = revalidate
	h["X-Content-Type-Options"] = nosniff
	h.Set("ETag", file.tag)
	isolate(h)
	for _, field := range c.Request.Header.Values("If-None-Match") {
		for tag := range strings.SplitSeq(field, ",") {
			// A proxy that compresses makes a tag weak, which is as good here.
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == file.tag {
				c.Status(http.StatusNotModified)
				return
			}
		}
	}
	h["Content-Type"] = file.contentType
	h["Content-Length"] = []string{strconv.Itoa(len(file.body))}
	_, _ = c.Writer.Write(file.body) // a failed write means the client has gone
}

// isolate adds what keeps a page out of others' pages, and its address, which may be
// internal, out of requests to others. Other answers load nothing and link nowhere.
func isolate(h http.Header) {
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cross-Origin-Resource-Policy"] = []string{"same-origin"}
}

const (
	// readingAge is how old what a page shows may be: it is read once in that time,
	// however many ask.
	readingAge = time.Second
	// readTimeout bounds what a page reads from a store.
	readTimeout = 2 * time.Second
)

// once reads what is costly to read once in readingAge. Those who ask while it is read wait
// for it; it does not end with the request that causes it.
func once[T any](a *API, read func(context.Context) (T, error)) func(context.Context) (T, error) {
	var latest struct {
		at     time.Time // zero before the first
		change int64     // by administration, the last one then: any later one outdates it
		what   T         // not changed afterwards
		err    error
	}
	turn := make(chan struct{}, 1) // holds one while it is read; guards the latest
	return func(ctx context.Context) (none T, err error) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return none, ctx.Err()
		}
		change := a.changes.Load()
		if latest.at.IsZero() || time.Since(latest.at) >= readingAge || latest.change != change {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
			defer cancel()
			latest.what, latest.err = read(bounded)
			latest.at, latest.change = time.Now(), change
		}
		return latest.what, latest.err
	}
}

// page answers with a body that is costly to make, and is made once in readingAge.
func (a *API) page(
	read func(context.Context) ([]byte, error), write func(c *gin.Context, body []byte),
) gin.HandlerFunc {
	get := once(a, read)
	return func(c *gin.Context) { a.answer(c, get, write) }
}

// answer answers with a body that is made, or says why there is none.
func (a *API) answer(
	c *gin.Context, get func(context.Context) ([]byte, error), write func(c *gin.Context, body []byte),
) {
	body, err := get(c.Request.Context())
	if err != nil {
		a.failStore(c, err)
		return
	}
	write(c, body)
}

// metrics answers in Prometheus' text format, which every scraper reads.
func (a *API) metrics() gin.HandlerFunc {
	write := func(c *gin.Context, body []byte) { a.writeBody(c, http.StatusOK, typePrometheus, body) }
	plain := a.page(a.opts.Metrics, write)
	zipped := a.page(func(ctx context.Context) ([]byte, error) {
		body, err := a.opts.Metrics(ctx)
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(body) // a buffer takes everything
		_ = z.Close()        // likewise
		return out.Bytes(), err
	}, func(c *gin.Context, body []byte) {
		c.Header("Content-Encoding", "gzip")
		write(c, body)
	})
	return func(c *gin.Context) {
		c.Header("Vary", "Accept-Encoding")
		if q, _ := quality(c.GetHeader("Accept-Encoding"), "gzip"); q > 0 {
			zipped(c)
			return
		}
		plain(c)
	}
}

// table is one of Leaf's monitor pages as a browser shows it.
type table struct {
	Title   string
	Note    string
	Columns []column
	Rows    [][]string
	Total   int // 0 when the rows are all
	Style   template.CSS
}

type column struct {
	Name   string
	Number bool
}

// cache shows the segments that this replica holds of all tags, Leaf's page of that name. While the table cannot
// be read it shows those that are used.
func (a *API) cache() gin.HandlerFunc {
	tags := func(ctx context.Context) ([]model.Tag, error) {
		tags, err := a.sortedTags(ctx)
		if err == nil {
			return tags, nil
		}
		tags = nil
		for _, used := range a.opts.Segments.Used() {
			tags = append(tags, model.Tag{Name: used.Name})
		}
		return tags, nil
	}
	view := func(t model.Tag) segment.View { return a.opts.Segments.View(t) }
	return leafPage(a, a.opts.Segments != nil, tags, view, func(views []segment.View) table {
		t := table{
			Title: "Segments",
			Note: "What this replica holds of each tag: two buffers, of which pos is in use. " +
				"IDs from value up to max, without max, are left.",
			Columns: []column{
				{"name", false}, {"init", false}, {"next", false}, {"pos", true},
				{"value0", true}, {"max0", true}, {"step0", true}, {"value1", true}, {"max1", true}, {"step1", true},
			},
		}
		for _, v := range views {
			row := []string{v.Name, strconv.FormatBool(v.InitOK), strconv.FormatBool(v.NextReady)}
			for _, n := range []int64{int64(v.Pos), v.Value0, v.Max0, v.Step0, v.Value1, v.Max1, v.Step1} {
				row = append(row, strconv.FormatInt(n, 10))
			}
			t.Rows = append(t.Rows, row)
		}
		return t
	})
}

// dbTag is a row of leaf_alloc, named as Leaf's LeafAlloc.
type dbTag struct {
	Key         string    `json:"key"`
	MaxID       int64     `json:"maxId"`
	MaxIDStr    int64     `json:"maxIdStr,string"`
	Step        int64     `json:"step"`
	Description string    `json:"description"`
	UpdateTime  time.Time `json:"updateTime"`
}

// db shows the rows of leaf_alloc, Leaf's page of that name.
func (a *API) db() gin.HandlerFunc {
	row := func(t model.Tag) dbTag { return dbTag{t.Name, t.MaxID, t.MaxID, t.Step, t.Description, t.UpdatedAt} }
	return leafPage(a, a.opts.Tags != nil, a.sortedTags, row, func(rows []dbTag) table {
		t := table{
			Title: "leaf_alloc",
			Note: "The tags as the database has them: IDs below max_id have been handed out to replicas. Times are " +
				"in " + time.Local.String() + ".",
			Columns: []column{{"name", false}, {"max_id", true}, {"step", true}, {"update_time", false},
				{"description", false}},
		}
		for _, r := range rows {
			t.Rows = append(t.Rows, []string{
				r.Key, strconv.FormatInt(r.MaxID, 10), strconv.FormatInt(r.Step, 10),
				local(r.UpdateTime, time.DateTime), r.Description,
			})
		}
		return t
	})
}

// sortedTags are the tags of the database, by name.
func (a *API) sortedTags(ctx context.Context) ([]model.Tag, error) {
	tags, err := a.opts.Tags(ctx)
	return slices.SortedFunc(slices.Values(tags), func(x, y model.Tag) int { return cmp.Compare(x.Name, y.Name) }), err
}

// leafPage answers with tags in the form that the client wants. That of a browser is
// escaped, without a script, and has a policy that would let none run. Of the tags that are
// shown it has the items.
func leafPage[Item any](a *API, enabled bool, tags func(context.Context) ([]model.Tag, error),
	item func(model.Tag) Item, show func([]Item) table,
) gin.HandlerFunc {
	itemsIn := func(w window, all []model.Tag) ([]Item, int) {
		shown, total := rowsIn(w, all, func(t model.Tag) string { return t.Name })
		return items(shown, item), total
	}
	program := windowed(a, tags, func(w window, all []model.Tag) ([]byte, error) {
		shown, total := itemsIn(w, all)
		return encodeJSON(struct {
			Code  int    `json:"code"`
			Tags  []Item `json:"tags"`
			Total int    `json:"total,omitempty"`
		}{0, shown, total})
	}, a.writeJSON)
	browser := windowed(a, tags, func(w window, all []model.Tag) ([]byte, error) {
		shown, total := itemsIn(w, all)
		t := show(shown)
		t.Total = total
		t.Style = template.CSS(monitorCSS) //nolint:gosec // embedded, nothing of a caller is in it
		var body bytes.Buffer
		err := a.pages.monitor.Execute(&body, t)
		return body.Bytes(), err
	}, func(c *gin.Context, body []byte) {
		c.Writer.Header()["Content-Security-Policy"] = a.pages.monitorCSP
		isolate(c.Writer.Header())
		a.writeBody(c, http.StatusOK, typeHTML, body)
	})
	return func(c *gin.Context) {
		switch {
		case !enabled:
			a.fail(c, issuer.Disabled(ModeSegment))
		case wantsJSON(c.Request, "text/html"):
			program(c)
		default:
			browser(c)
		}
	}
}
