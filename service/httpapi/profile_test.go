package httpapi

// profileExchanges ask for profiles as who may and as who may not.
func profileExchanges() []exchange {
	const heap = "/admin/pprof/heap"
	all := []exchange{
		{name: "a profile", target: heap, token: adminSecret, status: 200},
		{name: "a profile of no such name", target: "/admin/pprof/x", token: adminSecret, status: 404, code: -10},
		{name: "a profile that takes too long", target: "/admin/pprof/profile?seconds=11", token: adminSecret,
			status: 400, code: -6, says: "seconds is not 1…10"},
		{name: "a profile without a token", target: heap, status: 401, code: -7},
		{name: "a profile for a token of IDs", target: heap, token: "orders", status: 403, code: -7},
		{name: "a profile, too fast", target: heap, token: "spent", status: 429, code: -12},
	}
	for i := range all {
		all[i].change = administrated(&fakeAdmin{})
	}
	return all
}
