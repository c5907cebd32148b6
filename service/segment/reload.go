package segment

import (
	"context"
	"time"
)

// Reload reads the tags now, after a change that is committed; a reload that is under
// way and may have missed it is followed by another. Errors: model.ErrNotReady,
// *model.StoreError, or that of ctx, when it may still take place.
func (s *Service) Reload(ctx context.Context) error {
	if s.catalogue.Load() == nil {
		return s.notReady()
	}
	done := make(chan error, 1)
	if !s.spawn(func() { done <- s.reloadAndReport() }) {
		return errStopping
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NextReload is by when every replica of this configuration has read the tags anew
// after now.
func (s *Service) NextReload(now time.Time) time.Time { return now.Add(s.opts.Reload) }
