//go:build unix

package e2e_test

import (
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
)

// zoneWithMidnight is an offset in whose zone a day ends at the next minute, which is at
// least so long away.
func zoneWithMidnight(least time.Duration) (zone string, midnight time.Time) {
	midnight = time.Now().UTC().Add(least).Truncate(time.Minute).Add(time.Minute)
	sign, offset := '-', midnight.Sub(midnight.Truncate(24*time.Hour))
	if offset > 12*time.Hour {
		sign, offset = '+', 24*time.Hour-offset
	}
	return fmt.Sprintf("%c%02d:%02d", sign, int(offset.Hours()), int(offset.Minutes())%60), midnight
}

// TestE2ENumbers: two replicas issue business numbers over a midnight. One is killed and
// replaced before it, and the database restarts after it. No text comes twice, and each
// day begins at 1.
func TestE2ENumbers(t *testing.T) {
	check.Deep(t)
	story(t)
	s := privateStores(t)
	replicas := serveReady(t, 2, s.settings())
	zone, midnight := zoneWithMidnight(10 * time.Second)
	must(t, onMariaDB(s.dsn), "tags", "add", "--tag", "orders", "--step", "50", "--pattern", "ORD-{yyyyMMdd}-{seq:6}", "--reset", "day", "--zone", zone)
	replicas[0].want("/api/segment/get/orders", 400, -6)
	replicas[0].want("/v1/segment/orders/ids?ranges=true", 400, -6)

	var (
		mu      sync.Mutex
		days    = map[string]map[string]bool{}
		refused atomic.Int64
		callers sync.WaitGroup
		over    = make(chan struct{})
		shape   = regexp.MustCompile(`^"ORD-(\d{8})-(\d{6,})"$`)
	)
	draw := func(d *daemon, count int) {
		a, err := d.do("POST", fmt.Sprint("/v1/segment/orders/ids?count=", count))
		if err != nil || a.status != 200 {
			refused.Add(1)
			time.Sleep(20 * time.Millisecond)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range a.IDs {
			part := shape.FindStringSubmatch(string(id))
			if part == nil || len(a.IDs) != count {
				t.Errorf("answered %s", a.body)
				return
			}
			if days[part[1]] == nil {
				days[part[1]] = map[string]bool{}
			}
			if days[part[1]][part[2]] {
				t.Errorf("%s came twice", id)
			}
			days[part[1]][part[2]] = true
		}
	}
	caller := func(d *daemon, count int) {
		callers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					draw(d, count)
					time.Sleep(2 * time.Millisecond)
				}
			}
		})
	}
	for i := range 4 {
		caller(replicas[i%2], 1+i)
	}
	time.Sleep(2 * time.Second)
	replicas[1].Kill()
	third := serve(t, s.settings())
	third.ready()
	caller(third, 7)
	time.Sleep(time.Until(midnight.Add(2 * time.Second)))
	s.db.Restart()
	time.Sleep(3 * time.Second)
	before := refused.Load()
	eventually(t, startLimit, "numbers after the restart", func() bool {
		a, err := third.do("POST", "/v1/segment/orders/ids")
		return err == nil && a.status == 200
	})
	close(over)
	callers.Wait()
	if len(days) != 2 {
		t.Fatalf("numbers of %d days", len(days))
	}
	for day, numbers := range days {
		if !numbers["000001"] || len(numbers) < 500 {
			t.Errorf("%s has %d numbers, among them the first: %t", day, len(numbers), numbers["000001"])
		}
		t.Logf("%s: %d numbers", day, len(numbers))
	}
	t.Logf("%d requests were refused", before)
}
