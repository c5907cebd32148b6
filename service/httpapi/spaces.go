package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"shardid/model"
	"shardid/service/admin"

	"github.com/gin-gonic/gin"
)

// SpaceItem is a space of sequences in JSON, over HTTP and from the command line.
type SpaceItem struct {
	Space    string `json:"space"`
	Sections int    `json:"sections"`
	Step     int64  `json:"step"`
}

// NewSpaceItem shows a space.
func NewSpaceItem(s model.Space) SpaceItem { return SpaceItem{s.Name, s.Sections, s.Step} }

// SpaceUseItem is a space with how much of it has been used. Highest is at most 2^53-1.
type SpaceUseItem struct {
	SpaceItem
	Used    int   `json:"used"`    // sections that have given numbers
	Highest int64 `json:"highest"` // what one of them has taken
}

// NewSpaceUseItem shows a space with how much of it has been used.
func NewSpaceUseItem(u model.SpaceUse) SpaceUseItem {
	return SpaceUseItem{NewSpaceItem(u.Space), u.Used, u.Highest}
}

// changedSpace is the answer to a change.
func changedSpace(s model.Space, err error) (any, error) {
	return struct {
		Code int `json:"code"` // always 0
		SpaceItem
		Effective string `json:"effective"`
	}{0, NewSpaceItem(s), admin.SpaceEffect}, err
}

// routeSpaces adds the routes of spaces to the guarded group.
func (a *API) routeSpaces(g *gin.RouterGroup) {
	routeGet(g, "sequences", a.serveJSON(http.StatusOK, a.listSpaces))
	g.POST("sequences", a.serveJSON(http.StatusCreated, a.createSpace))
	routeGet(g, "sequences/*space", a.serveJSON(http.StatusOK, named(spaceName, a.showSpace)))
	g.PATCH("sequences/*space", a.serveJSON(http.StatusOK, named(spaceName, a.changeSpace)))
	g.DELETE("sequences/*space", a.serveJSON(http.StatusOK, named(spaceName, a.deleteSpace)))
}

// spaceName reads the name of a space. Errors: model.ErrInvalidArgument.
func spaceName(name string) (string, error) { return name, model.CheckSpace(name) }

func (a *API) listSpaces(ctx context.Context, _ *gin.Context) (any, error) {
	spaces, err := a.opts.Admin.Spaces(ctx)
	return list{Spaces: Items(spaces, NewSpaceUseItem)}, err
}

func (a *API) showSpace(ctx context.Context, _ *gin.Context, name string) (any, error) {
	use, err := a.opts.Admin.Space(ctx, name)
	return struct {
		Code int `json:"code"` // always 0
		SpaceUseItem
	}{0, NewSpaceUseItem(use)}, err
}

func (a *API) createSpace(ctx context.Context, c *gin.Context) (any, error) {
	o := readObject(c, "space", "sections", "step")
	o.need("space")
	space := model.Space{
		Name:     value(o.text("space"), ""),
		Sections: int(value(o.number("sections", 1, model.MaxSections), model.DefaultSections)),
		Step:     value(o.number("step", 1, model.MaxSequenceStep), model.DefaultSequenceStep),
	}
	if o.err != nil {
		return nil, o.err
	}
	return changedSpace(a.opts.Admin.CreateSpace(ctx, a.actor(c), space))
}

func (a *API) changeSpace(ctx context.Context, c *gin.Context, name string) (any, error) {
	o := readObject(c, "step")
	o.need("step")
	step := value(o.number("step", 1, model.MaxSequenceStep), 0)
	if o.err != nil {
		return nil, o.err
	}
	return changedSpace(a.opts.Admin.ChangeSpace(ctx, a.actor(c), name, step))
}

func (a *API) deleteSpace(ctx context.Context, c *gin.Context, name string) (any, error) {
	confirm, err := confirmation(c, "DELETE /admin/sequences/"+url.PathEscape(name))
	if err != nil {
		return nil, err
	}
	return changedSpace(a.opts.Admin.DeleteSpace(ctx, a.actor(c), name, confirm))
}

// spacesPage shows all spaces, and how much of each has been used.
func (a *API) spacesPage() gin.HandlerFunc {
	name := func(u model.SpaceUse) string { return u.Name }
	return byName(a, a.opts.Spaces, name, func(spaces []model.SpaceUse) list { return list{Spaces: Items(spaces, NewSpaceUseItem)} })
}
