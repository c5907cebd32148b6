//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// fakeWitness remembers marks until its life changes.
type fakeWitness struct {
	mu    sync.Mutex
	life  string
	age   time.Duration // since its last beat
	marks map[string]int64
	err   error
	peeks int
	next  func() // happens once, after the next Peek
}

func aWitness() *fakeWitness { return &fakeWitness{life: "r1", marks: map[string]int64{}} }

func (w *fakeWitness) Beat(context.Context, time.Duration) (life string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.age = 0
	return w.life, w.err
}

func (w *fakeWitness) Peek(_ context.Context, counter string) (life string, age time.Duration, mark int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peeks++
	life, age, mark = w.life, w.age, w.marks[counter]
	if w.next != nil {
		w.next()
		w.next = nil
	}
	return life, age, mark, w.err
}

func (w *fakeWitness) Raise(_ context.Context, counter string, value int64) (life string, before int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.marks[counter]
	if w.err == nil {
		w.marks[counter] = max(before, value)
	}
	return w.life, before, w.err
}

// lose makes the witness another one, which knows nothing.
func (w *fakeWitness) lose(life string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life, w.marks = life, map[string]int64{}
}

// mariaDB is a migrated store on a server, with an app of step 1000 and a tag.
func mariaDB(t *testing.T, opts Options) *Store {
	t.Helper()
	opts.Driver, opts.DSN = MySQL, testserver.SharedMariaDB(t).NewDatabase(t)
	s := openMigrated(t, opts)
	provision(t, s, app(1))
	check.Must(t, check.Err(s.CreateTag(t.Context(), model.Tag{Name: "t", MaxID: 1, Step: 1000})))
	return s
}

// anotherServer makes the row that of another life, which beat so long ago, and lets
// the wait after it pass.
func anotherServer(t *testing.T, s *Store, ago time.Duration) {
	t.Helper()
	run(t, s, "UPDATE shardid_deployment SET server = 'another', beat_at = beat_at - "+ms(ago))
	check.Must(t, s.Beat(t.Context()))
	run(t, s, "UPDATE shardid_deployment SET jump_from = 0")
}

func ms(d time.Duration) string {
	return "1000 * " + strings.TrimSuffix(d.Truncate(time.Second).String(), "s")
}

// takeList asks for a segment of list 1_0 as a store of lists with that history and mark
// would, and gives its first index.
func takeList(t *testing.T, s *Store, history string, mark int64) model.Allocation {
	t.Helper()
	return s.Allocate(t.Context(), []model.AllocRequest{{Key: model.ListKey{App: 1}, Life: history, Floor: mark, Mark: mark, MaxStep: 1000}})[0]
}

func TestServerChange(t *testing.T) {
	t.Parallel()
	w := aWitness()
	s := mariaDB(t, Options{Witness: w, ListRate: 5000, TagRate: 2000})
	tag := func() model.TagSegment {
		t.Helper()
		seg, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})
		check.Must(t, err)
		return seg
	}
	for range 2 { // the first one meets the database, the second one the witness
		check.Must(t, s.Beat(t.Context()))
	}
	a, b := takeList(t, s, "h1", 0), tag()
	if a.Err != nil || a.Segment.First != 1 || b.First != 1 {
		t.Fatalf("the first: %+v, %+v", a, b)
	}

	if err := s.Beat(t.Context()); err != nil { // the witness has been in use
		t.Fatal(err)
	}
	run(t, s, "UPDATE id_alloc SET max_id = 0, last_max_id = 0 WHERE shard_id = 0", "UPDATE leaf_alloc SET max_id = 1, own_max_id = 1")
	anotherServer(t, s, 10*time.Second)
	if a, b = takeList(t, s, "h1", 1000), tag(); a.Err != nil || a.Segment.First != 1001 || b.First != 1001 || a.Jumped+b.Jumped != 0 {
		t.Errorf("both marks vouch: %+v, %+v", a, b)
	}

	// Nobody vouches: the lists are of another history, the witness is in another life.
	w.lose("r2")
	s.seen.mu.Lock()
	s.seen.times = model.ServerTimes{} // as in a process that has just begun
	s.seen.mu.Unlock()
	anotherServer(t, s, 20*time.Second)
	a, b = takeList(t, s, "h2", 500), tag()
	low, high := int64(2*5000*10), int64(2*5000*20) // the rows are younger than the heartbeat, and clocks differ
	if a.Err != nil || a.Jumped < low || a.Jumped > high || a.Segment.First != 2000+a.Jumped+1 {
		t.Errorf("the list: %+v, want a jump of %d…%d", a, low, high)
	}
	if b.Jumped < low*2/5 || b.Jumped > high*2/5 || b.First != 2000+b.Jumped+1 {
		t.Errorf("the tag: %+v, want a jump of %d…%d", b, low*2/5, high*2/5)
	}
	if next := takeList(t, s, "h2", a.Segment.Last); next.Err != nil || next.Jumped != 0 || next.Segment.First != a.Segment.Last+1 {
		t.Errorf("it jumps once: %+v", next)
	}
}

