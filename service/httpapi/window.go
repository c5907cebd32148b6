package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

const (
	// tagsShown is how many tags, names or spaces a page shows unless it is asked for another number.
	tagsShown = 1000
	// mostTags is the most.
	mostTags = 5000
)

// window says which tags, names of worker IDs, or spaces, a page shows: those that contain a text, in any case.
type window struct {
	search string
	limit  int
}

// readWindow reads it from a raw query. Errors: model.ErrInvalidArgument.
func readWindow(r *http.Request) (w window, given bool, err error) {
	w.limit = tagsShown
	values, err := readQuery(r.URL.RawQuery, "search", "limit")
	if err == nil && values[1].given {
		w.limit, err = parseRange("limit", values[1].text, 1, mostTags)
	}
	w.search = strings.ToLower(values[0].text)
	return w, values[0].given || values[1].given, err
}

// rowsIn gives the rows that a window shows. When those are not all that the search finds, total is how many it does.
func rowsIn[Row any](w window, rows []Row, name func(Row) string) (shown []Row, total int) {
	if w.search != "" {
		rows = slices.DeleteFunc(slices.Clone(rows), func(row Row) bool {
			return !strings.Contains(strings.ToLower(name(row)), w.search)
		})
	}
	if len(rows) <= w.limit {
		return rows, 0
	}
	return rows[:w.limit], len(rows)
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
		shown, total := rowsIn(w, all, name)
		return encodeJSON(struct {
			list
			Total int `json:"total,omitempty"`
		}{show(shown), total})
	}, a.writeJSON)
}
