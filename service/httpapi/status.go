package httpapi

import (
	"context"
	"net/http"
	"slices"

	"shardid/model"
	"shardid/service/monitor"

	"github.com/gin-gonic/gin"
)

// livez says that the process answers; it looks at no store.
func (a *API) livez(c *gin.Context) { a.writeHealth(c, true, monitor.Health{Status: monitor.StatusOK}) }

// readyz says whether this replica should get requests.
func (a *API) readyz(c *gin.Context) {
	h := a.opts.Monitor.Readiness()
	a.writeHealth(c, h.Status != monitor.StatusNotReady, h)
}

// readyzOf is readyz of one mode.
func (a *API) readyzOf(c *gin.Context) {
	name := c.Param("mode")
	if h, enabled := a.opts.Monitor.ReadinessOf(name); enabled {
		a.writeHealth(c, h.Status != monitor.StatusNotReady, h)
		return
	}
	if mode := model.ModeNamed(name); slices.Contains(model.Modes(), mode) {
		a.fail(c, a.opts.Enabled(mode))
		return
	}
	a.noRoute(c)
}

// healthz is for monitoring: anything that does not work makes it 503.
func (a *API) healthz(c *gin.Context) {
	h := a.opts.Monitor.Health()
	a.writeHealth(c, h.Status == monitor.StatusOK, h)
}

// writeHealth answers 200 or 503. With server.protect_monitoring the reasons, which hold
// addresses of stores, are for requests with a token; others learn what works and what
// does not.
func (a *API) writeHealth(c *gin.Context, ok bool, h monitor.Health) {
	if a.opts.ProtectMonitoring {
		if _, err := a.opts.Access.Operator(c.Request.Header); err != nil {
			for i := range h.Checks {
				if h.Checks[i].Error != "" {
					h.Checks[i].Error = reasonHidden
				}
			}
			if h.Message != "" && h.Message != monitor.ShuttingDown {
				h.Message = reasonHidden
			}
		}
	}
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	a.writeBody(c, status, typeJSON, append(appendJSON(nil, h), '\n'))
}

// readHistory reads what the console's charts show, with the series of an app and of a tag that are asked for.
func (a *API) readHistory(_ context.Context, c *gin.Context) (any, error) {
	given, err := scanQuery(c.Request.URL.RawQuery, false, "app", "tag")
	var further []string
	if err == nil && given[0].given {
		var app int
		app, err = model.ParseRange("app must be", given[0].text, 0, model.Apps-1)
		further = append(further, monitor.AppSeries(uint8(app)))
	}
	if err != nil {
		return nil, err
	}
	if given[1].given {
		further = append(further, monitor.TagSeries(given[1].text))
	}
	return a.opts.History(further...), nil
}

// readStatus reads what the console shows, with the first thingsShown of the tags in use.
func (a *API) readStatus(context.Context) monitor.Status {
	s := a.opts.Monitor.Status()
	s.Administration = a.opts.Access != nil && a.opts.Access.HasAdmin()
	if s.Segment != nil && len(s.Segment.Tags) > thingsShown {
		s.Segment.Total, s.Segment.Tags = len(s.Segment.Tags), s.Segment.Tags[:thingsShown]
	}
	return s
}
