//go:build unix

package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// A record is there until it is removed or too old; each deployment has its own.
func TestReplicas(t *testing.T) {
	server := testserver.SharedRedis(t)
	server.FlushAll()
	r, other := of(t, server, "one").Replicas(), of(t, server, "two").Replicas()
	all := func() map[string]time.Duration {
		t.Helper()
		records, err := r.All(t.Context(), time.Second)
		check.Must(t, err)
		return records
	}
	put := func(replica, record string) {
		t.Helper()
		check.Must(t, r.Put(t.Context(), replica, record, time.Second))
	}
	put("a", `{"n": 1}`)
	put("b", "two words")
	put("a", `{"n": 2}`)
	if got := all(); len(got) != 2 || got[`{"n": 2}`] > 500*time.Millisecond || got["two words"] > time.Second {
		t.Fatalf("%v", got)
	}
	if got, err := other.All(t.Context(), time.Second); err != nil || len(got) != 0 {
		t.Errorf("another deployment sees %v, %v", got, err)
	}
	check.Must(t, r.Remove(t.Context(), "b", time.Second))
	check.Equal(t, len(all()), 1, "after the removal")
	time.Sleep(600 * time.Millisecond)
	put("c", "younger")
	if age, there := all()[`{"n": 2}`]; !there || age < 600*time.Millisecond {
		t.Errorf("a record of 0.6 s is %v old, %v", age, there)
	}
	time.Sleep(600 * time.Millisecond)
	check.Equal(t, len(all()), 1, "a record of more than a second is kept")
	time.Sleep(600 * time.Millisecond)
	check.Equal(t, do(t, server.Client(), "DBSIZE"), any(int64(0)), "keys are left when all records are too old")
}

// However many replicas crash under ever new names, the hash stays small.
func TestReplicasAreBounded(t *testing.T) {
	server := testserver.SharedRedis(t)
	server.FlushAll()
	r := of(t, server, "one").Replicas()
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = r.Put(t.Context(), fmt.Sprint(n), strings.Repeat("x", 100), time.Minute)
	}
	if n != 257 || !strings.Contains(err.Error(), "256 replicas") {
		t.Errorf("the %dth is refused with %v", n, err)
	}
	check.OK(t, r.Put(t.Context(), "0", "anew", time.Minute), "one that has a record may replace it")
	for _, bad := range []string{"", "two\nlines", strings.Repeat("x", 5000)} {
		if err := r.Put(t.Context(), "a", bad, time.Minute); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("a record of %d bytes: %v", len(bad), err)
		}
	}
}

// A user that may do what the documentation says may also keep records; what something
// else wrote is not read.
func TestReplicasOfARestrictedUser(t *testing.T) {
	server := testserver.Redis(t)
	r := of(t, server, "one").Replicas()
	do(t, server.Client(), "HSET", "id.gen.replicas_{one}", "x", "nonsense")
	do(t, server.Client(), "ACL", "SETUSER", "default", "-pexpire", "-hdel")
	check.Must(t, r.Put(t.Context(), "a", "record", time.Second))
	if got, err := r.All(t.Context(), time.Second); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReplicasOnCluster(t *testing.T) {
	setup := testserver.Cluster(t)
	r := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs}).Replicas()
	check.Must(t, r.Put(t.Context(), "a", "record", time.Minute))
	if got, err := r.All(t.Context(), time.Minute); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
