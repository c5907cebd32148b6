package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"shardid/service/background"

	"github.com/gin-gonic/gin"
)

// accessLog writes a line for a request. Safe for concurrent use.
type accessLog struct {
	log    *slog.Logger
	mode   string
	served atomic.Int64
	errors background.RateLimitedLog // its Logger is not used
}

// logged writes a line for a request if it is due one. The line shows nothing of the
// query: a gatePass may be the name of a person. Texts that are empty are left out.
func (l *accessLog) logged(c *gin.Context) {
	began := time.Now()
	c.Next()
	due, skipped := l.mode == AccessAll, 0
	switch failed := c.Writer.Status() >= http.StatusBadRequest || c.GetInt(codeKey) != 0; {
	case !l.log.Enabled(context.Background(), slog.LevelInfo):
		return
	case !due && failed:
		skipped, due = l.errors.Allow("request")
	case !due:
		due = l.mode == AccessSampled && l.served.Add(1)%sampleEvery == 1
	}
	if !due {
		return
	}
	attrs := slices.DeleteFunc([]slog.Attr{
		slog.String("method", cut(c.Request.Method, maxLogged)),
		slog.String("path", cut(c.Request.URL.Path, maxLogged)),
		slog.Int("status", c.Writer.Status()), slog.Int("code", c.GetInt(codeKey)),
		slog.Float64("ms", float64(time.Since(began).Microseconds())/1000),
		slog.Int("bytes", max(0, c.Writer.Size())), slog.String("request_id", knownID(c)),
		slog.String("trace_id", traceID(c)), slog.String("token", caller(c)),
	}, func(a slog.Attr) bool { return a.Value.Equal(slog.StringValue("")) })
	if skipped > 0 {
		attrs = append(attrs, slog.Int(background.MoreLines, skipped))
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// cut shortens what a caller chose.
func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
