package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"shardid/model"
	"shardid/service/admin"

	"github.com/gin-gonic/gin"
)

// withTag reads the tag's name from the path.
func (a *API) withTag(handler func(*gin.Context, string)) gin.HandlerFunc {
	return func(c *gin.Context) {
		name, ok := lastSegment(c, "tag")
		if !ok || name == "" {
			a.noRoute(c)
			return
		}
		if err := model.CheckTag(name); err != nil {
			a.fail(c, err)
			return
		}
		handler(c, name)
	}
}

func (a *API) listTags(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readTimeout)
	defer cancel()
	tags, err := a.opts.Admin.Tags(ctx)
	if err != nil {
		a.failStore(c, err)
		return
	}
	a.writeJSON(c, newTagList(tags))
}

func (a *API) showTag(c *gin.Context, name string) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readTimeout)
	defer cancel()
	tag, err := a.opts.Admin.Tag(ctx, name)
	if err != nil {
		a.failStore(c, err)
		return
	}
	a.writeJSON(c, newTagView(tag))
}

func (a *API) createTag(c *gin.Context) {
	tag, err := newTag(readObject(c, "tag", "step", "maxId", "description"))
	if err != nil {
		a.fail(c, err)
		return
	}
	made, effect, err := a.opts.Admin.CreateTag(c.Request.Context(), a.actor(c), tag)
	a.writeTag(c, http.StatusCreated, made, effect, err)
}

func newTag(o *object) (model.Tag, error) {
	o.need("tag")
	change := tagFields(o)
	tag := model.Tag{
		Name: value(o.text("tag"), ""), Step: value(change.Step, admin.DefaultTagStep),
		MaxID: value(change.MaxID, 1), Description: value(change.Description, ""),
	}
	return tag, o.err
}

// tagFields are those fields that can be given at first and changed later.
func tagFields(o *object) model.TagChange {
	return model.TagChange{
		Step: o.number("step", 1, model.MaxTagStep), MaxID: o.number("maxId", 1, model.MaxTagID), Description: o.text("description"),
	}
}

func (a *API) changeTag(c *gin.Context, name string) {
	o := readObject(c, "step", "maxId", "description", "maxRate")
	change := tagFields(o)
	change.MaxRate = o.number("maxRate", 0, model.MaxTagRate)
	if o.err != nil {
		a.fail(c, o.err)
		return
	}
	after, effect, err := a.opts.Admin.ChangeTag(c.Request.Context(), a.actor(c), name, change)
	a.writeTag(c, http.StatusOK, after, effect, err)
}

func (a *API) deleteTag(c *gin.Context, name string) {
	confirm, err := needConfirmation(c, "/admin/tags/"+url.PathEscape(name))
	if err != nil {
		a.fail(c, err)
		return
	}
	was, effect, err := a.opts.Admin.DeleteTag(c.Request.Context(), a.actor(c), name, confirm)
	a.writeTag(c, http.StatusOK, was, effect, err)
}

func (a *API) writeTag(c *gin.Context, status int, tag model.Tag, effect admin.Effect, err error) {
	if err != nil {
		a.failStore(c, err)
		return
	}
	view := newTagView(tag)
	view.Effective = effect.String()
	a.writeJSONAs(c, status, view)
}
