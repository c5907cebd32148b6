package httpapi

import (
	"cmp"
	"fmt"
	"net/http"

	"shardid/model"
	"shardid/service/access"

	"github.com/gin-gonic/gin"
)

// scratch is what a request for IDs needs and gives back.
type scratch struct {
	ids  []int64
	body []byte
}

// get issues IDs of the queue mode.
func (a *API) get(c *gin.Context) {
	token, ok := a.admit(c, access.Queue)
	if !ok {
		return
	}
	p, err := parseGet(c.Request.URL.RawQuery)
	if err != nil {
		a.fail(c, err)
		return
	}
	if err := token.App(p.app); err != nil {
		a.fail(c, err)
		return
	}
	f := asJSON
	if wantsText(c.Request) {
		f = asLines
	}
	a.issue(c, p, f, func(dst []int64) ([]int64, error) {
		return a.opts.Queue.Next(c.Request.Context(), p.app, p.gatePass, p.count, dst)
	})
}

// getSegment issues IDs of a tag.
func (a *API) getSegment(c *gin.Context) {
	tag, ok := lastSegment(c, "key")
	if !ok {
		a.noRoute(c)
		return
	}
	token, ok := a.admit(c, access.Segment)
	if !ok {
		return
	}
	if a.opts.Segment == nil {
		a.failDisabled(c, ModeSegment)
		return
	}
	if err := cmp.Or(model.CheckTag(tag), token.Tag(tag)); err != nil {
		a.fail(c, err)
		return
	}
	a.getBatch(c, func(count int, dst []int64) ([]int64, error) {
		return a.opts.Segment.Next(c.Request.Context(), tag, count, dst)
	})
}

// getSnowflake issues snowflakes. The key must be there, as Leaf has it, and is
// not used.
func (a *API) getSnowflake(c *gin.Context) {
	key, ok := lastSegment(c, "key")
	if !ok {
		a.noRoute(c)
		return
	}
	if _, ok := a.admit(c, access.Snowflake); !ok {
		return
	}
	switch {
	case a.opts.Snowflake == nil:
		a.failDisabled(c, ModeSnowflake)
	case key == "":
		a.fail(c, fmt.Errorf("%w: the key is missing: GET /api/snowflake/get/any", model.ErrInvalidArgument))
	default:
		a.getFrom(c, a.opts.Snowflake)
	}
}

// getUID issues UIDs.
func (a *API) getUID(c *gin.Context) {
	if _, ok := a.admit(c, access.UID); !ok {
		return
	}
	if a.opts.UID == nil {
		a.failDisabled(c, ModeUID)
		return
	}
	a.getFrom(c, a.opts.UID)
}

func (a *API) getFrom(c *gin.Context, g Generator) {
	a.getBatch(c, func(count int, dst []int64) ([]int64, error) {
		return g.Next(c.Request.Context(), count, dst)
	})
}

// getBatch issues IDs to clients of Leaf and Baidu: what they read is text.
func (a *API) getBatch(c *gin.Context, next func(count int, dst []int64) ([]int64, error)) {
	p, err := parseQuery(c.Request.URL.RawQuery, batchParams)
	if err != nil {
		a.fail(c, err)
		return
	}
	f := asDigits
	switch {
	case wantsJSON(c.Request, "text/plain"):
		f = asJSON
	case p.batch:
		f = asLines
	}
	a.issue(c, p, f, func(dst []int64) ([]int64, error) { return next(p.count, dst) })
}

// issue answers with the IDs that take appends to dst.
func (a *API) issue(c *gin.Context, p params, f form, take func(dst []int64) ([]int64, error)) {
	s, _ := a.scratches.Get().(*scratch)
	defer a.scratches.Put(s)
	var err error
	s.ids, err = take(s.ids[:0])
	if err != nil {
		a.fail(c, err)
		return
	}
	a.answers[0].Add(1)
	contentType := a.headers.text
	if f == asJSON {
		contentType = a.headers.json
	}
	s.body = appendIssued(s.body[:0], s.ids, p, f)
	a.write(c, http.StatusOK, contentType, s.body) // digits: nothing that could be taken for a page
}

// failDisabled answers for a mode that is switched off.
func (a *API) failDisabled(c *gin.Context, mode string) {
	a.fail(c, fmt.Errorf("%w: set %s.enabled to true and restart to use it", model.ErrModeDisabled, mode))
}
