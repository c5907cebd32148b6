package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/admin"

	"github.com/gin-gonic/gin"
)

// routeAdmin adds the routes of apps, tags, names, spaces and the log's level to the guarded group.
func (a *API) routeAdmin(g *gin.RouterGroup) {
	if a.opts.LogLevel != nil {
		routeGet(g, "log", a.serveJSON(http.StatusOK, func(context.Context, *gin.Context) (any, error) {
			return a.opts.LogLevel.State(), nil
		}))
		g.PATCH("log", a.serveJSON(http.StatusOK, a.setLogLevel))
	}
	if a.opts.Admin == nil {
		return
	}
	routeGet(g, "apps", a.serveJSON(http.StatusOK, a.listApps))
	g.POST("apps", a.serveJSON(http.StatusCreated, a.createApp))
	routeGet(g, "apps/*id", a.serveJSON(http.StatusOK, named(appID, a.showApp)))
	g.PATCH("apps/*id", a.serveJSON(http.StatusOK, named(appID, a.changeApp)))
	g.DELETE("apps/*id", a.serveJSON(http.StatusOK, named(appID, a.deleteApp)))
	routeGet(g, "tags", a.serveJSON(http.StatusOK, a.listTags))
	g.POST("tags", a.serveJSON(http.StatusCreated, a.createTag))
	routeGet(g, "tags/*tag", a.serveJSON(http.StatusOK, named(tagName, a.showTag)))
	g.PATCH("tags/*tag", a.serveJSON(http.StatusOK, named(tagName, a.changeTag)))
	g.DELETE("tags/*tag", a.serveJSON(http.StatusOK, named(tagName, a.deleteTag)))
	a.routeNames(g)
	a.routeSpaces(g)
}

// named makes the route of a thing whose name, or ID, key reads from the end of the path.
func named[K any](key func(name string) (K, error), route func(ctx context.Context, c *gin.Context, key K) (any, error)) func(context.Context, *gin.Context) (any, error) {
	return func(ctx context.Context, c *gin.Context) (any, error) {
		name, err := lastSegment(c, c.Params[0].Key)
		if err == nil && name == "" {
			err = noSuchPath(c)
		}
		if err != nil {
			return nil, err
		}
		k, err := key(name)
		if err != nil {
			return nil, err
		}
		return route(ctx, c, k)
	}
}

// Items shows things, each as show does.
func Items[T, Item any](things []T, show func(T) Item) []Item {
	items := make([]Item, len(things)) // none is [], not null
	for i, thing := range things {
		items[i] = show(thing)
	}
	return items
}

// list is the answer that has all apps, all tags, all names or all spaces.
type list struct {
	Code   int            `json:"code"` // always 0
	Apps   []AppItem      `json:"apps,omitzero"`
	Tags   []TagItem      `json:"tags,omitzero"`
	Names  []NameItem     `json:"names,omitzero"`
	Spaces []SpaceUseItem `json:"spaces,omitzero"`
}

// actor is who sends the request, for the log.
func (a *API) actor(c *gin.Context) admin.Actor {
	return admin.Actor{Name: caller(c), Remote: c.Request.RemoteAddr, RequestID: a.requestID(c)}
}

// AppItem is an app in JSON, over HTTP and from the command line. Numbers that may be above
// 2^53 also come as strings. ID is the older name of AppID.
type AppItem struct {
	AppID         uint8             `json:"appId"`
	ID            uint8             `json:"id"`
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	Shards        int               `json:"shards"`
	Step          int64             `json:"step"`
	MaxLimitID    int64             `json:"maxLimitId"`
	MaxLimitIDStr string            `json:"maxLimitIdStr"`
	MixedLimits   bool              `json:"mixedLimits,omitempty"` // not all shards have the limit
	LimitPolicy   model.LimitPolicy `json:"limitPolicy"`
	Scramble      bool              `json:"scramble"`
	HighestIndex  int64             `json:"highestIndex"`
	TotalIndices  int64             `json:"totalIndices"`
	Notice        string            `json:"notice,omitempty"` // of a new app, see model.AppSummary.Notice
}

// NewAppItem shows an app.
func NewAppItem(a model.AppSummary) AppItem {
	return AppItem{
		AppID: a.ID, ID: a.ID, Name: a.Name, Description: a.Description, Shards: a.Shards, Step: a.Step,
		MaxLimitID: a.Limit.MaxID, MaxLimitIDStr: strconv.FormatInt(a.Limit.MaxID, 10), MixedLimits: a.MixedLimits, LimitPolicy: a.Limit.Policy,
		Scramble: a.Scramble, HighestIndex: a.HighestIndex, TotalIndices: a.TotalIndices, Notice: a.Notice(),
	}
}

