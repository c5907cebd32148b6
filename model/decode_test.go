package model_test

import (
	"fmt"
	"testing"
	"time"

	"shardid/model"
)

// The snowflake decodes as Leaf's own monitor page shows it, the UID is the
// published example of Baidu's README.
func TestDecode(t *testing.T) {
	d := model.Decoder{
		SnowflakeEpochMs: 1288834974657,
		UID:              model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13, Epoch: time.Date(2016, 5, 19, 16, 0, 0, 0, time.UTC)},
	}
	for _, c := range []struct {
		kind string
		id   int64
		want string
	}{
		{"queue", 16385, "[{index 1} {shardId 0} {appId 1}]"},
		{"snowflake", 1169786042799259000, "[{timestamp 1567733700834} {time 2019-09-06T01:35:00.834Z} {workerId 39} {sequenceId 3448}]"},
		{"uid", 3200169789968523265, "[{timestamp 1556810799} {time 2019-05-02T15:26:39Z} {workerId 21} {sequence 1}]"},
	} {
		parts, err := d.Decode(c.kind, c.id)
		if got := fmt.Sprint(parts); err != nil || got != c.want {
			t.Errorf("Decode(%s, %d) = %s, %v, want %s", c.kind, c.id, got, err, c.want)
		}
	}
}
