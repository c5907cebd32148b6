package main

import (
	"context"
	"fmt"
	"os"

	"shardid/service/queue"
	"shardid/service/tracing"
)

// wireTracing begins to send spans when a receiver is configured. It comes before all
// others, so that it is stopped after them.
func (a *App) wireTracing() (err error) {
	c := a.cfg.Tracing
	if c.Endpoint == "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this instance for tracing: %w", err)
	}
	a.tracer, err = tracing.Start(tracing.Options{
		Endpoint: c.Endpoint, SampleRatio: c.SampleRatio, Version: versionString(),
		Instance: fmt.Sprintf("%s-%d", host, os.Getpid()), Log: a.log,
	})
	if err != nil {
		return err
	}
	a.onStop("tracing", func(ctx context.Context) error { a.tracer.Stop(ctx); return nil })
	return nil
}

// tracedQueue wraps what the queue mode asks of its stores, when tracing is on.
func (a *App) tracedQueue(o queue.Options, lists string) queue.Options {
	if a.tracer == nil {
		return o
	}
	o.Lists, o.Locker = a.tracer.Lists(lists, o.Lists), a.tracer.Locker(lists, o.Locker)
	o.Allocator, o.Catalogue = a.tracer.Allocator(storeDatabase, o.Allocator), a.tracer.Catalogue(storeDatabase, o.Catalogue)
	o.Observe = a.tracer.Refill
	return o
}
