package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// fakeLeases grants worker ID 7, or answers with err, or hangs. It notes what it was asked.
type fakeLeases struct {
	err   error
	hangs bool
	asked string
}

func (f *fakeLeases) lease(ctx context.Context, name, instance string) (model.NameLease, error) {
	if f.hangs {
		return model.NameLease{}, &model.StoreError{Store: "database", Op: "grant", Err: waitForEnd(ctx)}
	}
	return model.NameLease{
		Name:     model.Name{Name: name, Layout: model.NameLayout(1288834974657, 10, 12, 0), Hold: time.Minute},
		WorkerID: 7, Instance: instance, Secret: "s", After: 1_795_474_420_897, Until: 1_795_474_540_897,
		Now: 1_795_474_480_897,
	}, f.err
}

func (f *fakeLeases) GrantLease(ctx context.Context, name, instance string) (model.NameLease, error) {
	f.asked = fmt.Sprint("grant ", name, " ", instance)
	return f.lease(ctx, name, instance)
}

func (f *fakeLeases) RenewLease(ctx context.Context, key model.LeaseKey) (model.NameLease, error) {
	f.asked = fmt.Sprint("renew ", key)
	return f.lease(ctx, key.Name, "")
}

func (f *fakeLeases) ReleaseLease(_ context.Context, key model.LeaseKey, lastUsed int64) error {
	f.asked = fmt.Sprint("release ", key, " ", lastUsed)
	return f.err
}

// The log has who leases and releases, and a name of which no worker ID is free is counted and named. A store that
// hangs holds a caller for leaseTimeout.
func TestLeasesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLeases{}
		api, log := logging(nil, func(o *Options) { closed(o); metered(o); o.Leases = f })
		grant := exchange{method: http.MethodPost, target: "/v1/leases/orders", token: "orders"}
		release := exchange{method: http.MethodDelete, target: "/v1/leases/orders/7?secret=s", token: "orders"}
		for x, says := range map[*exchange]string{&grant: "lease granted", &release: "lease released"} {
			log.Reset()
			check.Equal(t, x.ask(api).Code, 200, says)
			check.Has(t, log.String(), `msg="`+says+`" name=orders worker_id=7 `)
			check.Has(t, log.String(), "who=orders-token")
		}
		check.Equal(t, api.NoneFreeOf(), "")
		f.err = model.ErrNoWorkerID
		check.Equal(t, grant.ask(api).Code, 503)
		check.Equal(t, api.NoneFreeOf(), "orders")
		check.Equal(t, metricOf(t, api, "shardid_leases_none_free_total"), 1, "refused")
		f.hangs = true
		began := time.Now()
		check.Has(t, grant.ask(api).Body.String(), `{"code":-8,`)
		check.Equal(t, time.Since(began), leaseTimeout)
	})
}

const leased = `{"code":0,"lease":{"name":"orders","workerId":7,"secret":"s","epoch":"1288834974657",` +
	`"workerBits":10,"seqBits":12,` +
	`"after":"1795474420897","until":"1795474540897","now":"1795474480897","renewMs":20000}}`

// leaseExchanges are all answers below /v1/leases/, but for those of tokens.
func leaseExchanges() []exchange {
	const lease, renew, release = "/v1/leases/orders", "/v1/leases/orders/7/renew", "/v1/leases/orders/7"
	const post, del = http.MethodPost, http.MethodDelete
	all := []exchange{
		{method: post, target: lease, send: `{"instance":"pod-1"}`, status: 200, body: leased,
			asked: "grant orders pod-1"},
		{method: post, target: lease + "?instance=a+b", status: 200, body: leased, asked: "grant orders a b"},
		{method: post, target: renew, send: `{"secret":"s"}`, status: 200, body: leased, asked: "renew {orders 7 s}"},
		{method: del, target: release, send: `{"secret":"s","lastUsed":"1795474480000"}`, status: 200,
			body: `{"code":0}`, asked: "release {orders 7 s} 1795474480000"},
		{method: del, target: "/v1/leases/orders/0?secret=s", status: 200, body: `{"code":0}`,
			asked: "release {orders 0 s} 0"},
		{method: post, target: "/v1/leases/%00", status: 400, code: -6, says: "`name` must have 1…64 letters"},
		{method: post, target: lease + "?instance=%00", status: 400, code: -6,
			says: "at most 128 printable bytes"},
		{method: post, target: renew, status: 400, code: -6, says: "secret is missing"},
		{method: post, target: "/v1/leases/orders/x/renew?secret=s", status: 400, code: -6, says: "workerId must be"},
		{method: del, target: "/v1/leases/orders/4194304?secret=s", status: 400, code: -6, says: "in 0…4194303"},
		{method: del, target: release + "?secret=s", send: `{"secret":"t"}`, status: 400, code: -6,
			says: "give secret once"},
		{method: del, target: release + "?secret=s&lastUsed=now", status: 400, code: -6,
			says: "send the time of the last ID"},
		{method: del, target: release + "?secret=s&lastUsed=0", status: 400, code: -6, says: "leave lastUsed out, or " +
			"send"},
	}
	for _, x := range []exchange{
		{method: post, target: lease}, {method: post, target: renew + "?secret=s"},
		{method: del, target: release + "?secret=s"},
	} {
		unknown := x
		unknown.target = lease + strings.TrimPrefix(strings.TrimSuffix(x.target, "?secret=s"), lease) + "?count=1"
		unknown.name, unknown.status, unknown.code, unknown.says = "unknown parameter", 400, -6,
			`unknown parameter "count"`
		all = append(all, unknown)
		for _, f := range []struct {
			err          error
			status, code int
		}{
			{model.ErrUnknownName, 404, -2}, {model.ErrLeaseLost, 409, -14}, {model.ErrNoWorkerID, 503, -8},
			{fmt.Errorf("%w: %w", model.ErrLeaseStore, storeAway()), 503, -8}, {errFault, 500, -11},
		} {
			x.name, x.status, x.code = "fails", f.status, f.code
			x.change = func(o *Options) { o.Leases = &fakeLeases{err: fmt.Errorf("store: %w", f.err)} }
			all = append(all, x)
		}
	}
	return all
}
