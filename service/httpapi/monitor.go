package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

//go:embed web/monitor.html
var monitorHTML string

//go:embed web/monitor.css
var monitorCSS string

// pages is what Leaf's two monitor pages share.
type pages struct {
	template *template.Template
	csp      []string // Content-Security-Policy: nothing but the page's own style
}

func newPages() pages {
	hash := sha256.Sum256([]byte(monitorCSS))
	style := base64.StdEncoding.EncodeToString(hash[:])
	return pages{
		template: template.Must(template.New("monitor").Parse(monitorHTML)),
		csp:      []string{"default-src 'none'; style-src 'sha256-" + style + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	}
}

// table is a page.
type table struct {
	Title   string
	Note    string
	Columns []column
	Rows    [][]string
	Style   template.CSS
}

type column struct {
	Name   string
	Number bool
}

// cache shows the segments that this replica holds, Leaf's page of that name.
func (a *API) cache() gin.HandlerFunc {
	views := func() []SegmentView {
		views := append([]SegmentView{}, a.opts.Segments()...)
		slices.SortFunc(views, func(x, y SegmentView) int { return cmp.Compare(x.Key, y.Key) })
		return views
	}
	return a.leafPage(a.opts.Segments != nil,
		func(context.Context) ([]byte, error) { return encodeJSON(cacheAnswer{Tags: views()}) },
		func(context.Context) ([]byte, error) { return a.pages.render(cachePage(views())) })
}

// leafPage answers in the form that the client wants; a browser's is escaped, without a
// script, and has a policy that would let none run.
func (a *API) leafPage(enabled bool, json, html func(context.Context) ([]byte, error)) gin.HandlerFunc {
	program := a.page(json, a.writeJSONBody)
	browser := a.page(html, func(c *gin.Context, body []byte) {
		c.Writer.Header()["Content-Security-Policy"] = a.pages.csp
		isolate(c.Writer.Header())
		a.writeBody(c, http.StatusOK, a.headers.html, body)
	})
	return func(c *gin.Context) {
		switch {
		case !enabled:
			a.failDisabled(c, ModeSegment)
		case wantsJSON(c.Request, "text/html"):
			program(c)
		default:
			browser(c)
		}
	}
}

type cacheAnswer struct {
	Code int           `json:"code"`
	Tags []SegmentView `json:"tags"`
}

func cachePage(views []SegmentView) table {
	t := table{
		Title: "Segments",
		Note:  "What this replica holds of each tag: two buffers, of which pos is in use. IDs from value up to max, without max, are left.",
		Columns: []column{
			{"name", false}, {"init", false}, {"next", false}, {"pos", true},
			{"value0", true}, {"step0", true}, {"max0", true}, {"value1", true}, {"step1", true}, {"max1", true},
		},
	}
	for _, v := range views {
		t.Rows = append(t.Rows, []string{
			v.Key, strconv.FormatBool(v.InitOK), strconv.FormatBool(v.NextReady), strconv.Itoa(v.Pos),
			decimal(v.Value0), decimal(v.Step0), decimal(v.Max0), decimal(v.Value1), decimal(v.Step1), decimal(v.Max1),
		})
	}
	return t
}

// db shows the rows of leaf_alloc, Leaf's page of that name.
func (a *API) db() gin.HandlerFunc {
	read := func(ctx context.Context, encode func([]model.Tag) ([]byte, error)) ([]byte, error) {
		tags, err := a.opts.Tags(ctx)
		if err != nil {
			return nil, err
		}
		return encode(slices.SortedFunc(slices.Values(tags), func(x, y model.Tag) int { return cmp.Compare(x.Name, y.Name) }))
	}
	return a.leafPage(a.opts.Tags != nil,
		func(ctx context.Context) ([]byte, error) {
			return read(ctx, func(tags []model.Tag) ([]byte, error) { return encodeJSON(newDBAnswer(tags)) })
		},
		func(ctx context.Context) ([]byte, error) {
			return read(ctx, func(tags []model.Tag) ([]byte, error) { return a.pages.render(a.dbPage(tags)) })
		})
}

type dbAnswer struct {
	Code int     `json:"code"`
	Tags []dbTag `json:"tags"`
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

func newDBAnswer(tags []model.Tag) dbAnswer {
	answer := dbAnswer{Tags: make([]dbTag, 0, len(tags))}
	for _, t := range tags {
		answer.Tags = append(answer.Tags, dbTag{t.Name, t.MaxID, t.MaxID, t.Step, t.Description, t.UpdatedAt})
	}
	return answer
}

func (a *API) dbPage(tags []model.Tag) table {
	t := table{
		Title:   "leaf_alloc",
		Note:    "The tags as the database has them: IDs below max_id have been handed out to replicas. Times are in " + a.opts.Location.String() + ".",
		Columns: []column{{"name", false}, {"max_id", true}, {"step", true}, {"description", false}, {"update_time", false}},
	}
	for _, tag := range tags {
		t.Rows = append(t.Rows, []string{tag.Name, decimal(tag.MaxID), decimal(tag.Step), tag.Description, a.local(tag.UpdatedAt, time.DateTime)})
	}
	return t
}

func (p pages) render(t table) ([]byte, error) {
	t.Style = template.CSS(monitorCSS) //nolint:gosec // embedded, nothing of a caller is in it
	var body bytes.Buffer
	err := p.template.Execute(&body, t)
	return body.Bytes(), err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
