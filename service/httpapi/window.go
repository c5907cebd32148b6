package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

const (
	// tagsShown is how many tags, names or spaces a page shows unless it is asked for another number.
	tagsShown = 1000
	// mostTags is the most.
	mostTags = 5000
)

// window says which tags, names of worker IDs, or spaces, a page shows: those that contain a text,
// in any case, and follow one.
type window struct {
	search, after string
	limit         int
}

// readWindow reads it from a raw query. Errors: model.ErrInvalidArgument.
func readWindow(r *http.Request) (w window, given bool, err error) {
	w.limit = tagsShown
	values, err := readQuery(r.URL.RawQuery, "search", "after", "limit")
	if err == nil && values[2].given {
		w.limit, err = parseRange("limit", values[2].text, 1, mostTags)
	}
	w.search, w.after = strings.ToLower(values[0].text), values[1].text
	return w, values[0].given || values[1].given || values[2].given, err
}

// next is the query of the tags that follow a name.
func (w window) next(name string) string {
	values := url.Values{"after": {name}}
	if w.search != "" {
		values.Set("search", w.search)
	}
	if w.limit != tagsShown {
		values.Set("limit", strconv.Itoa(w.limit))
	}
	return values.Encode()
}

// through gives the rows, sorted by name, that a window shows. When those are not all, total
// is how many rows the search finds, and next the name after which more follow, "" at the
// end.
func through[Row any](w window, rows []Row, name func(Row) string) (shown []Row, total int, next string) {
	if w.search != "" {
		var found []Row
		for _, row := range rows {
			if strings.Contains(strings.ToLower(name(row)), w.search) {
				found = append(found, row)
			}
		}
		rows = found
	}
	from := sort.Search(len(rows), func(i int) bool { return name(rows[i]) > w.after })
	if w.after == "" {
		from = 0
	}
	shown = rows[from:min(from+w.limit, len(rows))]
	if len(shown) == len(rows) {
		return shown, 0, ""
	}
	if to := from + len(shown); to < len(rows) {
		next = name(rows[to-1])
	}
	return shown, len(rows), next
}

// windowed answers with a window of what is read once in readingAge. Without parameters the
// body is made as often, and not for each request.
func windowed[T any](
	a *API, read func(context.Context) (T, error), encode func(window, T) ([]byte, error),
	write func(*gin.Context, []byte),
) gin.HandlerFunc {
	part := func(w window, read func(context.Context) (T, error)) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			what, err := read(ctx)
			if err != nil {
				return nil, err
			}
			return encode(w, what)
		}
	}
	all, usual := once(a, read), a.page(part(window{limit: tagsShown}, read), write)
	return func(c *gin.Context) {
		switch w, given, err := readWindow(c.Request); {
		case err != nil:
			a.fail(c, err)
		case given:
			a.answer(c, part(w, all), write)
		default:
			usual(c)
		}
	}
}

// byName is a page of all that read gives, by name, in windows.
func byName[T any](
	a *API, read func(context.Context) ([]T, error), name func(T) string, show func([]T) list,
) gin.HandlerFunc {
	sorted := func(ctx context.Context) ([]T, error) {
		all, err := read(ctx)
		slices.SortFunc(all, func(x, y T) int { return cmp.Compare(name(x), name(y)) }) // databases have other orders
		return all, err
	}
	return windowed(a, sorted, func(w window, all []T) ([]byte, error) {
		shown, total, next := through(w, all, name)
		return encodeJSON(struct {
			list
			Total int    `json:"total,omitempty"`
			Next  string `json:"next,omitempty"`
		}{show(shown), total, next})
	}, a.writeJSON)
}
