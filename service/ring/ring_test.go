package ring_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/service/ring"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ExampleRing() {
	r, _ := ring.New(8, 4)
	fmt.Println(r.Put(100, 4), r.Put(200, 4), r.Put(300, 4)) // no room for the third
	id, ok := r.Take()
	fmt.Println(id, ok)
	ids, ok := r.TakeN(5, nil)
	fmt.Println(ids, ok)
	<-r.Low()
	_, ok = r.TakeN(3, nil)
	fmt.Println(ok, r.Len())
	// Output:
	// true true false
	// 100 true
	// [101 102 103 200 201] true
	// false 2
}

func ExampleRing_Wait() {
	r, _ := ring.New(8, 4)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		<-r.Low() // somebody found too little
		r.Put(1, 8)
	}()
	fmt.Println(r.Wait(ctx, 3, nil))
	// Output: [1 2 3] <nil>
}

func newRing(tb testing.TB, size, low int64) *ring.Ring {
	tb.Helper()
	r, err := ring.New(size, low)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestNewRefuses(t *testing.T) {
	for _, c := range [][2]int64{{0, 0}, {8, 0}, {8, -1}, {8, 9}, {-8, 1}} {
		if r, err := ring.New(c[0], c[1]); r != nil || !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("New(%d, %d) = %v", c[0], c[1], err)
		}
	}
}

// take asks for n and wants those IDs, nil for a refusal.
func take(t *testing.T, r *ring.Ring, n int, want []int64) {
	t.Helper()
	got, ok := r.TakeN(n, nil)
	if ok != (want != nil) || !slices.Equal(got, want) {
		t.Fatalf("TakeN(%d) = %v, %t, want %v", n, got, ok, want)
	}
}

// A batch is all or nothing over blocks; what it could not use is there for the
// next, in order.
func TestBatches(t *testing.T) {
	r := newRing(t, 10, 1)
	r.Put(10, 3)
	take(t, r, 1, []int64{10})
	take(t, r, 3, nil) // puts 11 and 12 back
	take(t, r, 1, []int64{11})
	take(t, r, 2, nil)
	r.Put(20, 2)
	r.Put(30, 4)
	take(t, r, 8, nil)
	take(t, r, 0, []int64{})
	take(t, r, -1, nil)
	if r.Len() != 7 {
		t.Fatalf("%d left, want 7", r.Len())
	}
	take(t, r, 4, []int64{12, 20, 21, 30})
	take(t, r, 4, nil)
	take(t, r, 3, []int64{31, 32, 33})
	take(t, r, 1, nil)
	if s := r.Stats(); s.Taken != 9 || s.Refused != 6 || r.Len() != 0 {
		t.Fatalf("%+v, %d left", s, r.Len())
	}
}

// What is appended to stays as it was when the take is refused.
func TestRefusedTakeKeepsTheSlice(t *testing.T) {
	r := newRing(t, 4, 1)
	r.Put(1, 2)
	if got, ok := r.TakeN(3, []int64{7}); ok || !slices.Equal(got, []int64{7}) {
		t.Errorf("TakeN = %v, %t", got, ok)
	}
}

func TestPutDiscardsWhatDoesNotFit(t *testing.T) {
	r := newRing(t, 8, 1)
	for i, c := range []struct {
		count int64
		ok    bool
	}{{9, false}, {8, true}, {1, false}, {0, false}, {-1, false}} {
		if ok := r.Put(int64(100*i), c.count); ok != c.ok {
			t.Errorf("Put of %d = %t", c.count, ok)
		}
	}
	if s := r.Stats(); s.Discarded != 4 || r.Len() != 8 {
		t.Errorf("%+v, %d held", s, r.Len())
	}
	take(t, r, 8, []int64{100, 101, 102, 103, 104, 105, 106, 107})
}

func signalled(r *ring.Ring) bool {
	select {
	case <-r.Low():
		return true
	default:
		return false
	}
}

// Low is signalled by the take that leaves fewer than the mark, once until the
// next put, and by whoever finds too little.
func TestLow(t *testing.T) {
	for name, takeOne := range map[string]func(*ring.Ring){
		"singles": func(r *ring.Ring) { r.Take() },
		"batches": func(r *ring.Ring) { r.TakeN(1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, 8, 4)
			r.Put(1, 3) // below the mark: the filler is told at once
			r.Put(4, 5)
			if !signalled(r) || signalled(r) {
				t.Fatal("a put that leaves too few did not signal once")
			}
			for left := int64(7); left >= 0; left-- {
				takeOne(r)
				if got := signalled(r); got != (left == 3) || r.Len() != left {
					t.Fatalf("%d left: signalled %t", r.Len(), got)
				}
			}
			takeOne(r)
			if !signalled(r) {
				t.Fatal("a take that found nothing did not signal")
			}
			r.Put(1, 8)
			if signalled(r) {
				t.Fatal("signalled when full")
			}
			r.TakeN(5, nil)
			if !signalled(r) {
				t.Fatal("not armed again by a put")
			}
		})
	}
}

func TestClear(t *testing.T) {
	r := newRing(t, 10, 1)
	r.Put(1, 4)
	r.Put(11, 4)
	take(t, r, 2, []int64{1, 2})
	if n := r.Clear(); n != 6 || r.Len() != 0 || !signalled(r) {
		t.Fatalf("Clear = %d, %d left", n, r.Len())
	}
	if n := r.Clear(); n != 0 {
		t.Fatalf("Clear of an empty ring = %d", n)
	}
	take(t, r, 1, nil)
	if !r.Put(100, 10) {
		t.Fatal("no room after Clear")
	}
	take(t, r, 1, []int64{100})
	if s := r.Stats(); s.Taken != 3 || s.Cleared != 6 {
		t.Errorf("%+v", s)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 8, 1)
		got := make(chan []int64)
		go func() {
			ids, err := r.Wait(t.Context(), 3, nil)
			if err != nil {
				t.Error(err)
			}
			got <- ids
		}()
		synctest.Wait()
		r.Put(1, 2)
		synctest.Wait() // still too few
		r.Put(11, 1)
		if ids := <-got; !slices.Equal(ids, []int64{1, 2, 11}) {
			t.Errorf("Wait = %v", ids)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 8, 1)
		reason := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer cancel()
		if ids, err := r.Wait(ctx, 1, nil); !errors.Is(err, reason) || ids != nil {
			t.Errorf("Wait = %v, %v", ids, err)
		}
		if _, err := r.Wait(t.Context(), 9, nil); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("Wait for more than the ring holds = %v", err)
		}
	})
}

func TestAwaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 8, 1)
		if err := r.AwaitRoom(t.Context(), 9); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("AwaitRoom for more than the ring holds = %v", err)
		}
		if err := r.AwaitRoom(t.Context(), 8); err != nil {
			t.Error(err)
		}
		r.Put(1, 8)
		ended := make(chan error, 1)
		go func() { ended <- r.AwaitRoom(t.Context(), 3) }()
		for range 2 {
			synctest.Wait()
			r.Take()
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("room for 3 after 2 takes: %v", err)
		default:
		}
		r.Take()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.AwaitRoom(ctx, 8); !errors.Is(err, context.Canceled) {
			t.Errorf("AwaitRoom of an ended context = %v", err)
		}
	})
}
