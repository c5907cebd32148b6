package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"shardid/model"
	"shardid/service/monitor"
)

// Status is the body of /api/status, what the console shows. Options.Status fills
// Version, StartedAt and the parts of the modes; the API fills the rest. Fields
// may be added, none changes its meaning. IDs also come as strings; other numbers
// stay below 2^53.
type Status struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Ready is what /readyz answers, Message its reason.
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	// Modes has all four, by name.
	Modes map[string]ModeStatus `json:"modes"`
	// Stores are the conditions of the stores, and of what is tried again and
	// again.
	Stores []model.Condition `json:"stores"`
	// Alarms are what an operator should look at, the most severe first.
	Alarms []monitor.Alarm `json:"alarms"`

	Queue     *QueueStatus     `json:"queue,omitempty"`
	Segment   *SegmentStatus   `json:"segment,omitempty"`
	Snowflake *SnowflakeStatus `json:"snowflake,omitempty"`
	UID       *UIDStatus       `json:"uid,omitempty"`
}

// ModeStatus is whether a mode can issue.
type ModeStatus struct {
	Enabled bool      `json:"enabled"`
	Ready   bool      `json:"ready"`
	Since   time.Time `json:"since,omitzero"` // when a change of Ready was first seen
	Error   string    `json:"error,omitempty"`
}

// QueueStatus is the queue mode.
type QueueStatus struct {
	Issued  int64 `json:"issued"`  // IDs since the start
	Pops    int64 `json:"pops"`    // since the start
	Refills int64 `json:"refills"` // segments pushed since the start
	Held    int64 `json:"held"`    // IDs that this replica holds ahead of its callers
	// Wasted are the indices since the start that nobody will get, by reason.
	Wasted map[string]int64 `json:"wasted"`
	Apps   []AppStatus      `json:"apps"`
}

// AppStatus is one app and its lists.
type AppStatus struct {
	AppID       int               `json:"appId"`
	Name        string            `json:"name"`
	Step        int64             `json:"step"`       // smallest segment, in indices
	MaxLimitID  int64             `json:"maxLimitId"` // 0 means none
	LimitPolicy model.LimitPolicy `json:"limitPolicy"`
	Issued      int64             `json:"issued"`  // IDs since the start
	Refills     int64             `json:"refills"` // segments pushed since the start
	Held        int64             `json:"held"`    // IDs that this replica holds ahead of its callers
	// IssuedPerSecond is the average of the last quarter of a minute.
	IssuedPerSecond float64 `json:"issuedPerSecond"`
	// HighestIndex is the highest index of any shard that was issued or may be at any
	// moment; LeftShare is the share, in 0…1, of its indices that the shard which has
	// the fewest can still allocate.
	HighestIndex int64   `json:"highestIndex"`
	LeftShare    float64 `json:"leftShare"`
	// Exhausted is how many shards have nothing more to give under the limit,
	// Unconfirmed how many wait for shardid confirm.
	Exhausted   int `json:"exhausted"`
	Unconfirmed int `json:"unconfirmed"`
	// Unused are the shards of which no index was ever allocated: their lists are empty
	// as long as nobody asks for them, and no sweep came.
	Unused []int `json:"unused"`
	// Depths are the indices that the store holds for each shard; -1 is unknown. They
	// are at most a second old.
	Depths [model.Shards]int64 `json:"depths"`
}

// MarshalJSON adds the ID as a string.
func (s AppStatus) MarshalJSON() ([]byte, error) {
	type plain AppStatus // without this method
	return json.Marshal(struct {
		plain
		MaxLimitIDStr int64 `json:"maxLimitIdStr,string"`
	}{plain(s), s.MaxLimitID})
}

// SegmentStatus is the segment mode.
type SegmentStatus struct {
	Issued int64         `json:"issued"` // IDs since the start
	Tags   []SegmentView `json:"tags"`
}

// SegmentView is what a replica holds of one tag: the columns of Leaf's page and
// how long it lasts. Leaf has two buffers; Pos says which one is in use, of
// which Value is the next ID and Max the end, which is not issued.
type SegmentView struct {
	Key       string `json:"key"`
	InitOK    bool   `json:"initOk"`
	NextReady bool   `json:"nextReady"`
	Pos       int    `json:"pos"` // 0 or 1

	Value0 int64 `json:"value0"`
	Step0  int64 `json:"step0"`
	Max0   int64 `json:"max0"`
	Value1 int64 `json:"value1"`
	Step1  int64 `json:"step1"`
	Max1   int64 `json:"max1"`

	Ahead         int       `json:"ahead"`             // segments held beyond the one in use
	Held          int64     `json:"held"`              // IDs that can be issued without the database
	Rate          float64   `json:"rate"`              // IDs a second, smoothed
	RunwaySeconds float64   `json:"runwaySeconds"`     // how long Held lasts at Rate, with a bound for a Rate of 0
	LastLoad      time.Time `json:"lastLoad,omitzero"` // of the latest segment
}

