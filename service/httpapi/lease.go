// Leases of worker IDs of names, for holders that make IDs themselves. The store decides, in one transaction each,
// who may use which times; here requests are read, calls of the store bounded, and changes told to the log.

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"shardid/client/idgen"
	"shardid/model"

	"github.com/gin-gonic/gin"
)

// leaseTimeout bounds each call of the store of leases.
const leaseTimeout = 5 * time.Second

// Leases keeps the leases, by the rules that repository/sqlstore/leases.go has. Errors:
// model.ErrUnknownName, ErrNoWorkerID, ErrLeaseLost, ErrInvalidArgument, *model.StoreError.
type Leases interface {
	GrantLease(ctx context.Context, name, instance string) (model.NameLease, error)
	RenewLease(ctx context.Context, key model.LeaseKey) (model.NameLease, error)
	ReleaseLease(ctx context.Context, key model.LeaseKey, lastUsed int64) error
}

// NoneFreeOf is the name whose worker IDs were all leased when one was last asked for; "" for none.
func (a *API) NoneFreeOf() string {
	if last := a.noneFreeOf.Load(); last != nil {
		return *last
	}
	return ""
}

// LeaseItem is a lease in JSON. Times are Unix ms, as strings: they are for programs that count.
type LeaseItem struct {
	Name     string `json:"name"`
	WorkerID int64  `json:"workerId"`
	Secret   string `json:"secret"`
	idgen.Layout
	After   int64 `json:"after,string"` // IDs have a later time
	Until   int64 `json:"until,string"` // and this one at most
	Now     int64 `json:"now,string"`   // by the database's clock
	RenewMs int64 `json:"renewMs"`      // between two renewals, a third of what a lease lasts
}

// answerLease is the answer with a lease that was granted or renewed.
func answerLease(l model.NameLease, err error) (any, error) {
	return map[string]any{"code": 0, "lease": LeaseItem{
		Name: l.Name.Name, WorkerID: l.WorkerID, Secret: l.Secret, Layout: l.Name.Layout,
		After: l.After, Until: l.Until, Now: l.Now, RenewMs: l.Renew().Milliseconds(),
	}}, err
}

// routeLeases adds the routes of leases. What has a lease may renew it and give it back even
// where there are too many clients.
func (a *API) routeLeases(e *gin.Engine) {
	e.POST("/v1/leases/:name", a.serveLease(a.grantLease, "instance"))
	e.POST("/v1/leases/:name/:workerId/renew", a.serveLease(a.renewLease, "secret"))
	e.DELETE("/v1/leases/:name/:workerId", a.serveLease(a.releaseLease, "secret", "lastUsed"))
}

// leaseRequest is what a request for a lease asks for.
type leaseRequest struct {
	by    string // name of the token, "" for none
	key   model.LeaseKey
	given [maxParams]param
}

// serveLease answers a request about a lease of the name in the path. A caller that goes away leaves a lease that ends
// by itself, or one that is longer than its holder knows.
func (a *API) serveLease(do func(context.Context, leaseRequest) (any, error), known ...string) gin.HandlerFunc {
	answers := func(ctx context.Context, c *gin.Context) (any, error) {
		r := leaseRequest{by: caller(c), key: model.LeaseKey{Name: c.Param("name")}}
		if err := r.read(c, known); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		answer, err := do(ctx, r)
		if _, away := errors.AsType[*model.StoreError](err); away {
			err = fmt.Errorf("%w: %w", model.ErrLeaseStore, err)
		}
		return answer, err
	}
	return a.timed(model.ModeLease, func(c *gin.Context) {
		token, ok := a.admit(c, model.ModeLease)
		if !ok {
			return
		}
		if err := a.opts.MayLease(token, c.Param("name")); err != nil {
			a.fail(c, err)
			return
		}
		a.serveJSON(http.StatusOK, answers)(c)
	})
}

// read reads the parameters. A worker ID that no name can have is nobody's.
func (r *leaseRequest) read(c *gin.Context, known []string) error {
	query, err := readParams(c, known)
	if err != nil {
		return err
	}
	if r.given, err = scanQuery(query, true, known...); err != nil || known[0] != "secret" {
		return err
	}
	if r.key.Secret = r.given[0].text; r.key.Secret == "" {
		return fmt.Errorf("%w: send the secret of the answer that granted the lease: secret is missing",
			model.ErrInvalidArgument)
	}
	worker, err := model.ParseRange("workerId must be", c.Param("workerId"), 0, 1<<model.MaxNameWorkerBits-1)
	r.key.WorkerID = int64(worker)
	return err
}

// grantLease leases a worker ID to an instance, "" for one that does not say what it is called.
func (a *API) grantLease(ctx context.Context, r leaseRequest) (any, error) {
	name, instance := r.key.Name, r.given[0].text
	if err := model.CheckInstance(instance); err != nil {
		return nil, err
	}
	lease, err := a.opts.Leases.GrantLease(ctx, name, instance)
	switch {
	case err == nil:
		a.opts.Log.Info("lease granted", "name", name, "worker_id", lease.WorkerID, "instance", instance,
			"after", lease.After, "until", lease.Until, "who", r.by)
	case errors.Is(err, model.ErrNoWorkerID):
		a.noneFreeOf.Store(&name)
		a.noneFree.Inc()
		a.opts.Log.Warn("a lease was refused", "name", name, "error", err)
	}
	return answerLease(lease, err)
}

func (a *API) renewLease(ctx context.Context, r leaseRequest) (any, error) {
	return answerLease(a.opts.Leases.RenewLease(ctx, r.key))
}

// releaseLease ends a lease whose holder issues nothing more.
func (a *API) releaseLease(ctx context.Context, r leaseRequest) (any, error) {
	var lastUsed int64 // 0: nothing is known of it
	if last := r.given[1]; last.given {
		n, err := strconv.ParseUint(last.text, 10, 63)
		if lastUsed = int64(n); err != nil || n == 0 || n == math.MaxInt64 {
			return nil, fmt.Errorf("%w: leave lastUsed out, or send the time of the last ID in Unix milliseconds: it "+
				"is %.64q", model.ErrInvalidArgument, last.text)
		}
	}
	err := a.opts.Leases.ReleaseLease(ctx, r.key, lastUsed)
	if err == nil {
		a.opts.Log.Info("lease released", "name", r.key.Name, "worker_id", r.key.WorkerID, "last_used", lastUsed,
			"who", r.by)
	}
	return map[string]any{"code": 0}, err
}