// appAnswer is an app and, after a change, from when on that counts.
type appAnswer struct {
	Code int `json:"code"` // always 0
	AppItem
	Effective string `json:"effective,omitempty"`
}

// changedApp is the answer to a change.
func changedApp(app model.AppSummary, effect admin.Effect, err error) (any, error) {
	return appAnswer{AppItem: NewAppItem(app), Effective: effect.String()}, err
}

// appID reads an app's ID. Errors: model.ErrInvalidArgument.
func appID(text string) (uint8, error) {
	id, err := parseRange("id", text, 0, model.Apps-1)
	return uint8(id), err
}

func (a *API) listApps(ctx context.Context, _ *gin.Context) (any, error) {
	apps, err := a.opts.Admin.Apps(ctx)
	return list{Apps: Items(apps, NewAppItem)}, err
}

func (a *API) showApp(ctx context.Context, _ *gin.Context, id uint8) (any, error) {
	app, err := a.opts.Admin.App(ctx, id)
	return appAnswer{AppItem: NewAppItem(app)}, err
}

func (a *API) createApp(ctx context.Context, c *gin.Context) (any, error) {
	o := readObject(c, "id", "name", "description", "step", "maxLimitId", "limitPolicy", "scramble", "fresh")
	o.need("id", "name")
	change := appFields(o)
	app := model.App{
		ID:   uint8(value(o.number("id", 0, model.Apps-1), 0)),
		Name: value(change.Name, ""), Description: value(change.Description, ""),
		Step: value(change.Step, admin.DefaultStep),
		Limit: model.Limit{
			MaxID: value(change.MaxLimitID, 0), Policy: value(change.LimitPolicy, model.LimitReject),
		},
		Scramble: o.yes("scramble"), Fresh: value(o.text("fresh"), ""),
	}
	if o.err != nil {
		return nil, o.err
	}
	return changedApp(a.opts.Admin.CreateApp(ctx, a.actor(c), app))
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

func (a *API) changeApp(ctx context.Context, c *gin.Context, id uint8) (any, error) {
	o := readObject(c, "name", "description", "step", "maxLimitId", "limitPolicy", "minIndex", "maxRate")
	change := appFields(o)
	change.MinIndex, change.MaxRate = o.number("minIndex", 0, model.MaxIndex-1), o.number("maxRate", 0, model.MaxListRate)
	confirm, err := confirmation(c, "")
	if err = cmp.Or(o.err, err); err != nil {
		return nil, err
	}
	change.Confirm = confirm
	return changedApp(a.opts.Admin.ChangeApp(ctx, a.actor(c), id, change))
}

func (a *API) deleteApp(ctx context.Context, c *gin.Context, id uint8) (any, error) {
	confirm, err := confirmation(c, fmt.Sprintf("DELETE /admin/apps/%d", id))
	if err != nil {
		return nil, err
	}
	return changedApp(a.opts.Admin.DeleteApp(ctx, a.actor(c), id, confirm))
}

// TagItem is a tag in JSON, over HTTP and from the command line.
type TagItem struct {
	Tag         string    `json:"tag"`
	MaxID       int64     `json:"maxId"`
	MaxIDStr    string    `json:"maxIdStr"`
	Step        int64     `json:"step"`
	Description string    `json:"description"`
	UpdatedAt   time.Time `json:"updatedAt"`

	// Of a tag with business numbers.
	Pattern  string         `json:"pattern,omitempty"`
	Reset    model.Reset    `json:"reset,omitempty"`
	Zone     string         `json:"zone,omitempty"`
	Overflow model.Overflow `json:"overflow,omitempty"`
	Example  string         `json:"example,omitempty"` // the text of MaxID

	Notice string `json:"notice,omitempty"` // of a new tag, see model.Tag.Notice
}

// NewTagItem shows a tag.
func NewTagItem(t model.Tag) TagItem {
	return TagItem{
		Tag: t.Name, MaxID: t.MaxID, MaxIDStr: strconv.FormatInt(t.MaxID, 10),
		Step: t.Step, Description: t.Description, UpdatedAt: t.UpdatedAt.UTC(),
		Pattern: t.Pattern, Reset: t.Reset, Zone: t.Zone, Overflow: t.Overflow, Example: t.Example(time.Now()), Notice: t.Notice(),
	}
}

// tagAnswer is a tag and, after a change, from when on that counts.
type tagAnswer struct {
	Code int `json:"code"` // always 0
	TagItem
	Effective string `json:"effective,omitempty"`
}

// changedTag is the answer to a change.
func changedTag(tag model.Tag, effect admin.Effect, err error) (any, error) {
	return tagAnswer{TagItem: NewTagItem(tag), Effective: effect.String()}, err
}

// tagName reads a tag's name. Errors: model.ErrInvalidArgument.
func tagName(name string) (string, error) { return name, model.CheckTag(name) }

func (a *API) listTags(ctx context.Context, _ *gin.Context) (any, error) {
	tags, err := a.opts.Admin.Tags(ctx)
	return list{Tags: Items(tags, NewTagItem)}, err
}

func (a *API) showTag(ctx context.Context, _ *gin.Context, name string) (any, error) {
	tag, err := a.opts.Admin.Tag(ctx, name)
	return tagAnswer{TagItem: NewTagItem(tag)}, err
}

func (a *API) createTag(ctx context.Context, c *gin.Context) (any, error) {
	o := readObject(c, "tag", "step", "maxId", "description", "pattern", "reset", "zone", "overflow", "fresh")
	o.need("tag")
	change := tagFields(o)
	tag := model.Tag{
		Name: value(o.text("tag"), ""), Step: value(change.Step, admin.DefaultTagStep),
		MaxID: value(change.MaxID, 1), Description: value(change.Description, ""), Fresh: value(o.text("fresh"), ""),
		Numbering: model.Numbering{
			Pattern: value(o.text("pattern"), ""), Reset: model.Reset(value(o.text("reset"), "")),
			Zone: value(o.text("zone"), ""), Overflow: model.Overflow(value(o.text("overflow"), "")),
		},
	}
	if o.err != nil {
		return nil, o.err
	}
	return changedTag(a.opts.Admin.CreateTag(ctx, a.actor(c), tag))
}

// tagFields are those fields that can be given at first and changed later.
func tagFields(o *object) model.TagChange {
	return model.TagChange{
		Step: o.number("step", 1, model.MaxTagStep), MaxID: o.number("maxId", 1, model.MaxTagID),
		Description: o.text("description"),
	}
}

func (a *API) changeTag(ctx context.Context, c *gin.Context, name string) (any, error) {
	o := readObject(c, "step", "maxId", "description", "maxRate")
	change := tagFields(o)
	change.MaxRate = o.number("maxRate", 0, model.MaxTagRate)
	if o.err != nil {
		return nil, o.err
	}
	return changedTag(a.opts.Admin.ChangeTag(ctx, a.actor(c), name, change))
}

func (a *API) deleteTag(ctx context.Context, c *gin.Context, name string) (any, error) {
	confirm, err := confirmation(c, "DELETE /admin/tags/"+url.PathEscape(name))
	if err != nil {
		return nil, err
	}
	return changedTag(a.opts.Admin.DeleteTag(ctx, a.actor(c), name, confirm))
}

// confirmation is the name that the query confirms a change with, or the header, for those
// who do not want the name in a URL; its value is URL-escaped. "" is for none, which is refused when what must be confirmed is given, as a request. The error is
// model.ErrInvalidArgument.
func confirmation(c *gin.Context, must string) (name string, err error) {
	given, err := readQuery(c.Request.URL.RawQuery, "confirm")
	if err != nil {
		return "", err
	}
	name = given[0].text
	switch header := c.Request.Header["X-Confirm"]; {
	case len(header) > 1 || len(header) == 1 && given[0].given:
		return "", errTwice("confirm")
	case len(header) == 1:
		if name, err = url.PathUnescape(header[0]); err != nil { // a plus is a plus
			return "", errEncoding("confirm", err)
		}
	}
	if must != "" && name == "" {
		err = fmt.Errorf("%w: confirm is missing, nothing was done: %s?confirm=NAME", model.ErrInvalidArgument, must)
	}
	return name, err
}

// LogLevel is the level of the log. Safe for concurrent use.
type LogLevel interface {
	State() LogState
	// Set changes the level, and says in the log that by did, in the request of that ID.
	Set(level slog.Level, by, requestID string) LogState
}

// LogState is how a log is.
type LogState struct {
	Code       int    `json:"code"` // always 0
	Level      string `json:"level"`
	Configured string `json:"configured"` // the level with which the process began
}

// setLogLevel changes the level until the process ends.
func (a *API) setLogLevel(_ context.Context, c *gin.Context) (any, error) {
	o := readObject(c, "level")
	o.need("level")
	name := value(o.text("level"), "")
	if o.err != nil {
		return nil, o.err
	}
	var level slog.Level
	names := []string{"debug", "info", "warn", "error"}
	if !slices.Contains(names, name) || level.UnmarshalText([]byte(name)) != nil {
		return nil, fmt.Errorf("%w: level must be one of %s, not %s",
			model.ErrInvalidArgument, strings.Join(names, ", "), quote(name))
	}
	return a.opts.LogLevel.Set(level, caller(c), a.requestID(c)), nil
}
