package uid

import (
	"errors"
	"testing"

	"shardid/model"
)

const second0 = int64(946684800) // 2000-01-01 00:00 UTC

func grantOf(layout model.UIDLayout, node model.Node) *grant {
	return newGrant(layout, model.NodeStart{NowSecond: second0, MarkSecond: second0 + 100}, node)
}

// In default mode the sequence goes on within a second, begins again in the next,
// and stops at its end; a clock that goes back is refused.
func TestTakeByTheSecond(t *testing.T) {
	g := grantOf(tiny(), model.Node{WorkerID: 5})
	for i, c := range []struct {
		at, n      int64
		seq, count int64
		err        error
	}{
		{0, 1, 0, 1, nil},
		{0, 3, 1, 3, nil},
		{0, 9, 4, 4, nil}, // what is left of the second
		{0, 1, 0, 0, errSecondUsed},
		{1, 8, 0, 8, nil},
		{0, 1, 0, 0, model.ErrClockBack},
		{1, 1, 0, 0, errSecondUsed},
		{7, 2, 0, 2, nil},
		{6, 1, 0, 0, model.ErrClockBack},
		{7, 1, 2, 1, nil},
		{100, 1, 0, 1, nil},
		{101, 1, 0, 0, model.ErrNoLease}, // beyond the mark
		{-second0, 1, 0, 0, model.ErrTimeExhausted},
	} {
		first, count, err := g.take(second0+c.at, c.n)
		want := int64(0)
		if c.err == nil {
			want = tiny().Compose(second0+c.at, 5, c.seq)
		}
		if first != want || count != c.count || !errors.Is(err, c.err) {
			t.Errorf("%d: take(%d, %d) = %d, %d, %v, want %d, %d, %v", i, c.at, c.n, first, count, err, want, c.count, c.err)
		}
	}
}

// A worker ID that another start had is used only after that one's mark, and after
// the clock that saw the mark as past.
func TestTakeAfterAnotherStart(t *testing.T) {
	for name, c := range map[string]struct {
		node  model.Node
		first int64 // second from which on IDs are issued
	}{
		"new":                     {model.Node{}, -10},
		"recycled":                {model.Node{Recycled: true, AfterSecond: second0 - 5}, 0},
		"recycled, a later bound": {model.Node{Recycled: true, AfterSecond: second0 + 3}, 4},
		"not said to be recycled": {model.Node{AfterSecond: second0 + 3}, 4},
	} {
		g := grantOf(tiny(), c.node)
		for at := int64(-10); at < 10; at++ {
			_, _, err := g.take(second0+at, 1)
			if (err == nil) != (at >= c.first) || err != nil && !errors.Is(err, model.ErrClockBack) && !errors.Is(err, errSecondUsed) {
				t.Errorf("%s: second %d: %v", name, at, err)
			}
		}
	}
}

// A bound outside of what the layout can express wraps into nothing.
func TestTakeWithAnOddBound(t *testing.T) {
	wide := model.UIDLayout{TimeBits: 1, WorkerBits: 1, SeqBits: 61, Epoch: epoch()}
	for _, after := range []int64{0, -1 << 62, 1 << 62} {
		g := grantOf(wide, model.Node{AfterSecond: after})
		first, _, err := g.take(wide.MaxSecond(), 1)
		if after > 0 && err == nil || after <= 0 && (err != nil || first <= 0) {
			t.Errorf("after %d: %d, %v", after, first, err)
		}
	}
}

// Past the time bits there is an error and never a negative ID.
func TestTakeToTheLastSecond(t *testing.T) {
	short := model.UIDLayout{TimeBits: 4, WorkerBits: 56, SeqBits: 3, Epoch: epoch()}
	g := newGrant(short, model.NodeStart{MarkSecond: 1 << 60}, model.Node{WorkerID: short.Workers() - 1})
	var last int64
	for second := epoch().Unix() - 3; second < epoch().Unix()+40; second++ {
		first, count, err := g.take(second, 8)
		in := second >= short.MinSecond() && second <= short.MaxSecond()
		if in != (err == nil) || !in && !errors.Is(err, model.ErrTimeExhausted) || in && (first <= last || count != 8) {
			t.Errorf("second %d: %d, %d, %v", second-epoch().Unix(), first, count, err)
		}
		if in {
			last = first + count - 1
		}
	}
	if last != 1<<63-1 {
		t.Errorf("the last ID is %d", last)
	}
}

// The mark stays an hour, or ten minutes at the present rate, ahead, and within the
// time bits.
func TestMarkTarget(t *testing.T) {
	g := grantOf(tiny(), model.Node{})
	for _, c := range []struct{ rate, position, want int64 }{
		{1, second0, second0 + 7200},
		{6, second0, second0 + 7200},
		{12_207, second0, second0 + 2*600*12_207},
		{1, tiny().MaxSecond() - 10, tiny().MaxSecond()},
	} {
		g.rate.Store(c.rate)
		if got := g.target(c.position); got != c.want {
			t.Errorf("rate %d: target %d, want %d", c.rate, got-second0, c.want-second0)
		}
	}
}
