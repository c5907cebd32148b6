package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// fakeLeases grants worker ID 7, or answers with err. It notes what it was asked.
type fakeLeases struct {
	err   error
	asked string
}

func (f *fakeLeases) lease(name, instance string) (model.NameLease, error) {
	return model.NameLease{
		Name:     model.Name{Name: name, EpochMs: 1288834974657, WorkerBits: 10, SeqBits: 12, Hold: time.Minute},
		WorkerID: 7, Instance: instance, Secret: "s", After: 1_795_474_420_897, Until: 1_795_474_540_897, Now: 1_795_474_480_897,
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

const leased = `{"code":0,"lease":{"name":"orders","workerId":7,"secret":"s","epoch":"1288834974657","workerBits":10,"seqBits":12,` +
	`"after":"1795474420897","until":"1795474540897","now":"1795474480897","renewMs":20000}}`

// leaseExchanges are all answers below /v1/leases/.
func leaseExchanges() []exchange {
	fails := func(err error) func(*Options) {
		return func(o *Options) { o.Leases = &fakeLeases{err: fmt.Errorf("store: %w", err)} }
	}
	leasing := func(o *Options) {
		o.Access, o.RequireToken = guardOf("root", "orders", "may: ['lease:ord*']", "times", "may: [snowflake]",
			"spent", "may: ['lease:*'], rate: 0.1"), true
		_, _ = o.Access.Client(http.Header{"Authorization": {"Bearer spent"}})
	}
	var all []exchange
	for _, route := range []struct{ method, target, send, good string }{
		{http.MethodPost, "/v1/leases/orders", `{"instance":"pod-1"}`, leased},
		{http.MethodPost, "/v1/leases/orders/7/renew", `{"secret":"s"}`, leased},
		{http.MethodDelete, "/v1/leases/orders/7", `{"secret":"s","lastUsed":"1795474480000"}`, `{"code":0}`},
	} {
		add := func(x exchange) {
			x.name, x.method = fmt.Sprintf("%s %s: %s", route.method, route.target, x.name), route.method
			if x.target == "" {
				x.target, x.send = route.target, route.send
			}
			all = append(all, x)
		}
		add(exchange{name: "done", status: 200, body: route.good})
		add(exchange{name: "unknown field", target: route.target + "?count=1", status: 400, code: -6, says: `unknown parameter \"count\"`})
		add(exchange{name: "zipped", header: []string{"Content-Encoding", "gzip"}, status: 415, code: -6, says: "without Content-Encoding"})
		add(exchange{name: "too long", target: route.target + "?secret=" + strings.Repeat("a", maxURL), status: 414, code: -6, says: "at most 4096"})
		for _, f := range []struct {
			err    error
			status int
			code   int
		}{
			{model.ErrUnknownName, 404, -2},
			{model.ErrLeaseLost, 409, -14},
			{model.ErrNoWorkerID, 503, -8},
			{fmt.Errorf("%w: %w", model.ErrLeaseStore, storeAway()), 503, -8},
			{fmt.Errorf("secret"), 500, -11},
		} {
			if f.code == -14 && route.good == leased && route.send[2] == 'i' {
				continue // granting loses nothing
			}
			add(exchange{name: "fails", change: fails(f.err), status: f.status, code: f.code})
		}
		add(exchange{name: "no token", change: leasing, status: 401, code: -7, says: "send it in the header"})
		add(exchange{name: "its name", change: leasing, token: "orders", status: 200, body: route.good})
		add(exchange{name: "another mode's token", change: leasing, token: "times", status: 403, code: -7, says: "IDs of the mode lease"})
		add(exchange{name: "too fast", change: leasing, token: "spent", status: 429, code: -12, says: "used up"})
		all = append(all, exchange{name: "PUT " + route.target, method: http.MethodPut, target: route.target, status: 405, code: -10, says: "nothing was issued"})
	}
	post, del := http.MethodPost, http.MethodDelete
	all = append(all,
		exchange{name: "another name's token", method: post, target: "/v1/leases/x", change: leasing, token: "orders", status: 403, code: -7, says: `the name \"x\"`},
		exchange{name: "no name", method: post, target: "/v1/leases/%00", status: 400, code: -6, says: "a name has 1…64 letters"},
		exchange{name: "no secret", method: post, target: "/v1/leases/orders/7/renew", status: 400, code: -6, says: "secret is missing"},
		exchange{name: "no worker ID", method: post, target: "/v1/leases/orders/x/renew?secret=s", status: 400, code: -6, says: "workerId must be"},
		exchange{name: "a worker ID of no name", method: del, target: "/v1/leases/orders/4194304?secret=s", status: 400, code: -6, says: "in 0…4194303"},
		exchange{name: "two secrets", method: del, target: "/v1/leases/orders/7?secret=s", send: `{"secret":"t"}`, status: 400, code: -6, says: "secret is given twice"},
		exchange{name: "no time", method: del, target: "/v1/leases/orders/7?secret=s&lastUsed=now", status: 400, code: -6, says: "lastUsed must be the time of the last ID"},
		exchange{name: "time 0", method: del, target: "/v1/leases/orders/7?secret=s&lastUsed=0", status: 400, code: -6, says: "lastUsed must be"},
	)
	for i := range all {
		all[i].name = "leases: " + all[i].name
	}
	return all
}

func TestLeases(t *testing.T) {
	for _, x := range leaseExchanges() {
		t.Run(x.name, func(t *testing.T) {
			got, _, _ := x.do()
			if body := got.Body.String(); got.Code != x.status || x.code == 0 && body != x.body {
				t.Fatalf("answered %d %s, want %d %s", got.Code, body, x.status, x.body)
			}
			if x.code != 0 {
				check.Has(t, got.Body.String(), fmt.Sprintf(`{"code":%d,`, x.code))
				check.Has(t, got.Body.String(), x.says)
			}
		})
	}
}

// What is asked reaches the service, and counts as a mode of its own.
func TestLeaseRequests(t *testing.T) {
	leases := &fakeLeases{}
	a := newAPIOf(func(o *Options) { metered(o); o.Leases = leases })
	for _, r := range []struct{ method, target, want string }{
		{http.MethodPost, "/v1/leases/orders?instance=a+b", "grant  orders a b"},
		{http.MethodPost, "/v1/leases/orders/7/renew?secret=s", "renew {orders 7 s}"},
		{http.MethodDelete, "/v1/leases/orders/7?secret=s&lastUsed=5", "release  {orders 7 s} 5"},
		{http.MethodDelete, "/v1/leases/orders/0?secret=s", "release  {orders 0 s} 0"},
	} {
		check.Equal(t, ask(a, r.method, r.target).Code, http.StatusOK)
		check.Equal(t, leases.asked, r.want)
	}
	ask(a, http.MethodPost, "/v1/leases/%2e")
	check.Equal(t, metricOf(t, a, `shardid_request_duration_seconds_count{outcome="ok"}`), 4, "done")
	check.Equal(t, metricOf(t, a, `shardid_refused_total{mode="lease"}`), 1, "refused")
}
