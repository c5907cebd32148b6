// Package fleet lets an operator see all replicas of a deployment on one page. Each
// replica keeps a short-lived record of its status in a store that all share; they do not
// call each other.
package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

const (
	// every is the pause between two records of a replica.
	every = 3 * time.Second
	// lasts is how long a record counts: a replica that dies is gone after that.
	lasts = 10 * time.Second
	// timeout bounds a call of the store.
	timeout = 2 * time.Second
	// fresh is how long a reading of all records is good enough: several consoles cost
	// the store no more than one.
	fresh = time.Second
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
	// Modes has all four, by name.
	Modes map[string]Mode `json:"modes"`
	// WorkerID is that of the snowflake mode, -1 while none is held.
	WorkerID int `json:"workerId"`
	// Alarms counts the alarms by severity.
	Alarms map[string]int `json:"alarms"`
	// AgeSeconds is how old the record is, by the store's clock.
	AgeSeconds float64 `json:"ageSeconds"`
}

// Mode is how a mode of a replica is doing.
type Mode struct {
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

// Store keeps the records of all replicas. Errors: *model.StoreError.
type Store interface {
	// Put stores the record of an instance, one line.
	Put(ctx context.Context, instance, record string, lasts time.Duration) error
	// Remove drops it.
	Remove(ctx context.Context, instance string, lasts time.Duration) error
	// All gives how old each record is that counts.
	All(ctx context.Context, lasts time.Duration) (map[string]time.Duration, error)
}

// Fleet writes the record of this replica and reads those of all. Safe for concurrent
// use.
type Fleet struct {
	store    Store
	instance string
	status   func() Record

	mu   sync.Mutex // held while the store is read: callers at the same time share a reading
	read View
	at   time.Time // of read

	ctx    context.Context // ends at Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New starts nothing. status gives the record of this replica, without Instance; store is
// nil when there is none that replicas share.
func New(store Store, status func() Record) *Fleet {
	f := &Fleet{store: store, instance: rand.Text(), status: status}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Start writes the record every few seconds until Stop. It is called once.
func (f *Fleet) Start() {
	if f.store != nil {
		f.wg.Go(f.run)
	}
}

func (f *Fleet) run() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		f.write()
		select {
		case <-tick.C:
		case <-f.ctx.Done():
			return
		}
	}
}

// write stores the record. A failure is seen by the probe of the store, and by View.
func (f *Fleet) write() {
	ctx, cancel := context.WithTimeout(f.ctx, timeout)
	defer cancel()
	if record, err := json.Marshal(f.self()); err == nil {
		_ = f.store.Put(ctx, f.instance, string(record), lasts)
	}
}

func (f *Fleet) self() Record {
	r := f.status()
	r.Instance = f.instance
	return r
}

// Stop ends the writing and removes the record. It may be called twice, and without
// Start.
func (f *Fleet) Stop(ctx context.Context) {
	f.cancel()
	f.wg.Wait()
	if f.store != nil {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		_ = f.store.Remove(limited, f.instance, lasts) // it expires anyway
	}
}

// View gives all replicas, in order of their hosts and URLs; this one is always among
// them. It reads the store at most once a second, within 2 s.
func (f *Fleet) View(ctx context.Context) View {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at.IsZero() && time.Since(f.at) < fresh {
		return f.read
	}
	view := View{Self: f.instance, Shared: f.store != nil, Replicas: []Record{f.self()}}
	if view.Shared {
		// Not the caller's end: others wait for this reading.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		records, err := f.store.All(limited, lasts)
		if err != nil {
			view.Message = err.Error()
		}
		for text, age := range records {
			var r Record
			if json.Unmarshal([]byte(text), &r) == nil && r.Instance != f.instance {
				r.AgeSeconds = age.Seconds()
				view.Replicas = append(view.Replicas, r)
			}
		}
	}
	slices.SortFunc(view.Replicas, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.URL, b.URL), cmp.Compare(a.Instance, b.Instance))
	})
	f.read, f.at = view, time.Now()
	return view
}
