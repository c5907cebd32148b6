//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shardid/client"
	"shardid/model"
	"shardid/scripts/check"
)

// TestE2EScrambledApp: an app made over HTTP with scramble, drawn from two replicas by
// /get, /v1 and the Go client while a replica is killed, the database restarts and the app
// is deleted and made again: no ID twice, and /decode and the command find indices that
// nobody could read from the IDs.
func TestE2EScrambledApp(t *testing.T) {
	check.Deep(t)
	story(t)
	s := privateStores(t)
	env := s.settings().With(settings{"SERVER_ADMIN_TOKEN": adminToken, "SNOWFLAKE_ENABLED": "false", "UID_ENABLED": "false"})
	replicas := serveReady(t, 2, env)
	replicas[0].wantAdmin(400, "POST", "/admin/apps", `{"id":8,"name":"invoices","scramble":true,"maxLimitId":4294967295}`)
	replicas[0].wantAdmin(400, "POST", "/admin/apps", `{"id":8,"name":"invoices","scramble":"yes"}`)
	if a := replicas[0].wantAdmin(201, "POST", "/admin/apps", `{"id":8,"name":"invoices","scramble":true}`); !strings.Contains(a.body, `"scramble":true`) {
		t.Error(a.body)
	}
	l, first := &ledger{}, true
	var ids []int64
	draw := func(d *daemon) {
		// A restart, and a deletion soon after one, may leave a doubt. More than is held comes
		// only when that was left out.
		eventually(t, startLimit, "served", func() bool { return d.get("/get?appId=8&gatePass=alice&count=5000").status == 200 })
		c, err := client.New(client.Options{Addrs: []string{d.url}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 20 {
					a := d.get("/v1/queue/8/ids?gatePass=alice&count=100")
					var some []int64
					for _, raw := range a.IDs {
						id, _ := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
						some = append(some, id)
					}
					held, err := c.Queue(8).Take(t.Context(), "alice", 50)
					if a.status != 200 || len(some) != 100 || err != nil {
						l.Complain("%d IDs, %s; %v", len(some), a.body, err)
					}
					l.Add("", plain, append(some, held...)...)
				}
			})
		}
		wg.Wait()
		if first {
			ids, first = l.IDs(), false
		}
	}
	for _, d := range replicas {
		draw(d)
	}
	replicas[0].Kill()
	s.db.Restart()
	replicas[0] = serve(t, env)
	draw(replicas[0])
	must(t, env, "apps", "delete", "--app", "8", "--confirm", "invoices")
	if o := shardid(t, env, "provision", "--app", "8", "--name", "invoices"); o.exit == 0 || !strings.Contains(o.stderr, "with scramble") {
		t.Errorf("made again without scramble: %+v", o)
	}
	must(t, env, "provision", "--app", "8", "--name", "invoices", "--scramble")
	draw(replicas[1])
	if l.Settle(t); l.Count() != 4*3*20*150 {
		t.Errorf("%d IDs", l.Count())
	}

	// The images of 9000 of the first 20,000 indices are spread over the whole range.
	var small int
	for _, id := range ids {
		if id>>14 < model.MaxIndex/100 {
			small++
		}
	}
	if small > len(ids)/25 || ids[len(ids)-1]>>14 < model.MaxIndex/10*9 {
		t.Errorf("%d of %d IDs are in the lowest hundredth, the highest is %d", small, len(ids), ids[len(ids)-1])
	}
	var parts struct{ Index, ShardID, AppID int64 }
	for _, id := range ids[:20] {
		a := replicas[1].get(fmt.Sprint("/decode?id=", id))
		if err := json.Unmarshal([]byte(a.body), &parts); err != nil || parts.Index > 50_000 || parts.AppID != 8 || parts.ShardID != 0 {
			t.Errorf("%d: %s", id, a.body)
		}
	}
	said := must(t, env, "decode", "--json", "--scrambled", strconv.FormatInt(ids[19], 10))
	want := parts
	if err := json.Unmarshal([]byte(said), &parts); err != nil || parts != want {
		t.Errorf("the command says %s, /decode %+v", said, want)
	}
}
