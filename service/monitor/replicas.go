package monitor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/background"
)

const (
	// recordLasts is how long a record counts: a replica that dies is gone after that. It writes one for each sample.
	recordLasts = 3 * historyEvery
	// recordTimeout bounds a call of the store.
	recordTimeout = 2 * time.Second
	// mostAdded is of how many replicas the samples are added up. Each reads those of all, so that what Redis sends
	// grows with their square: of 32 with the rates of 256 tags it is 3 MB a second.
	mostAdded = 32
)

// errMany is why the charts are not of all replicas.
var errMany = fmt.Errorf("%w: the charts are of the replica that answers, as there are more than %d",
	model.Do("add the replicas up in Prometheus"), mostAdded)

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
	// Rates is its latest sample, by the names of the series; View leaves it out.
	Rates map[string]float64 `json:"rates,omitempty"`
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
	// Put stores the record of an instance, one line, and gives how old each one is of the others that counts.
	Put(ctx context.Context, instance, record string, lasts time.Duration) (map[string]time.Duration, error)
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

	mu      sync.Mutex // guards the rest; it is not held while the store is asked
	history history    // of all replicas together
	message string     // why its latest sample is of this one alone
	many    bool       // there are more than mostAdded; only sample uses it
}

// NewReplicas starts nothing. status gives the record of this replica, without Instance;
// store is nil when the replicas share none.
func NewReplicas(store RecordStore, status func() Record) *Replicas {
	return &Replicas{store: store, instance: rand.Text(), status: status, group: background.NewGroup("replicas")}
}

// Start writes the record every few seconds, and adds up those of all, until Stop.
func (r *Replicas) Start() {
	r.group.Start(func() { r.group.Every(historyEvery, r.sample) })
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
	view := r.view(ctx, func(ctx context.Context, _ Record) (map[string]time.Duration, error) {
		return r.store.All(ctx, recordLasts)
	})
	for i := range view.Replicas {
		view.Replicas[i].Rates = nil
	}
	return view
}

// view is View, with the rates, of the records that ask gets from the store, given that of this replica.
func (r *Replicas) view(
	ctx context.Context, ask func(context.Context, Record) (map[string]time.Duration, error),
) View {
	self := r.status()
	self.Instance = r.instance
	view := View{Self: r.instance, Shared: r.store != nil, Replicas: []Record{self}}
	if view.Shared {
		within, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		records, err := ask(within, self)
		view.Message = model.Message(err)
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

// sample writes the record, and adds up the latest samples of all replicas: of the rates the sum, of the latencies the
// longest. A failure is seen by the probe of the store, and by View.
func (r *Replicas) sample() {
	view := r.view(r.group.Context(), func(ctx context.Context, self Record) (map[string]time.Duration, error) {
		if r.many {
			self.Rates = nil // nobody adds them up
		}
		text, err := json.Marshal(self)
		if err != nil {
			return nil, err
		}
		return r.store.Put(ctx, r.instance, string(text), recordLasts)
	})
	if r.many = len(view.Replicas) > mostAdded; r.many {
		view.Message = model.Message(errMany)
	}
	values := map[string]float64{}
	for _, record := range view.Replicas {
		if r.many && record.Instance != r.instance {
			continue
		}
		for name, value := range record.Rates {
			if strings.HasSuffix(name, ".p99Ms") {
				values[name] = max(values[name], value)
			} else {
				values[name] += value
			}
		}
	}
	if len(values) == 0 {
		return // all have just started
	}
	values["replicas"] = float64(len(view.Replicas))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.message = view.Message
	r.history.add(samples, time.Now(), values)
}

// History is the last hour of all replicas together, as far as this process has seen it: what each mode issued, its
// latencies, refusals, how many replicas there were, and further series, of an app or a tag. Of these what is not known
// is 0: a sample leaves out what is idle.
func (r *Replicas) History(further ...string) Chart {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := Chart{PeriodSeconds: int(historyEvery.Seconds()), Times: append([]int64{}, r.history.times...),
		Series: map[string]Points{}, Message: r.message}
	add := func(name string, unknown float64) {
		all := slices.Clone(r.history.series[name])
		if all == nil {
			all = slices.Repeat(Points{float32(math.NaN())}, len(c.Times))
		}
		for i, v := range all {
			if math.IsNaN(float64(v)) {
				all[i] = float32(unknown)
			}
		}
		c.Series[name] = all
	}
	for name := range rates() {
		add(name, math.NaN())
	}
	for _, mode := range model.Modes() {
		add(mode.String()+".p99Ms", math.NaN())
	}
	add("replicas", math.NaN())
	for _, name := range further {
		add(name, 0)
	}
	return c
}
