package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	// readingAge is how old what a page shows may be: it is read once in that time,
	// however many ask.
	readingAge = time.Second
	// readTimeout bounds what a page reads from a store.
	readTimeout = 2 * time.Second
)

// reading is the body of a page that is costly to make. Those who ask while it is made
// wait for it. Safe for concurrent use.
type reading struct {
	read    func(context.Context) ([]byte, error) // the body is not changed afterwards
	changes *atomic.Int64                         // what was read before the latest one is out of date
	turn    chan struct{}                         // holds one while it is read; guards the rest

	at     time.Time // of body and err; zero before the first
	change int64     // the latest one then
	body   []byte
	err    error
}

// get is the latest reading, or a new one, which does not end with the request that
// causes it, as others may wait for it.
func (r *reading) get(ctx context.Context) ([]byte, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if change := r.changes.Load(); r.at.IsZero() || time.Since(r.at) >= readingAge || r.change != change {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		r.body, r.err = r.read(bounded)
		r.at, r.change = time.Now(), change
	}
	return r.body, r.err
}

// page answers with a reading.
func (a *API) page(read func(context.Context) ([]byte, error), write func(c *gin.Context, body []byte)) gin.HandlerFunc {
	r := &reading{read: read, changes: &a.changes, turn: make(chan struct{}, 1)}
	return func(c *gin.Context) {
		body, err := r.get(c.Request.Context())
		if err != nil {
			a.failStore(c, err)
			return
		}
		write(c, body)
	}
}

// metrics answers in Prometheus' text format, which every scraper reads.
func (a *API) metrics() gin.HandlerFunc {
	write := func(c *gin.Context, body []byte) { a.writeBody(c, 200, a.headers.prometheus, body) }
	plain := a.page(a.opts.Metrics, write)
	zipped := a.page(func(ctx context.Context) ([]byte, error) {
		body, err := a.opts.Metrics(ctx)
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(body) // a buffer takes everything
		_ = z.Close()
		return out.Bytes(), err
	}, func(c *gin.Context, body []byte) {
		c.Header("Content-Encoding", "gzip")
		write(c, body)
	})
	return func(c *gin.Context) {
		c.Header("Vary", "Accept-Encoding")
		if q, _ := quality(c.GetHeader("Accept-Encoding"), "gzip"); q > 0 {
			zipped(c)
			return
		}
		plain(c)
	}
}
