package model_test

import (
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

func TestNameValidate(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	good := model.Name{Name: "orders-1.x_Y", Layout: model.NameLayout(1288834974657, 10, 12, 0), Hold: time.Minute}
	check.OK(t, good.Validate(now))
	for what, edit := range map[string]func(*model.Name){
		"no name":                func(n *model.Name) { n.Name = "" },
		"a slash":                func(n *model.Name) { n.Name = "a/b" },
		"two dots":               func(n *model.Name) { n.Name = ".." },
		"a long name":            func(n *model.Name) { n.Name = string(make([]byte, model.MaxNameBytes+1)) },
		"no worker bits":         func(n *model.Name) { n.WorkerBits = 0 },
		"no sequence":            func(n *model.Name) { n.SeqBits = 0 },
		"more than 63 bits":      func(n *model.Name) { n.WorkerBits, n.SeqBits = 22, 22 },
		"a future epoch":         func(n *model.Name) { n.Epoch = now.UnixMilli() + 1 },
		"an epoch before 1970":   func(n *model.Name) { n.Epoch = -1 },
		"a time that has ended":  func(n *model.Name) { n.Layout = model.NameLayout(0, 12, 12, 0) },
		"a hold that is short":   func(n *model.Name) { n.Hold = model.MinHold - 1 },
		"a hold that is long":    func(n *model.Name) { n.Hold = model.MaxHold + time.Millisecond },
		"a hold of microseconds": func(n *model.Name) { n.Hold += time.Microsecond },
	} {
		bad := good
		edit(&bad)
		check.Is(t, bad.Validate(now), model.ErrInvalidArgument, what)
	}
	sonyflake := model.Name{Name: "s", Layout: model.NameLayout(1409529600000, 16, 8, 0), Hold: time.Minute}
	check.OK(t, sonyflake.Validate(now))
	check.OK(t, model.CheckInstance("pod-7 张"))
	for _, text := range []string{"a\nb", "a\u202eb", "a\u0085b", "\xff"} {
		check.Is(t, model.CheckInstance(text), model.ErrInvalidArgument)
	}
	check.Is(t, model.CheckInstance(string(make([]rune, 1))), model.ErrInvalidArgument)
}

// Whatever the holds were, a lease that was granted before a copy took over ends before
// LostUntil, as long as the copy lacks no raise: those wait for model.RaiseDelay. Holds that were changed later do not
// let a new lease begin below the end of one that the copy lacked.
func TestLostUntil(t *testing.T) {
	const s = int64(1000)
	n := model.Name{Hold: 60 * time.Second}
	check.Equal(t, n.LostUntil(0), 60*s+model.LeaseMargin.Milliseconds(), "hold and margin")
	shorter := n.WithHold(5*time.Second, 100*s)
	if lost := shorter.LostUntil(105 * s); lost < (105+60)*s+model.LeaseMargin.Milliseconds() {
		t.Errorf("renewed at 105 s by who had read the name at 99 s, lost until %d", lost)
	}
	type change struct {
		at   int64 // s
		hold time.Duration
	}
	for _, changes := range [][]change{
		{{100, time.Hour}},
		{{100, 5 * time.Second}},
		{{100, time.Hour}, {300, time.Minute}, {310, 5 * time.Second}, {4000, 30 * time.Second}},
		{{100, 10 * time.Second}, {105, 20 * time.Second}, {106, 5 * time.Second}, {107, time.Hour}},
		{{10, time.Hour}, {20, time.Minute}, {30, time.Hour}, {1000, time.Minute}},
		{{100, time.Hour}, {300, 5 * time.Minute}, {3920, 4 * time.Minute}},
	} {
		var until int64  // the latest end of a lease, if the holders renew all the time
		var ends []int64 // the same at each second
		now, kept := n, n
		next := 0
		for at := range int64(9000) {
			for next < len(changes) && changes[next].at == at {
				now = now.WithHold(changes[next].hold, at*s)
				next++
			}
			if at*s > kept.Note.LowMs && at%50 == 0 {
				kept = now // what a copy has that lags by less than the delay
			}
			until = max(until, at*s+now.GrantHold(at*s).Milliseconds())
			ends = append(ends, until)
			for took := int64(0); took < at; took += 99 {
				if after := max(at*s-now.Hold.Milliseconds(), now.LostUntil(took*s)); after < ends[took] {
					t.Fatalf("%v: after a copy of %d s a lease of %d s begins at %d, one that it lacks ends at %d",
						changes, took, at, after, ends[took])
				}
			}
			for _, copied := range []model.Name{now, kept} {
				if lost := copied.LostUntil(at * s); lost < until {
					t.Fatalf("%v: at %d s leases end at %d, and a copy says %d", changes, at, until, lost)
				}
			}
		}
	}
}
