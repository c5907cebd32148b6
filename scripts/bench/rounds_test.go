//go:build unix

package bench

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"shardid/scripts/check"
)

// figures are what one measurement found, by name.
type figures map[string]float64

// othersShare is a figure that every measurement has: what others used of a core.
const othersShare = "cores used by others"

// contender is one that takes its turn in each round.
type contender struct {
	name string
	run  func() figures
}

// series are the figures of a contender over the rounds of a contest.
type series struct {
	Rounds []figures `json:"rounds"`
	// Noisy says that a figure comes from a measurement that others disturbed.
	Noisy bool `json:"noisy"`
}

// median of one figure; NaN when no round has it.
func (s series) median(name string) float64 {
	var values []float64
	for _, f := range s.Rounds {
		if v, ok := f[name]; ok {
			values = append(values, v)
		}
	}
	return median(values)
}

// largest of one figure; NaN when no round has it.
func (s series) largest(name string) float64 {
	largest := math.NaN()
	for _, f := range s.Rounds {
		if v, ok := f[name]; ok && !(v <= largest) { // the negation holds for NaN
			largest = v
		}
	}
	return largest
}

func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// referee repeats what others disturbed, within bounds.
type referee struct {
	busy  float64       // share of a core that others may use
	tries int           // at most, for one measurement
	wait  time.Duration // at most, for a quiet moment before one
	until time.Time     // from then on nothing is waited for or repeated
	watch func(f func()) (share float64, known bool)
	pause func() // between two looks for a quiet moment

	discarded, noisy, measured int
	unknown                    bool // the machine does not say what others do
}

// measure returns the figures of a quiet run, or of the quietest there was; noisy
// says that others used too much of a core even then.
func (r *referee) measure(run func() figures) (best figures, noisy bool) {
	r.measured++
	least := math.Inf(1)
	for try := 0; try == 0 || try < r.tries && time.Now().Before(r.until); try++ {
		r.awaitQuiet()
		var got figures
		share, known := r.watch(func() { got = run() })
		maps.DeleteFunc(got, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) // of nothing
		if !known {
			r.unknown = true
			return got, false
		}
		got[othersShare] = share
		if share < least {
			best, least = got, share
		}
		if share <= r.busy {
			return best, false
		}
		r.discarded++
	}
	r.discarded-- // the best of them is used
	r.noisy++
	return best, true
}

// awaitQuiet waits until others use little.
func (r *referee) awaitQuiet() {
	for end := time.Now().Add(r.wait); time.Now().Before(end) && time.Now().Before(r.until); {
		if share, known := r.watch(r.pause); !known || share <= r.busy {
			return
		}
	}
}

// contest lets the contenders take turns; round n begins with the n-th.
func (r *referee) contest(title string, rounds int, contenders []contender) map[string]series {
	out := map[string]series{}
	for round := range rounds {
		for i := range contenders {
			c := contenders[(round+i)%len(contenders)]
			fmt.Fprintf(os.Stderr, "bench: %s, round %d of %d: %s\n", title, round+1, rounds, c.name)
			got, noisy := r.measure(c.run)
			s := out[c.name]
			out[c.name] = series{append(s.Rounds, got), s.Noisy || noisy}
		}
	}
	return out
}

func TestContest(t *testing.T) {
	var order string
	busy := map[string]float64{"a1": 0.5, "a2": 0.01} // the first run of a is disturbed
	runs := map[string]int{}
	now := ""
	r := &referee{busy: 0.07, tries: 3, until: time.Now().Add(time.Hour), watch: func(f func()) (float64, bool) {
		f()
		return busy[now], true
	}}
	turn := func(name string) contender {
		return contender{name, func() figures {
			runs[name]++
			now = fmt.Sprint(name, runs[name])
			order += name
			return figures{"x": float64(runs[name])}
		}}
	}
	got := r.contest("test", 3, []contender{turn("a"), turn("b"), turn("c")})
	check.Equal(t, order, "aabc"+"bca"+"cab", "order")
	if r.discarded != 1 || r.noisy != 0 || r.measured != 9 || got["a"].Noisy {
		t.Errorf("%+v", r)
	}
	if m, l := got["a"].median("x"), got["a"].largest("x"); m != 3 || l != 4 { // of 2, 3, 4
		t.Errorf("median %v, largest %v", m, l)
	}
	if l := got["a"].largest("y"); !math.IsNaN(l) {
		t.Errorf("largest of nothing is %v", l)
	}
}

func TestMeasureTakesTheQuietestOfNoisyRuns(t *testing.T) {
	shares := []float64{0.9, 0.3, 0.6, 0.1}
	runs := 0
	r := &referee{busy: 0.07, tries: 3, until: time.Now().Add(time.Hour), watch: func(f func()) (float64, bool) {
		f()
		return shares[runs-1], true
	}}
	got, noisy := r.measure(func() figures { runs++; return figures{"x": float64(runs), "y": math.Inf(1), "z": math.NaN()} })
	if len(got) != 2 || !noisy || got["x"] != 2 || runs != 3 || r.discarded != 2 || r.noisy != 1 {
		t.Errorf("%v, noisy %v, %d runs, %+v", got, noisy, runs, r)
	}
	r.until = time.Now().Add(-time.Second) // no time left: one run, whatever it is
	if got, noisy = r.measure(func() figures { runs = 3; return figures{"x": 7} }); !noisy || got["x"] != 7 || r.discarded != 2 {
		t.Errorf("%v, noisy %v, %+v", got, noisy, r)
	}
}

// A machine that gets slower from round to round changes no ratio.
func TestRatioIsOfEachRound(t *testing.T) {
	slower := func(values ...float64) (s series) {
		for i, v := range values {
			s.Rounds = append(s.Rounds, figures{"x": v / float64(1+i)})
		}
		return s
	}
	own, bare := slower(9, 9, 9, 8, 20), slower(10, 10, 10, 10, 10)
	check.Equal(t, ratio(own, bare, "x"), 0.9, "ratio")
	if got := spread(own, bare, "x"); got != "; half of the rounds had 0.90 to 0.90" {
		t.Error(got)
	}
	for name, nothing := range map[string]series{"without the figure": {Rounds: []figures{{"y": 1}}}, "of none": {}, "of zero": slower(0)} {
		if got := ratio(own, nothing, "x"); !math.IsNaN(got) || spread(own, nothing, "x") != "" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		check.Equal(t, median(c.values), c.want, c.values)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}