// MarshalJSON adds the IDs as strings.
func (v SegmentView) MarshalJSON() ([]byte, error) {
	type plain SegmentView // without this method
	return json.Marshal(struct {
		plain
		Value0Str int64 `json:"value0Str,string"`
		Max0Str   int64 `json:"max0Str,string"`
		Value1Str int64 `json:"value1Str,string"`
		Max1Str   int64 `json:"max1Str,string"`
	}{plain(v), v.Value0, v.Max0, v.Value1, v.Max1})
}

// SnowflakeStatus is the snowflake mode.
type SnowflakeStatus struct {
	Issued                   int64     `json:"issued"`   // IDs since the start
	WorkerID                 int       `json:"workerId"` // -1 while none is held
	Mode                     string    `json:"mode"`     // of the registry of worker IDs
	Address                  string    `json:"address"`  // of this instance, ip:port
	State                    string    `json:"state"`    // waiting, serving or offline
	ReservedUntil            time.Time `json:"reservedUntil,omitzero"`
	TrustSeconds             float64   `json:"trustSeconds"`       // how long the lease is trusted without a renewal
	ClockOffsetSeconds       float64   `json:"clockOffsetSeconds"` // how far this clock is ahead of the registry's
	RemainingLifetimeSeconds int64     `json:"remainingLifetimeSeconds"`
	Error                    string    `json:"error,omitempty"` // the registry's latest
}

// UIDStatus is the UID mode.
type UIDStatus struct {
	Issued                   int64     `json:"issued"`   // IDs since the start
	Mode                     string    `json:"mode"`     // default or cached
	WorkerID                 int64     `json:"workerId"` // -1 while none is held
	NodeID                   int64     `json:"nodeId"`   // row of WORKER_NODE; 0 while there is none
	RingSize                 int64     `json:"ringSize"` // IDs; 0 in default mode
	RingFilled               int64     `json:"ringFilled"`
	Discarded                int64     `json:"discarded"`            // IDs put on a full ring
	LastSecond               time.Time `json:"lastSecond,omitzero"`  // time of the newest ID
	AheadSeconds             float64   `json:"aheadSeconds"`         // how far LastSecond is ahead of the clock
	MarkedUntil              time.Time `json:"markedUntil,omitzero"` // IDs may be issued up to this second
	RemainingLifetimeSeconds int64     `json:"remainingLifetimeSeconds"`
}

// readStatus is what the console shows.
func (a *API) readStatus(ctx context.Context) ([]byte, error) {
	var s Status
	if a.opts.Status != nil {
		s = a.opts.Status(ctx)
	}
	ready := a.readiness()
	s.Ready, s.Message = ready.Status != statusNotReady, ready.Message
	s.Modes, s.Stores = a.modeStatus(), a.opts.Conditions.Conditions()
	s.Alarms = append([]monitor.Alarm{}, s.Alarms...) // none is [], not null
	return encodeJSON(s)
}

// Readiness is what /readyz answers, and how each mode is doing.
func (a *API) Readiness() (ready bool, modes map[string]ModeStatus) {
	return a.readiness().Status != statusNotReady, a.modeStatus()
}

// readReplicas is how all replicas of the deployment are doing.
func (a *API) readReplicas(ctx context.Context) ([]byte, error) {
	view := monitor.View{Replicas: []monitor.Record{}}
	if a.opts.Replicas != nil {
		view = a.opts.Replicas.View(ctx)
	}
	return encodeJSON(view)
}

// modeStatus has every mode, the disabled ones too.
func (a *API) modeStatus() map[string]ModeStatus {
	all := map[string]ModeStatus{
		ModeSegment:   {Enabled: a.opts.Segment != nil},
		ModeSnowflake: {Enabled: a.opts.Snowflake != nil},
		ModeUID:       {Enabled: a.opts.UID != nil},
	}
	for _, m := range a.look() {
		all[m.Name] = ModeStatus{Enabled: true, Ready: m.OK, Since: m.Since, Error: m.Error}
	}
	return all
}
