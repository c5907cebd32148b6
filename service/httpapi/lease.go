package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"shardid/model"
	"shardid/service/access"

	"github.com/gin-gonic/gin"
)

// leaseItem is a lease in JSON. Times are Unix ms, as strings: they are for programs that count.
type leaseItem struct {
	Name       string `json:"name"`
	WorkerID   int64  `json:"workerId"`
	Secret     string `json:"secret"`
	Epoch      string `json:"epoch"`
	WorkerBits uint   `json:"workerBits"`
	SeqBits    uint   `json:"seqBits"`
	After      string `json:"after"` // IDs have a later time
	Until      string `json:"until"` // and this one at most
	Now        string `json:"now"`   // by the database's clock
	RenewMs    int64  `json:"renewMs"`
}

// leaseAnswer is a lease that was granted or renewed; without one, a lease that was released.
type leaseAnswer struct {
	Code  int        `json:"code"` // always 0
	Lease *leaseItem `json:"lease,omitempty"`
}

func answerLease(l model.NameLease, err error) (leaseAnswer, error) {
	ms := func(t int64) string { return strconv.FormatInt(t, 10) }
	return leaseAnswer{Lease: &leaseItem{
		Name: l.Name.Name, WorkerID: l.WorkerID, Secret: l.Secret, Epoch: ms(l.Name.EpochMs),
		WorkerBits: l.Name.WorkerBits, SeqBits: l.Name.SeqBits,
		After: ms(l.After), Until: ms(l.Until), Now: ms(l.Now), RenewMs: l.Renew().Milliseconds(),
	}}, err
}

// routeLeases adds the routes of leases. What has a lease may renew it and give it back even
// where there are too many clients.
func (a *API) routeLeases(e *gin.Engine) {
	e.POST("/v1/leases/:name", a.timed(access.Lease, a.serveLease(a.grantLease, "instance")))
	e.POST("/v1/leases/:name/:workerId/renew", a.timed(access.Lease, a.serveLease(a.renewLease, "secret")))
	e.DELETE("/v1/leases/:name/:workerId", a.timed(access.Lease, a.serveLease(a.releaseLease, "secret", "lastUsed")))
}

// leaseRequest is what a request for a lease asks for.
type leaseRequest struct {
	by    string // name of the token, "" for none
	key   model.LeaseKey
	given [maxParams]param
}

// serveLease answers a request about a lease of the name in the path.
func (a *API) serveLease(do func(context.Context, leaseRequest) (leaseAnswer, error), known ...string) gin.HandlerFunc {
	return func(c *gin.Context) {
		token, ok := a.admit(c, access.Lease)
		if !ok {
			return
		}
		a.serveJSON(http.StatusOK, func(ctx context.Context, c *gin.Context) (any, error) {
			r := leaseRequest{by: token.Name(), key: model.LeaseKey{Name: c.Param("name")}}
			err := a.opts.MayLease(token, r.key.Name)
			if err == nil {
				err = r.read(c, known)
			}
			if err != nil {
				return nil, err
			}
			answer, err := do(ctx, r)
			if err == nil {
				a.answers.Add(0)
			}
			return answer, err
		})(c)
	}
}

// read reads the parameters. A worker ID that no name can have is nobody's.
func (r *leaseRequest) read(c *gin.Context, known []string) error {
	query, err := readParams(c, known)
	if err != nil {
		return err
	}
	if r.given, err = scanQuery(query, true, known); err != nil || known[0] != "secret" {
		return err
	}
	if r.key.Secret = r.given[0].text; r.key.Secret == "" {
		return fmt.Errorf("%w: secret is missing: it is in the answer that granted the lease", model.ErrInvalidArgument)
	}
	worker, err := parseRange("workerId", c.Param("workerId"), 0, 1<<model.MaxNameWorkerBits-1)
	r.key.WorkerID = int64(worker)
	return err
}

func (a *API) grantLease(ctx context.Context, r leaseRequest) (leaseAnswer, error) {
	return answerLease(a.opts.Leases.Grant(ctx, r.by, r.key.Name, r.given[0].text))
}

func (a *API) renewLease(ctx context.Context, r leaseRequest) (leaseAnswer, error) {
	return answerLease(a.opts.Leases.Renew(ctx, r.key))
}

func (a *API) releaseLease(ctx context.Context, r leaseRequest) (leaseAnswer, error) {
	var lastUsed int64
	if last := r.given[1]; last.given {
		n, err := strconv.ParseUint(last.text, 10, 63)
		if lastUsed = int64(n); err != nil || n == 0 || n == math.MaxInt64 {
			return leaseAnswer{}, fmt.Errorf("%w: lastUsed must be the time of the last ID in Unix milliseconds, "+
				"not %s: "+
				"leave it out if nothing is known of it", model.ErrInvalidArgument, quote(last.text))
		}
	}
	return leaseAnswer{}, a.opts.Leases.Release(ctx, r.by, r.key, lastUsed)
}
