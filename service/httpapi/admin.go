package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"

	"shardid/model"
	"shardid/service/admin"

	"github.com/gin-gonic/gin"
)

// confirmHeader confirms what cannot be taken back, for those who do not want the name
// in a URL. Its value is URL-escaped.
const confirmHeader = "X-Confirm"

// routeAdmin adds the routes of apps and tags to the guarded group.
func (a *API) routeAdmin(g *gin.RouterGroup) {
	if a.opts.Admin == nil {
		return
	}
	g.GET("apps", a.listApps)
	g.POST("apps", a.createApp)
	g.GET("apps/*id", a.withApp(a.showApp))
	g.PATCH("apps/*id", a.withApp(a.changeApp))
	g.DELETE("apps/*id", a.withApp(a.deleteApp))
	g.GET("tags", a.listTags)
	g.POST("tags", a.createTag)
	g.GET("tags/*tag", a.withTag(a.showTag))
	g.PATCH("tags/*tag", a.withTag(a.changeTag))
	g.DELETE("tags/*tag", a.withTag(a.deleteTag))
}

// actor is who sends the request, for the log.
func (a *API) actor(c *gin.Context) admin.Actor {
	return admin.Actor{Name: who(c), Remote: c.Request.RemoteAddr, RequestID: a.requestID(c)}
}

// withApp reads the app's ID from the path.
func (a *API) withApp(handler func(*gin.Context, uint8)) gin.HandlerFunc {
	return func(c *gin.Context) {
		text, ok := lastSegment(c, "id")
		if !ok || text == "" {
			a.noRoute(c)
			return
		}
		id, err := parseRange("id", text, 0, model.Apps-1)
		if err != nil {
			a.fail(c, err)
			return
		}
		handler(c, uint8(id))
	}
}

func (a *API) listApps(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readTimeout)
	defer cancel()
	apps, err := a.opts.Admin.Apps(ctx)
	if err != nil {
		a.failStore(c, err)
		return
	}
	a.writeJSON(c, newAppList(apps))
}

func (a *API) showApp(c *gin.Context, id uint8) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readTimeout)
	defer cancel()
	app, err := a.opts.Admin.App(ctx, id)
	if err != nil {
		a.failStore(c, err)
		return
	}
	a.writeJSON(c, newAppView(app))
}

func (a *API) createApp(c *gin.Context) {
	app, err := newApp(readObject(c, "id", "name", "description", "step", "maxLimitId", "limitPolicy"))
	if err != nil {
		a.fail(c, err)
		return
	}
	made, effect, err := a.opts.Admin.CreateApp(c.Request.Context(), a.actor(c), app)
	a.writeApp(c, http.StatusCreated, made, effect, err)
}

func newApp(o *object) (model.App, error) {
	o.need("id", "name")
	change := appFields(o)
	app := model.App{
		ID:   uint8(value(o.number("id", 0, model.Apps-1), 0)),
		Name: value(change.Name, ""), Description: value(change.Description, ""),
		Step: value(change.Step, admin.DefaultStep),
		Limit: model.Limit{
			MaxID: value(change.MaxLimitID, 0), Policy: value(change.LimitPolicy, model.LimitReject),
		},
	}
	return app, o.err
}

// appFields are those fields that can be given at first and changed later.
func appFields(o *object) model.AppChange {
	change := model.AppChange{
		Name: o.text("name"), Description: o.text("description"),
		Step: o.number("step", 1, model.MaxStep), MaxLimitID: o.number("maxLimitId", 0, math.MaxInt64),
	}
	if text := o.text("limitPolicy"); text != nil {
		policy, err := model.ParseLimitPolicy(*text)
		if err != nil {
			o.refuse("limitPolicy must be reject or wrap, not %s", quote(*text))
		}
		change.LimitPolicy = &policy
	}
	return change
}

func (a *API) changeApp(c *gin.Context, id uint8) {
	o := readObject(c, "name", "description", "step", "maxLimitId", "limitPolicy", "minIndex", "maxRate")
	change := appFields(o)
	change.MinIndex, change.MaxRate = o.number("minIndex", 0, model.MaxIndex-1), o.number("maxRate", 0, model.MaxListRate)
	confirm, err := confirmation(c)
	if err = cmp.Or(o.err, err); err != nil {
		a.fail(c, err)
		return
	}
	change.Confirm = confirm
	after, effect, err := a.opts.Admin.ChangeApp(c.Request.Context(), a.actor(c), id, change)
	a.writeApp(c, http.StatusOK, after, effect, err)
}

func (a *API) deleteApp(c *gin.Context, id uint8) {
	confirm, err := needConfirmation(c, fmt.Sprintf("/admin/apps/%d", id))
	if err != nil {
		a.fail(c, err)
		return
	}
	was, effect, err := a.opts.Admin.DeleteApp(c.Request.Context(), a.actor(c), id, confirm)
	a.writeApp(c, http.StatusOK, was, effect, err)
}

func (a *API) writeApp(c *gin.Context, status int, app model.AppSummary, effect admin.Effect, err error) {
	if err != nil {
		a.failStore(c, err)
		return
	}
	view := newAppView(app)
	view.Effective = effect.String()
	a.writeJSONAs(c, status, view)
}

// needConfirmation is confirmation where there must be one.
func needConfirmation(c *gin.Context, path string) (string, error) {
	confirm, err := confirmation(c)
	if err == nil && confirm == "" {
		err = fmt.Errorf("%w: confirm is missing, nothing was done: DELETE %s?confirm=NAME", model.ErrInvalidArgument, path)
	}
	return confirm, err
}

// confirmation is the name that the query or the header confirms a change with; "" for
// none. The error is model.ErrInvalidArgument.
func confirmation(c *gin.Context) (string, error) {
	const name = "confirm"
	values, err := readQuery(c.Request.URL.RawQuery, name)
	if err != nil {
		return "", err
	}
	value, given := values[name]
	switch header := c.Request.Header[confirmHeader]; {
	case len(header) == 0:
		return value, nil
	case len(header) > 1 || given:
		return "", errTwice(name)
	default:
		value, err = url.PathUnescape(header[0]) // a plus is a plus
		if err != nil {
			return "", errEncoding(name, err)
		}
		return value, nil
	}
}

// value is what a pointer points at, or what it stands for without.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
