package alarm

import (
	"time"

	"shardid/model"
	"shardid/service/health"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"
)

// Facts are what alarms are raised from: how a replica is doing at one instant.
type Facts struct {
	Conditions      []health.Condition
	Settings        []model.Finding // what the stores said of theirs, when last asked
	UnsafeNoHistory bool            // redis.unsafe_no_history is set

	Queue     queue.Stats
	Apps      []queue.View
	Segment   segment.Stats // zero when the mode is disabled
	Snowflake *Snowflake    // nil when the mode is disabled
	UID       *uid.Status   // nil when the mode is disabled

	RingEmpty int64 // takes that found too little in the ring since the start
	Faults    int64 // requests that were answered -11 since the start
}

// Snowflake is how the snowflake mode is doing.
type Snowflake struct {
	Worker    worker.Status
	MaxOffset time.Duration // how far the clock may be from the registry's
	Remaining time.Duration // until the 41 bits of time end
}

// events say what happened recently.
type events struct{ lifts, farLifts, jumps, starved, ringEmpty, faults bool }
