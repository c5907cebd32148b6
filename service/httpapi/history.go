package httpapi

import (
	"context"

	"shardid/model"
	"shardid/service/monitor"

	"github.com/gin-gonic/gin"
)

// history answers what happened in the last minutes: of the whole replica or, with an
// app, of that one. Each chart is read once a second.
func (a *API) history() gin.HandlerFunc {
	page := func(read func() monitor.Chart) gin.HandlerFunc {
		return a.page(func(context.Context) ([]byte, error) {
			if a.opts.History == nil {
				return encodeJSON(monitor.NewChart())
			}
			return encodeJSON(read())
		}, a.writeJSONBody)
	}
	replica := page(func() monitor.Chart { return a.opts.History.History() })
	var apps [model.Apps]gin.HandlerFunc
	for app := range apps {
		apps[app] = page(func() monitor.Chart { return a.opts.History.AppHistory(uint8(app)) })
	}
	return func(c *gin.Context) {
		app, given, err := parseHistory(c.Request.URL.RawQuery)
		switch {
		case err != nil:
			a.fail(c, err)
		case given:
			apps[app](c)
		default:
			replica(c)
		}
	}
}

// parseHistory reads the parameter app. Errors: model.ErrInvalidArgument.
func parseHistory(query string) (app int, given bool, err error) {
	values, err := readQuery(query, "app")
	text, given := values["app"]
	if err != nil || !given {
		return 0, false, err
	}
	app, err = parseRange("app", text, 0, model.Apps-1)
	return app, err == nil, err
}
