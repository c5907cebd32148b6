package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/issuer"
	"shardid/service/segment"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// consoleFiles are the operators' console: a page, and the files that it asks for. They hold nothing of a caller:
// figures come from the routes that the console asks.
//
//go:embed web/console
var consoleFiles embed.FS

//go:embed web/console/console.html
var consoleHTML []byte

//go:embed web/monitor.html
var monitorHTML string

// monitorPages are Leaf's two monitor pages for a browser, by the last part of their paths.
var monitorPages = template.Must(template.New("").Parse(monitorHTML))

// openAPI describes the interface to programs; a test holds the answers to it.
//
//go:embed openapi.yaml
var openAPI []byte

// pageCSP is the Content-Security-Policy of all pages: they load their own files, ask their own server, and nothing
// else. There is no inline script or style, and no frame around them.
var pageCSP = []string{"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"}

// fileTypes are the types of files by the ends of their names; all others are pages. The machine is not asked, as its
// table may say anything.
var fileTypes = map[string][]string{
	".css": {"text/css; charset=utf-8"}, ".js": {"text/javascript; charset=utf-8"}, ".svg": {"image/svg+xml"},
	".png": {"image/png"}, ".yaml": {"application/yaml"}, ".LICENSE": typeText,
}

// file answers a file, or a page without a name.
func (a *API) file(name string, body []byte) gin.HandlerFunc {
	kind, known := fileTypes[path.Ext(name)]
	if !known {
		kind = typeHTML
	}
	return func(c *gin.Context) {
		isolate(c)
		a.writeBody(c, http.StatusOK, kind, body)
	}
}

func (a *API) consoleFile(c *gin.Context) {
	name := c.Param("file")
	body, err := consoleFiles.ReadFile("web/console" + name)
	if err != nil {
		a.noRoute(c)
		return
	}
	a.file(name, body)(c)
}

// document answers a page of the documentation, or a picture of one.
func (a *API) document(c *gin.Context) {
	name := strings.TrimPrefix(c.Param("file"), "/")
	body, found := manual()[name]
	if !found {
		a.noRoute(c)
		return
	}
	a.file(name, body)(c)
}

// isolate adds what keeps a page out of others' pages, and its address, which may be
// internal, out of requests to others. Other answers load nothing and link nowhere.
func isolate(c *gin.Context) {
	h := c.Writer.Header()
	h["Content-Security-Policy"] = pageCSP
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cross-Origin-Resource-Policy"] = []string{"same-origin"}
}

// metrics answers in Prometheus' text format.
func (a *API) metrics() gin.HandlerFunc {
	h := promhttp.HandlerFor(a.opts.Metrics, promhttp.HandlerOpts{CoalesceGather: true})
	return func(c *gin.Context) {
		c.Writer.Header()["Cache-Control"] = noStore
		h.ServeHTTP(c.Writer, c.Request)
	}
}

const (
	// readingAge is how old what a page shows may be: it is read once in that time,
	// however many ask.
	readingAge = time.Second
	// readTimeout bounds what a page reads from a store.
	readTimeout = 2 * time.Second
)

// once reads what is costly to read once in readingAge, as long as all ask for the same. Those who ask while it is read
// wait for it; it does not end with the request that causes it.
func once[What comparable, T any](
	a *API, read func(context.Context, What) (T, error),
) func(context.Context, What) (T, error) {
	var latest struct {
		at     time.Time // zero before the first
		change int64     // by administration, the last one then: any later one outdates it
		what   What
		got    T // not changed afterwards
		err    error
	}
	turn := make(chan struct{}, 1) // holds one while it is read; guards the latest
	return func(ctx context.Context, what What) (none T, err error) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return none, ctx.Err()
		}
		change := a.changes.Load()
		if latest.at.IsZero() || time.Since(latest.at) >= readingAge || latest.change != change || latest.what != what {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
			defer cancel()
			latest.got, latest.err = read(bounded, what)
			latest.at, latest.change, latest.what = time.Now(), change, what
		}
		return latest.got, latest.err
	}
}

const (
	// thingsShown is how many tags, names or spaces a page shows unless it is asked for another number.
	thingsShown = 1000
	// mostThings is the most.
	mostThings = 5000
	// mostRead is how many things a page may leave out before those, and of how many it may be in another order than
	// that of their names: all of these are read.
	mostRead = 20_000
)

// readOnce answers with what is read once in readingAge.
func readOnce[T any](a *API, read func(context.Context) T) route {
	get := once(a, func(ctx context.Context, _ struct{}) (T, error) { return read(ctx), nil })
	return func(ctx context.Context, _ *gin.Context) (any, error) { return get(ctx, struct{}{}) }
}

// window is what a page shows: of the things whose name contains search, in any case, and in the order of a field, at
// most limit that follow the first offset.
type window struct {
	search        string
	limit, offset int
	sort          string // a field of their JSON, with - before it from the highest down; "" for their names
}

// readWindow reads the window that the query asks for. Errors: model.ErrInvalidArgument.
func readWindow(c *gin.Context) (w window, err error) {
	w.limit = thingsShown
	given, err := scanQuery(c.Request.URL.RawQuery, false, "search", "limit", "offset", "sort")
	if err == nil && given[1].given {
		w.limit, err = model.ParseRange("limit must be", given[1].text, 1, mostThings)
	}
	if err == nil && given[2].given {
		w.offset, err = model.ParseRange("offset must be", given[2].text, 0, mostRead)
	}
	w.search, w.sort = given[0].text, given[3].text
	return w, err
}

