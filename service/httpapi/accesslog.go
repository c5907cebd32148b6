package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
)

// What log.access can be. The lines are of level info.
const (
	AccessOff     = "off"     // nothing
	AccessErrors  = "errors"  // requests that were refused or failed, up to errorLines a second
	AccessSampled = "sampled" // those, and one in sampleEvery of the others
	AccessAll     = "all"     // every request
)

const (
	// errorLines is how many refused requests a second have a line: a caller that is
	// refused again and again must not fill the disk.
	errorLines = 100
	// sampleEvery is the share of the served requests that have a line.
	sampleEvery = 100
	// maxLogged is how much of a path a line shows, in bytes.
	maxLogged = 256
)

// accessLog writes a line for a request. Safe for concurrent use.
type accessLog struct {
	log    *slog.Logger
	mode   string
	served atomic.Int64
	errors *sparse
}

func newAccessLog(log *slog.Logger, mode string) *accessLog {
	return &accessLog{log: log, mode: mode, errors: newSparse(errorLines)}
}

// isOn says whether requests are to be shown to it.
func (l *accessLog) isOn() bool { return l.mode != "" && l.mode != AccessOff }

// logged writes a line for the request if it is due one.
func (l *accessLog) logged(c *gin.Context) {
	began := time.Now()
	c.Next()
	if l.log.Enabled(context.Background(), slog.LevelInfo) && l.due(c.Writer.Status()) {
		l.write(c, time.Since(began))
	}
}

// due says whether a request that was answered so has a line.
func (l *accessLog) due(status int) bool {
	switch {
	case l.mode == AccessAll:
		return true
	case status < http.StatusBadRequest:
		return l.mode == AccessSampled && l.served.Add(1)%sampleEvery == 1
	}
	return l.errors.allow()
}

// write shows nothing of the query: a gatePass may be the name of a person. The path
// can be a caller's own, so it is cut.
func (l *accessLog) write(c *gin.Context, took time.Duration) {
	attrs := append(make([]slog.Attr, 0, 10),
		slog.String("method", cut(c.Request.Method)), slog.String("path", cut(c.Request.URL.Path)),
		slog.Int("status", c.Writer.Status()), slog.Int("code", c.GetInt(codeKey)),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.Int("bytes", max(0, c.Writer.Size())),
	)
	attrs = appendText(attrs, "request_id", knownID(c))
	attrs = appendText(attrs, "trace_id", traceID(c))
	attrs = appendText(attrs, "token", who(c))
	if n := l.errors.skipped.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64(moreLines, n))
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// appendText leaves out what is not there.
func appendText(attrs []slog.Attr, key, value string) []slog.Attr {
	if value == "" {
		return attrs
	}
	return append(attrs, slog.String(key, value))
}

func cut(text string) string {
	if len(text) > maxLogged {
		return text[:maxLogged] + "…"
	}
	return text
}
