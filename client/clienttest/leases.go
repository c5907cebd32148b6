package clienttest

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

// The layout and the hold of every name.
const (
	epoch               = 1288834974657 // Unix ms
	workerBits, seqBits = 10, 12
	hold                = time.Minute
)

// lease is a lease of a worker ID, as /v1/leases answers it; a released one has no secret.
type lease struct {
	Name       string `json:"name"`
	WorkerID   int    `json:"workerId"`
	Secret     string `json:"secret"`
	Epoch      int64  `json:"epoch,string"`
	WorkerBits uint   `json:"workerBits"`
	SeqBits    uint   `json:"seqBits"`
	After      int64  `json:"after,string"`
	Until      int64  `json:"until,string"`
	Now        int64  `json:"now,string"`
	RenewMs    int64  `json:"renewMs"`
}

var leasePaths = regexp.MustCompile(`^/v1/leases/([^/]+)(?:/(\d{1,4})(/renew)?)?$`)

// ofLeases answers a request about leases; false for a path of something else. Callers hold mu.
func (s *Server) ofLeases(method, path string, params url.Values) (reply, bool) {
	found := leasePaths.FindStringSubmatch(path)
	if found == nil || (found[2] != "" && found[3] == "") != (method == http.MethodDelete) {
		return reply{}, false
	}
	name, now := found[1], time.Now().UnixMilli()
	if found[2] == "" {
		return s.grant(name, now), true
	}
	worker, _ := strconv.Atoi(found[2])
	if worker >= len(s.leases[name]) || params.Get("secret") == "" || params.Get("secret") != s.leases[name][worker].Secret {
		return reply{Code: -14, Message: "the worker ID is not leased under this secret: get a new lease"}, true
	}
	l := s.leases[name][worker]
	if found[3] != "" && l.Until <= now {
		return reply{Code: -14, Message: "the lease has ended: get a new one"}, true
	}
	if found[3] != "" {
		l.Now, l.Until = now, now+hold.Milliseconds()
		answered := *l
		return reply{Lease: &answered}, true
	}
	l.Secret = ""
	if used, err := strconv.ParseInt(params.Get("lastUsed"), 10, 64); err == nil {
		l.Until = max(l.After, used)
	}
	return reply{}, true
}

// grant leases the first worker ID of a name that was released, or one that is new.
func (s *Server) grant(name string, now int64) reply {
	all := s.leases[name]
	worker := 0
	for worker < len(all) && all[worker].Secret != "" {
		worker++
	}
	if worker == 1<<workerBits {
		return reply{Code: -8, Message: "all worker IDs are leased"}
	}
	l := &lease{Name: name, WorkerID: worker, Secret: rand.Text(), Epoch: epoch, WorkerBits: workerBits, SeqBits: seqBits,
		Until: now + hold.Milliseconds(), Now: now, RenewMs: (hold / 3).Milliseconds()}
	if worker < len(all) {
		l.After = all[worker].Until
		all[worker] = l
	} else {
		s.leases[name] = append(all, l)
	}
	answered := *l
	return reply{Lease: &answered}
}