// reads is how many things have to be read, by name, to show the window.
func (w window) reads() int {
	if w.sort != "" {
		return mostRead
	}
	return w.offset + w.limit
}

// cut sorts things, which come by name and of which there are total, and gives {"code":0,MANY:[…],"total":N} with those
// of the window. total is there when these are not all. Errors: model.ErrInvalidArgument for a field that they lack, or
// for more things than can be sorted.
func (w window) cut(many string, things any, total int) (map[string]any, error) {
	if w.sort != "" {
		if total > mostRead {
			return nil, fmt.Errorf("%w: search for a part of the name: %d %s are too many to sort, %d at most can be",
				model.ErrInvalidArgument, total, many, mostRead)
		}
		if err := sortByField(things, w.sort); err != nil {
			return nil, err
		}
	}
	all := reflect.ValueOf(things)
	from, to := min(w.offset, all.Len()), min(w.offset+w.limit, all.Len())
	answer := map[string]any{"code": 0, many: all.Slice(from, to).Interface()}
	if total > to-from {
		answer["total"] = total
	}
	return answer, nil
}

// unordered are fields that JSON lacks, and texts of numbers and durations, whose order is not that of their bytes.
var unordered = regexp.MustCompile(`^(|-|hold|.*Str)$`)

// sortByField sorts a slice of structs by the field that has this name in JSON, with - before it from the highest down.
// Those that are equal stay in their order. Errors: model.ErrInvalidArgument for a field that has no order.
func sortByField(things any, by string) error {
	all := reflect.ValueOf(things)
	name, isDown := strings.CutPrefix(by, "-")
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(all.Type().Elem()) {
		field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		zero := reflect.Zero(f.Type)
		if _, isOrdered := compareValues(zero, zero); isOrdered && !unordered.MatchString(field) {
			fields[field] = f.Index
		}
	}
	index, known := fields[name]
	if !known {
		return fmt.Errorf("%w: sort by one of %s, not by %.64q", model.ErrInvalidArgument,
			strings.Join(slices.Sorted(maps.Keys(fields)), ", "), name)
	}
	sort.SliceStable(things, func(i, j int) bool {
		if isDown {
			i, j = j, i
		}
		order, _ := compareValues(all.Index(i).FieldByIndex(index), all.Index(j).FieldByIndex(index))
		return order < 0
	})
	return nil
}

// compareValues compares numbers, texts and times; others have no order.
func compareValues(a, b reflect.Value) (order int, isOrdered bool) {
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int()), true
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint()), true
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float()), true
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String()), true
	case a.Type() == reflect.TypeFor[time.Time]():
		return a.Interface().(time.Time).Compare(b.Interface().(time.Time)), true
	}
	return 0, false
}

// listed answers with the things of the window that the query asks for. Where some come with an error, others are
// missing, and it is their message. Errors: model.ErrInvalidArgument, and those of list without things.
func listed(a *API, many string, list admin.Lister) route {
	get := once(a, func(ctx context.Context, w window) (map[string]any, error) {
		things, total, failed := list(ctx, w.search, w.reads())
		if failed != nil && things == nil {
			return nil, failed
		}
		answer, err := w.cut(many, things, total)
		if failed != nil && err == nil {
			answer["message"] = model.Message(failed)
		}
		return answer, err
	})
	return func(ctx context.Context, c *gin.Context) (any, error) {
		w, err := readWindow(c)
		if err != nil {
			return nil, err
		}
		return get(ctx, w)
	}
}

// cache shows the segments that this replica holds of all tags, Leaf's page of that name. While the table cannot
// be read it shows those that are used, and says so.
func (a *API) cache() gin.HandlerFunc {
	return monitorPage(a, "cache", func(ctx context.Context, search string, limit int) (any, int, error) {
		tags, total, err := a.opts.Tags(ctx, search, limit)
		if err == nil {
			return admin.Items(tags, a.opts.Segments.View), total, nil
		}
		used, total := admin.Among(a.opts.Segments.Used(), func(v segment.View) string { return v.Name }, search, limit)
		return append([]segment.View{}, used...), total, fmt.Errorf(
			"only tags that this replica has used are shown, as leaf_alloc cannot be read: %w", err)
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
	return monitorPage(a, "db", func(ctx context.Context, search string, limit int) (any, int, error) {
		tags, total, err := a.opts.Tags(ctx, search, limit)
		if err != nil {
			return nil, 0, err
		}
		return admin.Items(tags, func(t model.Tag) dbTag {
			return dbTag{t.Name, t.MaxID, t.MaxID, t.Step, t.Description, t.UpdatedAt.UTC()}
		}), total, nil
	})
}

// monitorPage answers with tags in the form that the client wants: JSON, or the HTML of that name, which is escaped
// and has no script.
func monitorPage(a *API, name string, list admin.Lister) gin.HandlerFunc {
	read := listed(a, "tags", list)
	program := a.serveJSON(http.StatusOK, read)
	return func(c *gin.Context) {
		switch {
		case a.opts.Tags == nil:
			a.fail(c, issuer.Disabled(model.ModeSegment.String()))
			return
		case wantsJSON(c.Request):
			program(c)
			return
		}
		var body bytes.Buffer
		answer, err := read(c.Request.Context(), c)
		if err == nil {
			err = monitorPages.ExecuteTemplate(&body, name, answer)
		}
		if err != nil {
			a.fail(c, err)
			return
		}
		isolate(c)
		a.writeBody(c, http.StatusOK, typeHTML, body.Bytes())
	}
}
