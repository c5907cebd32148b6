package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardid/model"
)

// layoutTimeout bounds the question at the start; a database that is away is asked
// again by the modes themselves.
const layoutTimeout = 3 * time.Second

// snowflakeRecord is what the database remembers of snowflake IDs.
func snowflakeRecord(cfg Config) model.LayoutRecord {
	return model.LayoutRecord{Kind: model.KindSnowflake, Layout: fmt.Sprintf("epoch_ms=%d", cfg.Snowflake.EpochMS)}
}

// checkLayouts refuses a start whose IDs could equal ones that were issued with
// another layout or epoch.
func (a *App) checkLayouts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	var changed *model.LayoutChangedError
	for record, enabled := range map[model.LayoutRecord]bool{
		snowflakeRecord(a.cfg): a.cfg.Snowflake.Enabled,
		uidRecord(a.cfg):       a.cfg.UID.Enabled,
	} {
		if !enabled {
			continue
		}
		if err := a.db.CheckLayout(ctx, record); errors.As(err, &changed) {
			return changed
		}
	}
	return nil
}

// recordLayout remembers the layout for ever. One that is not the recorded one ends
// the process, as it would have ended the start if the database had answered then.
func (a *App) recordLayout(ctx context.Context, record model.LayoutRecord) error {
	_, err := a.db.LayoutOnce(ctx, record)
	if errors.Is(err, model.ErrLayoutChanged) {
		select {
		case a.failed <- err:
		default: // it is ending already
		}
	}
	return err
}

// snowflakeLayoutAge is for how long snowflake IDs may have been issued.
func (a *App) snowflakeLayoutAge(ctx context.Context) (time.Duration, error) {
	if err := a.recordLayout(ctx, snowflakeRecord(a.cfg)); err != nil {
		return 0, err
	}
	return a.db.LayoutAge(ctx, model.KindSnowflake)
}
