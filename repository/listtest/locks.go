package listtest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// long is a ttl that no test outlives.
const long = time.Minute

func tryLock(t *testing.T, s Store, token string, ttl time.Duration, names ...string) []bool {
	t.Helper()
	got, err := s.TryLock(t.Context(), names, token, ttl)
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	if len(got) != len(names) {
		t.Fatalf("%d answers for %d names", len(got), len(names))
	}
	return got
}

func unlock(t *testing.T, s Store, token string, names ...string) {
	t.Helper()
	if err := s.Unlock(t.Context(), names, token); err != nil {
		t.Fatalf("unlock: %v", err)
	}
}

func wantLocks(t *testing.T, got []bool, want ...bool) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got locks %v, want %v", got, want)
	}
}

func testLock(t *testing.T, s Store) {
	wantLocks(t, tryLock(t, s, "alice", long, "1_2"), true)
	wantLocks(t, tryLock(t, s, "bob", long, "1_1", "1_2", "reload"), true, false, true)
	wantLocks(t, tryLock(t, s, "alice", long, "1_2", "1_1"), true, false) // as after an answer that was lost
	unlock(t, s, "bob", "1_2", "1_3")                                     // which are not bob's
	wantLocks(t, tryLock(t, s, "carol", long, "1_2"), false)
	unlock(t, s, "alice", "1_2")
	unlock(t, s, "alice", "1_2") // twice does no harm
	wantLocks(t, tryLock(t, s, "carol", long, "1_2"), true)
}

func testLockExpires(t *testing.T, s Store) {
	wantLocks(t, tryLock(t, s, "alice", 50*time.Millisecond, "1_2"), true)
	wantLocks(t, tryLock(t, s, "bob", long, "1_2"), false)
	deadline := time.Now().Add(10 * time.Second)
	for !tryLock(t, s, "bob", long, "1_2")[0] {
		if time.Now().After(deadline) {
			t.Fatal("a lock of 50 ms is held after 10 s")
		}
		time.Sleep(10 * time.Millisecond)
	}
	unlock(t, s, "alice", "1_2") // too late: bob's by now
	wantLocks(t, tryLock(t, s, "alice", long, "1_2"), false)
}

func testManyLocks(t *testing.T, s Store) {
	names := make([]string, 1_500)
	for i := range names {
		names[i] = fmt.Sprintf("%d_%d", i/64, i%64)
	}
	tryLock(t, s, "alice", long, names[700])
	got := tryLock(t, s, "bob", long, names...)
	for i := range got {
		if got[i] != (i != 700) {
			t.Fatalf("lock %d: %v", i, got[i])
		}
	}
	unlock(t, s, "bob", names...)
	got = tryLock(t, s, "carol", long, names...)
	if i := slices.Index(got, false); i != 700 || slices.Contains(got[701:], false) {
		t.Fatalf("after unlock lock %d is held", i)
	}
}