// What SQL adds to a row is what the model says, whatever the row holds.
func TestDoubtIsTheModels(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{ListRate: 300})
	beat := time.Now().Add(-100 * time.Second).UnixMilli()
	rows := []struct{ rate, step, at, before, want int64 }{
		{0, 100, 0, 0, 0}, {0, 1000, 0, 0, 0}, {7, 1, 0, 5, 0}, {0, 100, beat + 5000, 0, 0},
		{0, 100, beat + 90_000, 0, 0}, {0, 100, beat + 7_200_000, 0, 0}, {0, 100, beat - 5000, 0, 0},
	}
	for i, r := range rows {
		if _, err := s.pool.Exec("UPDATE id_alloc SET max_rate = ?, step = ?, taken_at = ?, doubt = ? WHERE shard_id = ?", r.rate, r.step, r.at, r.before, i); err != nil {
			t.Fatal(err)
		}
	}
	check.Must(t, check.Err(s.pool.Exec("UPDATE shardid_deployment SET server = 'another', beat_at = ?", beat)))
	check.Must(t, s.Beat(t.Context()))
	now := time.UnixMilli(count(t, s, "SELECT since FROM shardid_deployment"))
	for i, r := range rows {
		rate := max(r.step, 300)
		if r.rate > 0 {
			rate = max(r.step, r.rate)
		}
		gap := model.Gap{Known: time.UnixMilli(beat), Now: now, Slack: 2 * model.MaxClockApart, Rows: true}
		want := gap.Doubt(rate, time.UnixMilli(r.at), r.before)
		check.Equal(t, count(t, s, "SELECT doubt FROM id_alloc WHERE shard_id = "+string(rune('0'+i))), want,
			"row", i)
	}
}

// A database that says less than it has said before went back, whoever wrote to it.
func TestBeatWentBack(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	check.Must(t, s.Beat(t.Context()))
	if n := count(t, s, "SELECT SUM(doubt) FROM id_alloc"); n != 0 {
		t.Fatalf("a doubt of %d at the first server", n)
	}
	for range 2 { // it is read, not only written
		check.Must(t, s.Beat(t.Context()))
	}
	run(t, s, "UPDATE shardid_deployment SET beat_at = beat_at - 1")
	if a := takeList(t, s, "h1", 0); !errors.Is(a.Err, model.ErrJumping) {
		t.Errorf("%+v, want a doubt and the wait after it", a)
	}
}

// A restart alone is another life, and so is a server with another name.
func TestRestartIsNoted(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	var gaps []time.Duration
	s := openMigrated(t, Options{Driver: MySQL, DSN: server.NewDatabase(t), OnServerChange: func(gap time.Duration, _ bool) { gaps = append(gaps, gap) }})
	provision(t, s, app(1))
	for i := range 2 {
		check.Must(t, s.Beat(t.Context()))
		check.Equal(t, len(gaps), i, "changes after restarts")
		if i == 0 {
			time.Sleep(7 * time.Second) // more than two boot times may differ by
			server.Restart()
		}
	}
	check.Is(t, takeList(t, s, "h1", 0).Err, model.ErrJumping, "nobody vouches")
}

// A witness that does not answer is waited for, and then it does not vouch.
func TestWitnessIsWaitedFor(t *testing.T) {
	t.Parallel()
	now, w := time.Now(), aWitness()
	s := mariaDB(t, Options{Witness: w, Now: func() time.Time { return now.Add(time.Since(now)) }})
	check.Must(t, s.Beat(t.Context()))
	check.Must(t, check.Err(s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})))
	w.mu.Lock()
	w.err = errors.New("away")
	w.mu.Unlock()
	run(t, s, "UPDATE shardid_deployment SET server = 'another'")
	a := takeList(t, s, "h1", 0)
	if !errors.Is(a.Err, errServerChanged) || !strings.Contains(a.Err.Error(), "waiting up to 10s for Redis") {
		t.Errorf("while it is waited for: %v", a.Err)
	}
	s.seen.mu.Lock()
	s.seen.changedAt = now.Add(-witnessPatience)
	s.seen.mu.Unlock()
	check.Is(t, takeList(t, s, "h1", 0).Err, model.ErrJumping, "afterwards")
	// What it says when it is back is too late, even of the same life.
	w.mu.Lock()
	w.err = nil
	w.mu.Unlock()
	run(t, s, "UPDATE shardid_deployment SET jump_from = 0")
	if seg, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"}); err != nil || seg.Jumped == 0 {
		t.Errorf("once it is back: %+v, %v", seg, err)
	}
}

