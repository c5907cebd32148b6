package httpapi

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// LogLevel is the level of the log, which can be another for a while. Safe for
// concurrent use.
type LogLevel interface {
	State() LogState
	// Set changes the level for d, and says in the log that by did, in the request of
	// that ID. The configured level ends an earlier change.
	Set(level slog.Level, d time.Duration, by, requestID string) LogState
}

// LogState is how a log is.
type LogState struct {
	Code       int       `json:"code"` // always 0
	Level      string    `json:"level"`
	Configured string    `json:"configured"`     // the level that holds from Until on
	Until      time.Time `json:"until,omitzero"` // when the level is another than the configured one
}

// What a change of the level may be.
const (
	levelFor    = 10 * time.Minute // when nothing else is asked for
	shortestFor = time.Second
	// longestFor is a day: a log that is forgotten at debug fills the disk.
	longestFor = 24 * time.Hour
)

// routeLog adds the routes of the log's level to the guarded group.
func (a *API) routeLog(group *gin.RouterGroup) {
	if a.opts.LogLevel == nil {
		return
	}
	group.GET("log", func(c *gin.Context) { a.writeJSON(c, a.opts.LogLevel.State()) })
	group.PATCH("log", a.setLogLevel)
}

// setLogLevel changes the level for a while.
func (a *API) setLogLevel(c *gin.Context) {
	level, d, err := parseLevel(readObject(c, "level", "for"))
	if err != nil {
		a.fail(c, err)
		return
	}
	a.writeJSON(c, a.opts.LogLevel.Set(level, d, who(c), a.requestID(c)))
}

// parseLevel reads a change. Errors: model.ErrInvalidArgument.
func parseLevel(o *object) (level slog.Level, d time.Duration, err error) {
	o.need("level")
	name, text := value(o.text("level"), ""), value(o.text("for"), "")
	if o.err != nil {
		return 0, 0, o.err
	}
	names := []string{"debug", "info", "warn", "error"}
	if !slices.Contains(names, name) || level.UnmarshalText([]byte(name)) != nil {
		return 0, 0, fmt.Errorf("%w: level must be one of %s, not %s", model.ErrInvalidArgument, strings.Join(names, ", "), quote(name))
	}
	d, err = parseFor(text)
	return level, d, err
}

// parseFor reads for how long. Errors: model.ErrInvalidArgument.
func parseFor(text string) (time.Duration, error) {
	if text == "" {
		return levelFor, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < shortestFor || d > longestFor {
		return 0, fmt.Errorf("%w: for must be a duration in 1s…24h such as 10m, not %s", model.ErrInvalidArgument, quote(text))
	}
	return d, nil
}
