package monitor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"shardid/service/background"
)

const (
	// recordEvery is the pause between two records of a replica.
	recordEvery = 3 * time.Second
	// recordLasts is how long a record counts: a replica that dies is gone after that.
	recordLasts = 10 * time.Second
	// recordTimeout bounds a call of the store.
	recordTimeout = 2 * time.Second
)

// Record is the status of a replica at one instant.
type Record struct {
	Instance  string    `json:"instance"` // of the process: a restart gets another
	Host      string    `json:"host"`     // name of the machine
	URL       string    `json:"url"`      // of its console
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
	// Ready is what /readyz answers.
	Ready bool `json:"ready"`
	// Modes has all of them, by name, the disabled ones too.
	Modes map[string]ModeRecord `json:"modes"`
	// WorkerID is that of the snowflake mode, -1 while none is held.
	WorkerID int `json:"workerId"`
	// Alarms counts the alarms by severity.
	Alarms map[string]int `json:"alarms"`
	// AgeSeconds is how old the record is, by the store's clock.
	AgeSeconds float64 `json:"ageSeconds"`
}

// ModeRecord is how a mode of a replica is doing.
type ModeRecord struct {
	Enabled      bool    `json:"enabled"`
	Ready        bool    `json:"ready"`
	IDsPerSecond float64 `json:"idsPerSecond"`
}

// View is the deployment as one replica sees it.
type View struct {
	// Self is the instance that answers.
	Self string `json:"self"`
	// Shared says whether the replicas share a store of records. Without, or with a
	// Message, Replicas has this one only.
	Shared   bool     `json:"shared"`
	Message  string   `json:"message,omitempty"`
	Replicas []Record `json:"replicas"`
}

// RecordStore keeps the records of all replicas. Errors: *model.StoreError.
type RecordStore interface {
	// Put stores the record of an instance, one line.
	Put(ctx context.Context, instance, record string, lasts time.Duration) error
	// Remove drops it.
	Remove(ctx context.Context, instance string, lasts time.Duration) error
	// All gives how old each record is that counts.
	All(ctx context.Context, lasts time.Duration) (map[string]time.Duration, error)
}

// Replicas lets an operator see all replicas of a deployment on one page: each keeps a
// short-lived record of its status in a store that all share, and they do not call each
// other. Safe for concurrent use.
type Replicas struct {
	store    RecordStore
	instance string
	status   func() Record
	group    *background.Group
}

// NewReplicas starts nothing. status gives the record of this replica, without Instance;
// store is nil when the replicas share none.
func NewReplicas(store RecordStore, status func() Record) *Replicas {
	return &Replicas{store: store, instance: rand.Text(), status: status, group: background.NewGroup("replicas")}
}

// Start writes the record every few seconds until Stop.
func (r *Replicas) Start() {
	if r.store != nil {
		r.group.Start(func() { r.group.Every(recordEvery, r.write) })
	}
}

// write stores the record. A failure is seen by the probe of the store, and by View.
func (r *Replicas) write() {
	ctx, cancel := context.WithTimeout(r.group.Context(), recordTimeout)
	defer cancel()
	if text, err := json.Marshal(r.self()); err == nil {
		_ = r.store.Put(ctx, r.instance, string(text), recordLasts)
	}
}

func (r *Replicas) self() Record {
	record := r.status()
	record.Instance = r.instance
	return record
}

// Stop ends the writing and removes the record. It may be called twice, and without
// Start.
func (r *Replicas) Stop(ctx context.Context) error {
	err := r.group.Stop(ctx, nil)
	if r.store != nil {
		within, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		_ = r.store.Remove(within, r.instance, recordLasts) // it expires anyway
	}
	return err
}

// View reads the records of all replicas, in order of their hosts and URLs; this one is
// always among them.
func (r *Replicas) View(ctx context.Context) View {
	view := View{Self: r.instance, Shared: r.store != nil, Replicas: []Record{r.self()}}
	if view.Shared {
		within, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		records, err := r.store.All(within, recordLasts)
		if err != nil {
			view.Message = err.Error()
		}
		for text, age := range records {
			var other Record
			if json.Unmarshal([]byte(text), &other) == nil && other.Instance != r.instance {
				other.AgeSeconds = age.Seconds()
				view.Replicas = append(view.Replicas, other)
			}
		}
	}
	slices.SortFunc(view.Replicas, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.URL, b.URL), cmp.Compare(a.Instance, b.Instance))
	})
	return view
}
