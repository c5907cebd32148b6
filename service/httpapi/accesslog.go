package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"shardid/service/background"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// accessLog writes a line for a request. Safe for concurrent use.
type accessLog struct {
	log    *slog.Logger
	mode   string
	served atomic.Int64
	errors background.RateLimitedLog // its Logger is not used
}

// logged writes a line for the request if it is due one. The line shows nothing of the
// query: a gatePass may be the name of a person.
func (l *accessLog) logged(c *gin.Context) {
	began := time.Now()
	c.Next()
	skipped, due := l.due(c.Writer.Status() >= http.StatusBadRequest || c.GetInt(codeKey) != 0)
	if !due {
		return
	}
	l.write(skipped, []slog.Attr{
		slog.String("method", cut(c.Request.Method, maxLogged)),
		slog.String("path", cut(c.Request.URL.Path, maxLogged)),
		slog.Int("status", c.Writer.Status()), slog.Int("code", c.GetInt(codeKey)), milliseconds(time.Since(began)),
		slog.Int("bytes", max(0, c.Writer.Size())),
	}, slog.String("request_id", knownID(c)), slog.String("trace_id", traceID(c)), slog.String("token", caller(c)))
}

// due says whether a request has a line, and how many were left out before it.
func (l *accessLog) due(failed bool) (skipped int, due bool) {
	switch {
	case !l.log.Enabled(context.Background(), slog.LevelInfo):
		return 0, false
	case l.mode == AccessAll:
		return 0, true
	case failed:
		return l.errors.Allow("request")
	}
	return 0, l.mode == AccessSampled && l.served.Add(1)%sampleEvery == 1
}

// write writes a line. Of known, texts that are empty are left out.
func (l *accessLog) write(skipped int, attrs []slog.Attr, known ...slog.Attr) {
	for _, k := range known {
		if k.Value.String() != "" {
			attrs = append(attrs, k)
		}
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int(background.MoreLines, skipped))
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// LogCommand writes a line for a command of a Redis client if it is due one.
func (a *API) LogCommand(c issuer.Command) {
	l := a.accessLog
	if l == nil {
		return
	}
	if skipped, due := l.due(c.Code != 0); due {
		l.write(skipped, []slog.Attr{
			slog.String("method", c.Name), slog.String("path", cut(string(c.Key), maxLogged)),
			slog.Int("code", c.Code), milliseconds(c.Took), slog.Int("count", c.Count),
		}, slog.String("trace_id", c.TraceID), slog.String("token", c.Token))
	}
}

func milliseconds(took time.Duration) slog.Attr {
	return slog.Float64("ms", float64(took.Microseconds())/1000)
}

// cut shortens what a caller chose.
func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
