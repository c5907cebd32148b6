//go:build unix

package e2e_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"shardid/scripts/testserver"
)

const (
	aliceGet = "/get?appId=1&gatePass=alice" // shard 0
	helloGet = "/get?appId=1&gatePass=hello" // shard 18
)

// threeLeft starts two replicas with an app whose shard 0 has used the indices
// up to 1000 and may use three more.
func threeLeft(t *testing.T) []*daemon {
	t.Helper()
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	query(t, dsn, fmt.Sprintf("UPDATE id_alloc SET max_id = 1000, max_limit_id = %d WHERE app_id = 1 AND shard_id = 0", 1003<<14|1))
	s := onMariaDB(dsn).With(onRedis(testserver.Redis(t).Addr))
	replicas := []*daemon{serve(t, s), serve(t, s)}
	for _, d := range replicas {
		eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	}
	return replicas
}

// alternate asks the replicas in turn and gives the IDs that came; whatever
// else comes must be -5.
func alternate(t *testing.T, replicas []*daemon, requests int) (ids []int64) {
	t.Helper()
	for i := range requests {
		a := replicas[i%len(replicas)].get(aliceGet)
		switch {
		case a.status == 200 && a.Code == 0:
			ids = append(ids, a.ID)
		case a.status != 409 || a.Code != -5 || a.Message == "":
			t.Fatalf("request %d: %d %s", i, a.status, a.body)
		}
	}
	return ids
}

func wantLastThree(t *testing.T, ids []int64) {
	t.Helper()
	slices.Sort(ids)
	if want := []int64{1001<<14 | 1, 1002<<14 | 1, 1003<<14 | 1}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

func TestE2ELimitLeavesThree(t *testing.T) {
	story(t)
	replicas := threeLeft(t)
	wantLastThree(t, alternate(t, replicas, 12))
	for _, d := range replicas {
		for range 20 {
			d.want(aliceGet, 409, -5)
		}
		d.want(aliceGet+"&count=1", 409, -5)
		d.want(helloGet, 200, 0)
	}
}

func TestE2ELimitRefusesBatchWhole(t *testing.T) {
	story(t)
	replicas := threeLeft(t)
	for range 3 {
		replicas[0].want(aliceGet+"&count=4", 409, -5)
	}
	// The refused batch left all three to whoever asks, on any replica.
	wantLastThree(t, alternate(t, []*daemon{replicas[1], replicas[1], replicas[0]}, 12))
}

// TestE2ELimitWraps: id mod max_limit_id, without 0, and said in the log once.
func TestE2ELimitWraps(t *testing.T) {
	story(t)
	const limit = 3<<14 | 9 // the ID of index 3 becomes 0
	dir := t.TempDir()
	o := shardidIn(t, dir, nil, "provision", "--app", "9", "--name", "wrapping", "--limit-policy", "wrap", "--max-limit-id", fmt.Sprint(limit))
	if o.exit != 0 {
		t.Fatalf("%+v", o)
	}
	d := serveIn(t, dir, nil)
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	for index := int64(1); index <= 40; index++ {
		want := (index<<14 | 9) % limit
		if want == 0 {
			continue
		}
		if a := d.want("/get?appId=9&gatePass="+url.QueryEscape("alice"), 200, 0); a.ID != want {
			t.Fatalf("index %d: got %d, want %d", index, a.ID, want)
		}
	}
	if n := len(d.Lines(`"level":"WARN"`, "wrap")); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, d.Output())
	}
}