// What the witness has learned since it was asked counts: a transaction that meets it
// runs again.
func TestMarkHasRisen(t *testing.T) {
	t.Parallel()
	w := aWitness()
	s := mariaDB(t, Options{Witness: w})
	for range 2 { // the first one meets the database, the second one the witness
		check.Must(t, s.Beat(t.Context()))
	}
	for name, c := range map[string]struct {
		next  func()
		least int64
	}{
		"another replica, on another copy of the database": {func() { w.marks["t:t"] = 5000 }, 5001},
		"another life": {func() { w.life = "r2" }, 1},
	} {
		w.peeks, w.next = 0, c.next
		seg, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})
		if err != nil || seg.First < c.least || w.peeks != 2 {
			t.Errorf("%s: %+v, %v, asked %d times", name, seg, err, w.peeks)
		}
	}
}

// A restart of the witness is marked anew, so that it never adds up with a later one of
// the database.
func TestRestartsDoNotAddUp(t *testing.T) {
	t.Parallel()
	w := aWitness()
	s := mariaDB(t, Options{Witness: w})
	check.Must(t, s.Beat(t.Context()))
	check.Must(t, check.Err(s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})))
	check.Must(t, check.Err(s.RegisterNode(t.Context(), startOf("one"))))
	w.lose("r2")
	run(t, s, "UPDATE shardid_deployment SET beat_at = beat_at - 9500") // a beat is due
	s.seen.mu.Lock()
	s.seen.times.Beat = s.seen.times.Beat.Add(-9500 * time.Millisecond)
	s.seen.mu.Unlock()
	check.Must(t, s.Beat(t.Context()))
	if w.marks["t:t"] != 1000 || w.marks["node"] != 1 {
		t.Fatalf("marks after the witness was lost: %v", w.marks)
	}
	anotherServer(t, s, 10*time.Second)
	seg, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})
	if err != nil || seg.First != 1001 {
		t.Errorf("tag: %+v, %v", seg, err)
	}
	if node, err := s.RegisterNode(t.Context(), startOf("two")); err != nil || node.ID != 2 {
		t.Errorf("node: %+v, %v", node, err)
	}
}

func startOf(token string) model.NodeStart {
	now := time.Now().Unix()
	return model.NodeStart{Host: "h", Port: "1", Type: model.NodeActual, Token: token, Workers: 1 << 22, NowSecond: now, UsedUntil: now + 7200}
}

// Starts that a copy of the database lacks keep their worker IDs: by the witness' mark,
// or by a jump.
func TestLostStarts(t *testing.T) {
	t.Parallel()
	for name, witness := range map[string]bool{"the witness knows": true, "nobody knows": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, opts := aWitness(), Options{}
			if witness {
				opts.Witness = w
			}
			s := mariaDB(t, opts)
			for range 2 {
				check.Must(t, s.Beat(t.Context()))
			}
			var last model.Node
			for _, token := range []string{"a", "b", "c"} {
				var err error
				if last, err = s.RegisterNode(t.Context(), startOf(token)); err != nil {
					t.Fatal(err)
				}
			}
			run(t, s, "DELETE FROM WORKER_NODE WHERE TOKEN <> 'a'", "ALTER TABLE WORKER_NODE AUTO_INCREMENT = 2",
				"UPDATE shardid_deployment SET node_last = 1")
			anotherServer(t, s, 10*time.Second)
			node, err := s.RegisterNode(t.Context(), startOf("d"))
			if err != nil || node.ID <= last.ID || witness && node.ID != last.ID+1 {
				t.Errorf("after %d: %+v, %v", last.ID, node, err)
			}
		})
	}
}

// Clocks that differ would hide how old a copy is.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	off := time.Duration(0)
	s := mariaDB(t, Options{Now: func() time.Time { return time.Now().Add(off) }})
	for _, off = range []time.Duration{6 * time.Second, -6 * time.Second} {
		check.Is(t, takeList(t, s, "h1", 0).Err, model.ErrClockApart, off)
		check.Is(t, check.Err(s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})), model.ErrClockApart, off)
		check.Is(t, check.Err(s.RegisterNode(t.Context(), startOf(off.String()))), model.ErrClockApart, off)
	}
	if off = 4 * time.Second; takeList(t, s, "h1", 0).Err != nil {
		t.Error("refused at 4 s")
	}
}

