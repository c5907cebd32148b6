package main

import (
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
)

// The kind of an ID is found by what it would be: IDs of the last years, of all kinds.
func TestKindIsFound(t *testing.T) {
	d := decoder(config.Defaults().Config)
	for at := time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2034; at = at.Add(1234 * time.Hour) {
		now := at.Add(10 * time.Minute)
		for _, c := range []struct {
			kind string
			id   int64
		}{
			{model.KindQueue, 1<<14 | 1}, {model.KindQueue, 1<<48 - 1<<8 | 7},
			{model.KindSnowflake, (at.UnixMilli()-d.Snowflake.EpochMs)<<22 | 39<<12 | 3448},
			{model.KindUID, (at.Unix()-d.UID.Epoch.Unix())<<(d.UID.WorkerBits+d.UID.SeqBits) | 21<<d.UID.SeqBits | 1},
		} {
			if found := fits(d, c.id, now); len(found) == 0 || found[0].kind != c.kind {
				t.Errorf("at %v, %s %d: %v", now, c.kind, c.id, found)
			}
		}
	}
}
