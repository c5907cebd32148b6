package httpapi

import (
	"context"
	"fmt"
	"slices"
	"sync"

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

// holdersPage shows one name and its holders. What others guess costs nothing: only a name that
// is there is read, and remembered.
func (a *API) holdersPage() gin.HandlerFunc {
	names := once(a, a.opts.Names)
	find := func(ctx context.Context, name string) (model.NameUse, error) {
		all, err := names(ctx)
		i := slices.IndexFunc(all, func(u model.NameUse) bool { return u.Name.Name == name })
		if err == nil && i < 0 {
			err = fmt.Errorf("%w: %s", model.ErrUnknownName, quote(name))
		}
		if err != nil {
			return model.NameUse{}, err
		}
		return all[i], nil
	}
	var mu sync.Mutex
	pages := map[string]gin.HandlerFunc{}
	page := func(name string) gin.HandlerFunc {
		mu.Lock()
		defer mu.Unlock()
		if pages[name] == nil {
			pages[name] = a.page(func(ctx context.Context) ([]byte, error) {
				use, err := find(ctx, name)
				if err != nil {
					return nil, err
				}
				holders, err := a.opts.Holders(ctx, name, admin.MaxHolders)
				if err != nil {
					return nil, err
				}
				return encodeJSON(thingAnswer{thing: admin.WithHolders(use, holders)})
			}, a.writeJSON)
		}
		return pages[name]
	}
	return func(c *gin.Context) {
		name := c.Param("name")
		if _, err := find(c.Request.Context(), name); err != nil {
			a.failStore(c, err)
			return
		}
		page(name)(c)
	}
}
