package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"shardid/model"
)

// fakeLeases grants worker ID 7, or answers with err. It notes what it was asked.
type fakeLeases struct {
	err   error
	asked string
}

func (f *fakeLeases) lease(name, instance string) (model.NameLease, error) {
	return model.NameLease{
		Name:     model.Name{Name: name, EpochMs: 1288834974657, WorkerBits: 10, SeqBits: 12, Hold: time.Minute},
		WorkerID: 7, Instance: instance, Secret: "s", After: 1_795_474_420_897, Until: 1_795_474_540_897,
		Now: 1_795_474_480_897,
	}, f.err
}

func (f *fakeLeases) Grant(_ context.Context, by, name, instance string) (model.NameLease, error) {
	f.asked = fmt.Sprint("grant ", by, " ", name, " ", instance)
	return f.lease(name, instance)
}

func (f *fakeLeases) Renew(_ context.Context, key model.LeaseKey) (model.NameLease, error) {
	f.asked = fmt.Sprint("renew ", key)
	return f.lease(key.Name, "")
}

func (f *fakeLeases) Release(_ context.Context, by string, key model.LeaseKey, lastUsed int64) error {
	f.asked = fmt.Sprint("release ", by, " ", key, " ", lastUsed)
	return f.err
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
			asked: "grant  orders pod-1"},
		{method: post, target: lease + "?instance=a+b", status: 200, body: leased, asked: "grant  orders a b"},
		{method: post, target: renew, send: `{"secret":"s"}`, status: 200, body: leased, asked: "renew {orders 7 s}"},
		{method: del, target: release, send: `{"secret":"s","lastUsed":"1795474480000"}`, status: 200,
			body: `{"code":0}`, asked: "release  {orders 7 s} 1795474480000"},
		{method: del, target: "/v1/leases/orders/0?secret=s", status: 200, body: `{"code":0}`,
			asked: "release  {orders 0 s} 0"},
		{method: post, target: "/v1/leases/%00", status: 400, code: -6, says: "a name has 1…64 letters"},
		{method: post, target: renew, status: 400, code: -6, says: "secret is missing"},
		{method: post, target: "/v1/leases/orders/x/renew?secret=s", status: 400, code: -6, says: "workerId must be"},
		{method: del, target: "/v1/leases/orders/4194304?secret=s", status: 400, code: -6, says: "in 0…4194303"},
		{method: del, target: release + "?secret=s", send: `{"secret":"t"}`, status: 400, code: -6,
			says: "secret is given twice"},
		{method: del, target: release + "?secret=s&lastUsed=now", status: 400, code: -6,
			says: "lastUsed must be the time of the last ID"},
		{method: del, target: release + "?secret=s&lastUsed=0", status: 400, code: -6, says: "lastUsed must be"},
	}
	for _, x := range []exchange{
		{method: post, target: lease}, {method: post, target: renew + "?secret=s"},
		{method: del, target: release + "?secret=s"},
	} {
		unknown, zipped := x, x
		unknown.target = lease + strings.TrimPrefix(strings.TrimSuffix(x.target, "?secret=s"), lease) + "?count=1"
		unknown.name, unknown.status, unknown.code, unknown.says = "unknown parameter", 400, -6,
			`unknown parameter "count"`
		zipped.name, zipped.send, zipped.header = "zipped", "{}", []string{"Content-Encoding", "gzip"}
		zipped.status, zipped.code, zipped.says = 415, -6, "without Content-Encoding"
		all = append(all, unknown, zipped)
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