// A confirmation names its app, and does nothing where nothing waits.
func TestConfirm(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	confirm := func(name string, want int64) {
		t.Helper()
		if n, err := s.ConfirmApp(t.Context(), 1, name); err != nil || n != want {
			t.Errorf("confirmed %d, %v, want %d", n, err, want)
		}
	}
	confirm("test", 0)
	limit := model.Limit{MaxID: 1 << 31, Policy: model.LimitReject}
	run(t, s, "UPDATE id_alloc SET max_limit_id = 2147483648")
	anotherServer(t, s, 10*time.Second)
	if a := takeList(t, s, "h", 0); !errors.Is(a.Err, model.ErrUnconfirmed) || !strings.Contains(a.Err.Error(), `shardid confirm --app 1 --name "test"`) {
		t.Errorf("a narrow app under %+v: %v", limit, a.Err)
	}
	check.Is(t, check.Err(s.ConfirmApp(t.Context(), 1, "another")), model.ErrInvalidArgument, "another name")
	check.Is(t, check.Err(s.ConfirmApp(t.Context(), 2, "test")), model.ErrUnknownApp, "no app")
	confirm("test", model.Shards)
	confirm("test", 0)
	if a := takeList(t, s, "h", 0); a.Err != nil || a.Jumped != 0 {
		t.Errorf("confirmed: %+v", a)
	}
	if n, err := s.ConfirmTag(t.Context(), "t"); err != nil || n != 1 {
		t.Errorf("tag: %d, %v", n, err)
	}
	if n, err := s.ConfirmNodes(t.Context()); err != nil || n != 1 {
		t.Errorf("starts: %d, %v", n, err)
	}
	run(t, s, "UPDATE shardid_deployment SET server = 'another'")
	confirm("test", model.Shards) // what is confirmed is what this change left
}

func TestSettle(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		a := takeList(t, s, "h", 0)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		settle := func(floor int64) model.Allocation {
			return s.Settle(t.Context(), []model.AllocRequest{{Key: model.ListKey{App: 9}, Floor: 5}, {Key: model.ListKey{App: 1}, Floor: floor}})[1]
		}
		for _, c := range []struct{ floor, lifted int64 }{{a.Segment.Last, 0}, {a.Segment.Last - 1, 0}, {a.Segment.Last + 500, 500}, {a.Segment.Last + 500, 0}} {
			if got := settle(c.floor); got.Err != nil || got.Lifted != c.lifted {
				t.Errorf("Settle to %d = %+v, want a lift of %d", c.floor, got, c.lifted)
			}
		}
		if next := takeList(t, s, "h", 0); next.Err != nil || next.Segment.First != a.Segment.Last+501 {
			t.Errorf("after the lift: %+v", next)
		}
	})
}

// A rate of its own counts a minute after it was stored, in both directions, and is what
// a doubt is computed with at once.
func TestOwnRate(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	rate := int64(500_000)
	check.Must(t, check.Err(s.ChangeApp(t.Context(), 1, model.AppChange{MaxRate: &rate})))
	check.Must(t, check.Err(s.ChangeTag(t.Context(), "t", model.TagChange{MaxRate: &rate})))
	want := func(what string, most int64) {
		t.Helper()
		req := model.AllocRequest{Key: model.ListKey{App: 1}, MaxStep: model.MaxStep}
		run(t, s, "UPDATE id_alloc SET current_step = 1000000, taken_at = 0")
		if a := s.Allocate(t.Context(), []model.AllocRequest{req})[0]; a.Err != nil || a.Segment.Len() != most {
			t.Errorf("%s: %d, %v, want %d", what, a.Segment.Len(), a.Err, most)
		}
	}
	want("at first", DefaultListRate)
	run(t, s, "UPDATE id_alloc SET rate_from = rate_from - 60000")
	want("a minute later", rate)
	if seg, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: "t", Step: 1e6}); err != nil || seg.End-seg.First != rate {
		t.Errorf("the tag: %+v, %v, want the lower of both rates", seg, err)
	}
	if _, _, err := s.ChangeApp(t.Context(), 1, model.AppChange{MaxRate: ptr(int64(model.MaxListRate + 1))}); !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("an impossible rate: %v", err)
	}
}

// A higher configured rate counts a minute after a heartbeat has stored it.
func TestRaisedRate(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	raised := open(t, Options{Driver: MySQL, DSN: s.opts.DSN, ListRate: 300_000})
	for _, want := range []int64{DefaultListRate, 300_000} {
		check.Must(t, raised.Beat(t.Context()))
		run(t, s, "UPDATE id_alloc SET current_step = 1000000, taken_at = 0, tokens = 0")
		req := model.AllocRequest{Key: model.ListKey{App: 1}, MaxStep: model.MaxStep}
		if a := raised.Allocate(t.Context(), []model.AllocRequest{req})[0]; a.Err != nil || a.Segment.Len() != want {
			t.Errorf("%d, %v, want %d", a.Segment.Len(), a.Err, want)
		}
		run(t, s, "UPDATE shardid_deployment SET rates_from = rates_from - 60000")
	}
}
