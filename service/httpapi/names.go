package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"shardid/model"
	"shardid/service/admin"

	"github.com/gin-gonic/gin"
)

// list is a page that has all names or all spaces.
type list struct {
	Code   int               `json:"code"` // always 0
	Names  []admin.NameItem  `json:"names,omitzero"`
	Spaces []admin.SpaceItem `json:"spaces,omitzero"`
}

// items shows things, each as show does.
func items[T, Item any](things []T, show func(T) Item) []Item {
	all := make([]Item, len(things)) // none is [], not null
	for i, thing := range things {
		all[i] = show(thing)
	}
	return all
}

// spacesPage shows all spaces, and how much of each has been used.
func (a *API) spacesPage() gin.HandlerFunc {
	name := func(u model.SpaceUse) string { return u.Name }
	return byName(a, a.opts.Spaces, name, func(spaces []model.SpaceUse) list {
		return list{Spaces: items(spaces, admin.NewSpaceItem)}
	})
}

// namesPage shows all names, and how much of each is leased.
func (a *API) namesPage() gin.HandlerFunc {
	name := func(u model.NameUse) string { return u.Name.Name }
	return byName(a, a.opts.Names, name, func(names []model.NameUse) list {
		return list{Names: items(names, admin.NewNameItem)}
	})
}

// holdersPage shows one name and its holders. What others guess costs nothing: only a name that is there is looked at.
func (a *API) holdersPage() gin.HandlerFunc {
	names := once(a, a.opts.Names)
	return a.serveJSON(http.StatusOK, func(ctx context.Context, c *gin.Context) (any, error) {
		name := c.Param("name")
		all, err := names(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(u model.NameUse) bool { return u.Name.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: %s", model.ErrUnknownName, quote(name))
		}
		holders, err := a.opts.Holders(ctx, name, admin.MaxHolders)
		return thingAnswer{thing: admin.WithHolders(all[i], holders)}, err
	})
}
