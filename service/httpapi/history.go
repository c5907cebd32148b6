package httpapi

import (
	"shardid/model"
	"shardid/service/monitor"

	"github.com/gin-gonic/gin"
)

// history answers what happened in the last minutes: of the whole replica or, with an
// app, of that one.
func (a *API) history(c *gin.Context) {
	app, given, err := parseHistory(c.Request.URL.RawQuery)
	switch {
	case err != nil:
		a.fail(c, err)
	case a.opts.History == nil:
		a.writeJSON(c, monitor.NewChart())
	case given:
		a.writeJSON(c, a.opts.History.AppHistory(uint8(app)))
	default:
		a.writeJSON(c, a.opts.History.History())
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
