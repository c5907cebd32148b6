package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// OperatorHeader is who sends a request to NewAdministration.
const OperatorHeader = "Shardid-Operator"

// NewAdministration serves what is below /admin to whoever asks, as changes by whom OperatorHeader names: to
// commands, which may use the database and so need no token.
func NewAdministration(resources []admin.Resource, log *slog.Logger) http.Handler {
	a := newBare(Options{Issuer: &issuer.Issuer{}, Admin: resources, Log: log})
	a.reading = time.Minute // to count millions of tags takes longer than a page may
	e := gin.New()
	e.Use(a.recover, func(c *gin.Context) {
		c.Set(callerKey, c.GetHeader(OperatorHeader))
		c.Request.RemoteAddr = "" // a command has none
	})
	a.routeAdmin(e.Group(adminPath))
	return e
}

// routeAdmin adds the routes of the log's level and of the resources to the guarded group.
func (a *API) routeAdmin(g *gin.RouterGroup) {
	if a.opts.LogLevel != nil {
		routeGet(g, "log", a.serveJSON(http.StatusOK, a.logState))
		g.PATCH("log", a.serveJSON(http.StatusOK, a.setLogLevel))
	}
	for _, r := range a.opts.Admin {
		a.routeResource(g, r)
	}
}

// routeResource adds the five routes of a resource.
func (a *API) routeResource(g *gin.RouterGroup, r admin.Resource) {
	one := r.Path + "/*" + r.Fields[0].Name
	routeGet(g, r.Path, a.serveJSON(http.StatusOK, func(ctx context.Context, c *gin.Context) (any, error) {
		w, err := readWindow(c)
		if err != nil {
			return nil, err
		}
		things, total, err := r.List(ctx, w.search, w.reads())
		if err != nil {
			return nil, err
		}
		return w.cut(r.Many, things, total)
	}))
	g.POST(r.Path, a.serveJSON(http.StatusCreated, func(ctx context.Context, c *gin.Context) (any, error) {
		given, err := readGiven(c, r.Fields, func(f admin.Field) admin.Need { return f.Add })
		if err != nil {
			return nil, err
		}
		return thingAnswer(r.Add(ctx, a.actor(c), given))
	}))
	routeGet(g, one, a.serveThing(func(ctx context.Context, _ *gin.Context, key, _ string) (any, error) {
		thing, err := r.Show(ctx, key)
		return thingAnswer(thing, "", err)
	}))
	g.PATCH(one, a.serveThing(func(ctx context.Context, c *gin.Context, key, confirm string) (any, error) {
		given, err := readGiven(c, r.Fields, func(f admin.Field) admin.Need { return f.Set })
		if err != nil {
			return nil, err
		}
		return thingAnswer(r.Change(ctx, a.actor(c), key, given, confirm))
	}))
	g.DELETE(one, a.serveThing(func(ctx context.Context, c *gin.Context, key, confirm string) (any, error) {
		return thingAnswer(r.Delete(ctx, a.actor(c), key, confirm))
	}))
}

// thingCall is a call about one thing, whose name or ID is the end of the path. confirm is what the query confirms it
// with.
type thingCall func(ctx context.Context, c *gin.Context, key, confirm string) (any, error)

func (a *API) serveThing(call thingCall) gin.HandlerFunc {
	return a.serveJSON(http.StatusOK, func(ctx context.Context, c *gin.Context) (any, error) {
		key, err := lastSegment(c, c.Params[0].Key)
		if err != nil {
			return nil, err
		}
		given, err := scanQuery(c.Request.URL.RawQuery, false, "confirm")
		if err != nil {
			return nil, err
		}
		return call(ctx, c, key, given[0].text)
	})
}

// readGiven reads the fields of a body of which a call says whether it needs them. Errors:
// model.ErrInvalidArgument.
func readGiven(c *gin.Context, fields []admin.Field, need func(admin.Field) admin.Need) (admin.Given, error) {
	var names []string
	for _, f := range fields {
		if need(f) != admin.Never {
			names = append(names, f.Name)
		}
	}
	said, err := readObject(c, names...)
	if err != nil {
		return nil, err
	}
	given := admin.Given{}
	for _, f := range fields {
		switch value, has := said[f.Name]; {
		case has:
			read, ok := f.Value.Read(value)
			if !ok {
				return nil, fmt.Errorf("%w: `%s` must be %s, not %s", model.ErrInvalidArgument, f.Name, f.Value.Want,
					shown(value))
			}
			given[f.Name] = read
		case need(f) == admin.Must:
			return nil, fmt.Errorf("%w: give `%s`: it is missing", model.ErrInvalidArgument, f.Name)
		}
	}
	return given, nil
}

// thingAnswer is {"code":0} with the fields of a thing and, after a change, from when on that counts.
func thingAnswer(thing any, effective string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	text, err := encodeJSON(thing)
	if err != nil {
		return nil, err
	}
	text = append([]byte(`{"code":0,`), text[1:]...)
	if effective != "" {
		text = append(text[:len(text)-1], `,"effective":`...)
		text = append(appendJSON(text, effective), '}')
	}
	return json.RawMessage(text), nil
}

// actor is who sends the request, for the log.
func (a *API) actor(c *gin.Context) admin.Actor {
	return admin.Actor{Name: caller(c), Remote: c.Request.RemoteAddr, RequestID: knownID(c)}
}

// LogLevel is the level of the log, which can be another one until the process ends.
type LogLevel struct {
	Current    slog.LevelVar // which the log has now
	Configured slog.Level    // with which the process began
	Audit      *slog.Logger  // shows who changes the level, whatever it is
}

// logState is how the log is.
func (a *API) logState(context.Context, *gin.Context) (any, error) {
	name := func(l slog.Level) string { return strings.ToLower(l.String()) }
	return struct {
		Code       int    `json:"code"` // always 0
		Level      string `json:"level"`
		Configured string `json:"configured"`
	}{0, name(a.opts.LogLevel.Current.Level()), name(a.opts.LogLevel.Configured)}, nil
}

// setLogLevel changes the level.
func (a *API) setLogLevel(ctx context.Context, c *gin.Context) (any, error) {
	said, err := readObject(c, "level")
	if err != nil {
		return nil, err
	}
	var level slog.Level
	names := []string{"debug", "info", "warn", "error"}
	name, _ := said["level"].(string)
	if !slices.Contains(names, name) || level.UnmarshalText([]byte(name)) != nil {
		return nil, fmt.Errorf("%w: level must be one of %s, not %s",
			model.ErrInvalidArgument, strings.Join(names, ", "), shown(said["level"]))
	}
	a.opts.LogLevel.Current.Set(level)
	a.opts.LogLevel.Audit.Info("log level changed", "level", name, "by", caller(c), "request_id", a.requestID(c))
	return a.logState(ctx, c)
}
