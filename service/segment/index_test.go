package segment

import (
	"fmt"
	"sync"
	"testing"
)

// Readers find every entry that was there when they began, while others are added.
func TestIndexFindsWhileItGrows(t *testing.T) {
	const n = 20_000
	x := newIndex()
	name := func(i int) string { return fmt.Sprint("tag-", i) }
	for i := range 100 {
		x.add(&entry{name: name(i)})
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 5 * n {
				if e := x.find(name(i % 100)); e == nil || e.name != name(i%100) {
					t.Errorf("%s is %v", name(i%100), e)
					return
				}
				if e := x.find("none"); e != nil {
					t.Errorf("found %q", e.name)
					return
				}
			}
		})
	}
	for i := 100; i < n; i++ {
		x.add(&entry{name: name(i)})
	}
	wg.Wait()
	seen := map[string]bool{}
	for e := range x.all() {
		seen[e.name] = true
	}
	for i := range n {
		if !seen[name(i)] || x.find(name(i)) == nil {
			t.Fatalf("%s is lost", name(i))
		}
	}
	if slots := len(*x.slots.Load()); len(seen) != n || 4*n > 3*slots || 4*n <= 3*slots/2 {
		t.Errorf("%d entries in %d slots", len(seen), slots)
	}
}
