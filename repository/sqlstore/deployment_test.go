//go:build unix

package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/model/witness"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// fakeWitness remembers marks until its life changes.
type fakeWitness struct {
	mu    sync.Mutex
	life  string
	marks map[string]int64
	err   error
	reads int
	next  func() // happens once, after marks were read next
	seen  func() // happens once, after the next Scan
	asked func() // happens once, after the next Confirm
}

func aWitness() *fakeWitness { return &fakeWitness{life: "r1", marks: map[string]int64{}} }

func (w *fakeWitness) Place() string { return "here" }

func (w *fakeWitness) Life(context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life, w.err
}

func (w *fakeWitness) Confirm(ctx context.Context) (string, error) {
	if asked := w.asked; asked != nil {
		w.asked = nil
		asked()
	}
	return w.Life(ctx)
}

func (w *fakeWitness) inLife(life string) error {
	if w.err == nil && life != w.life {
		return model.ErrLifeChanged
	}
	return w.err
}

func (w *fakeWitness) Raise(_ context.Context, life string, marks []witness.Mark) ([]int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err, before := w.inLife(cmp.Or(life, w.life)), make([]int64, len(marks))
	for i, m := range marks {
		if before[i] = w.marks[m.Counter]; err == nil && m.Value > before[i] {
			w.marks[m.Counter] = m.Value
		}
	}
	if marks[0].Value == 0 { // they are read
		w.reads++
		if w.next != nil {
			w.next()
			w.next = nil
		}
	}
	return before, err
}

// Scan gives two marks at a time, in order.
func (w *fakeWitness) Scan(_ context.Context, life string, from uint64) (marks []witness.Mark, next uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Sorted(maps.Keys(w.marks))
	for i := int(from); i < min(int(from)+2, len(names)); i++ {
		marks = append(marks, witness.Mark{Counter: names[i], Value: w.marks[names[i]]})
	}
	if next = from + 2; int(next) >= len(names) {
		next = 0
	}
	if w.seen != nil {
		w.seen()
		w.seen = nil
	}
	return marks, next, w.inLife(life)
}

// lose makes the witness another one, which knows nothing.
func (w *fakeWitness) lose(life string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life, w.marks = life, map[string]int64{}
}

// mariaDB is a migrated store on a server, with an app of step 1000 and a tag, that sent a heartbeat.
func mariaDB(t *testing.T, opts Options) *Store {
	t.Helper()
	opts.Driver, opts.DSN = MySQL, testserver.SharedMariaDB(t).NewDatabase(t)
	s := openMigrated(t, opts)
	provision(t, s, app(1))
	addTag(t, s, "t", 1000)
	check.Must(t, s.Beat(t.Context()))
	return s
}

// witnessed is a mariaDB with a witness, for a test beside others.
func witnessed(t *testing.T) (*Store, *fakeWitness) {
	t.Helper()
	t.Parallel()
	w := aWitness()
	return mariaDB(t, Options{Witness: w}), w
}

// anotherServer makes the row that of another life, which beat so long ago, and lets
// the waits after it pass.
func anotherServer(t *testing.T, s *Store, ago time.Duration) {
	t.Helper()
	run(t, s, "UPDATE shardid_deployment SET server = 'another', beat_at = beat_at - "+ms(ago))
	check.Must(t, s.Beat(t.Context()))
	waited(t, s)
}

// waited lets the waits after a change of the server pass.
func waited(t *testing.T, s *Store) {
	t.Helper()
	run(t, s, "UPDATE shardid_deployment SET jump_from = 0, since = since - 3000",
		"UPDATE shardid_change SET noted_at = noted_at - 3000 WHERE number = (SELECT changes FROM shardid_deployment)")
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	s.seen.Since = s.seen.Since.Add(-3 * time.Second)
}

// waitedFor makes the store have met a change so long ago.
func waitedFor(s *Store, d time.Duration) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	s.seen.Met = time.Now().Add(-d)
}

func ms(d time.Duration) string {
	return "1000 * " + strings.TrimSuffix(d.Truncate(time.Second).String(), "s")
}

func nextTag(t *testing.T, s *Store) model.TagSegment {
	t.Helper()
	seg, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})
	check.Must(t, err)
	return seg
}

// wantNext wants the next numbers of list 1_0 and of tag t to begin there, without a jump, above rows that lacked so
// many.
func wantNext(t *testing.T, s *Store, list, tag, lifted int64) {
	t.Helper()
	a, b := one(s, key(1, 0), 0), nextTag(t, s)
	if a.Err != nil || a.Segment.First != list || b.First != tag || a.Jumped+b.Jumped != 0 || a.Lifted != lifted ||
		b.Lifted != lifted {
		t.Errorf("got %+v, %+v, want %d, %d, lifted by %d", a, b, list, tag, lifted)
	}
}

// back makes the rows of list 1_0 and of tag t those of a copy from before their first use.
func back(t *testing.T, s *Store) {
	t.Helper()
	run(t, s, "UPDATE id_alloc SET max_id = 0, last_max_id = 0 WHERE shard_id = 0",
		"UPDATE leaf_alloc SET max_id = 1, own_max_id = 1")
}

func TestServerChange(t *testing.T) {
	t.Parallel()
	w := aWitness()
	s := mariaDB(t, Options{Witness: w, ListRate: 5000, TagRate: 2000})
	wantNext(t, s, 1, 1, 0)
	back(t, s)
	run(t, s, "UPDATE shardid_deployment SET server = 'another'")
	check.Must(t, s.Beat(t.Context()))
	waiting := one(s, key(1, 0), 0).Err
	check.Is(t, waiting, model.ErrJumping, "while others may object")
	check.Equal(t, model.MayBeStored(waiting), false, "nothing is lost")
	waited(t, s)
	wantNext(t, s, 1001, 1001, 1000) // the witness vouches

	// Nobody vouches: the witness is in another life.
	w.lose("r2")
	anotherServer(t, s, 20*time.Second)
	a, b := one(s, key(1, 0), 500), nextTag(t, s)
	// the rows are younger than the heartbeat, clocks differ, and waited took 3 s off
	low, high := int64(2*5000*7), int64(2*5000*20)
	if a.Err != nil || a.Jumped < low || a.Jumped > high || a.Segment.First != 2000+a.Jumped+1 {
		t.Errorf("the list: %+v, want a jump of %d…%d", a, low, high)
	}
	if b.Jumped < low*2/5 || b.Jumped > high*2/5 || b.First != 2000+b.Jumped+1 {
		t.Errorf("the tag: %+v, want a jump of %d…%d", b, low*2/5, high*2/5)
	}
	if next := one(s, key(1, 0), a.Segment.Last); next.Err != nil || next.Jumped != 0 ||
		next.Segment.First != a.Segment.Last+1 {
		t.Errorf("it jumps once: %+v", next)
	}
	provision(t, s, scrambledApp(9)) // which has issued nothing, as far as anybody knows
}

// An operator's word needs no Redis, unless the witness knows what the rows may lack.
func TestDecisionWithoutRedis(t *testing.T) {
	s, w := witnessed(t)
	remove := func() error { return check.Err(s.DeleteTag(t.Context(), "t")) }
	nextTag(t, s)
	anotherServer(t, s, 10*time.Second)
	w.err = errors.New("away")
	check.Is(t, remove(), errWitnessAway, "before the rows are settled")
	w.err = nil
	check.Must(t, s.Beat(t.Context())) // settles
	w.err = errors.New("away")
	check.OK(t, remove(), "once they are")
}

// What another program has taken of a tag has no mark: the witness cannot vouch for it.
func TestTagOfAnotherProgram(t *testing.T) {
	s, _ := witnessed(t)
	nextTag(t, s)
	run(t, s, "UPDATE leaf_alloc SET max_id = max_id + 500") // as Leaf does
	anotherServer(t, s, 10*time.Second)
	if seg := nextTag(t, s); seg.Jumped < DefaultTagRate || seg.First != 1501+seg.Jumped {
		t.Errorf("%+v", seg)
	}
	if seg := nextTag(t, s); seg.Jumped != 0 {
		t.Errorf("it jumps once: %+v", seg)
	}
}

// After a change of the server that the witness vouched for, rows are brought up to its
// marks, those that are missing too: then it may be lost.
func TestSettle(t *testing.T) {
	s, w := witnessed(t)
	one(s, key(1, 0), 0)
	nextTag(t, s)
	check.Must(t, check.Err(s.registerStart(t.Context(), startOf("one"))))
	w.marks["t:lost"], w.marks["l:2_3"] = 500, 700
	back(t, s)
	run(t, s, "DELETE FROM WORKER_NODE", "ALTER TABLE WORKER_NODE AUTO_INCREMENT = 1",
		"UPDATE shardid_deployment SET node_last = 0")
	anotherServer(t, s, 10*time.Second)
	check.Must(t, s.Beat(t.Context())) // settles
	check.Equal(t, count(t, s, "SELECT settled FROM shardid_change"), 1, "settled")
	w.lose("r2")
	check.Must(t, s.Beat(t.Context()))
	provision(t, s, app(2))
	check.Must(t, check.Err(s.CreateTag(t.Context(), model.Tag{Name: "lost", MaxID: 1, Step: 1000})))
	wantNext(t, s, 1001, 1001, 0) // rows that were there
	a := one(s, key(2, 3), 0)
	b, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: "lost"})
	if a.Err != nil || err != nil || a.Segment.First != 701 || b.First != 501 {
		t.Errorf("rows that were lost: %+v, %+v, %v", a, b, err)
	}
	if node, err := s.registerStart(t.Context(), startOf("two")); err != nil || node.ID != 2 {
		t.Errorf("node: %+v, %v", node, err)
	}
}

// Who was slow does not say that the rows are settled when its witness is retired meanwhile, or another server has
// taken over, which may lack what they were raised by.
func TestNothingIsSettledForAnother(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []string{"witness = ''", "server = 'a third'"} {
		w := aWitness()
		s := mariaDB(t, Options{Witness: w})
		one(s, key(1, 0), 0)
		back(t, s)
		anotherServer(t, s, 10*time.Second)
		w.seen = func() { run(t, s, "UPDATE shardid_deployment SET "+meanwhile) }
		check.Is(t, s.Beat(t.Context()), errWitnessAway, meanwhile)
		check.Equal(t, count(t, s, "SELECT MAX(settled) FROM shardid_change"), 0, "settled", meanwhile)
	}
}

// A start that the database has lost may have taken over any worker ID: a settled row knows it
// as one that is not does.
func TestSettleStartsThatTookOver(t *testing.T) {
	t.Parallel()
	for _, settled := range []bool{false, true} {
		w := aWitness()
		s := mariaDB(t, Options{Witness: w})
		const now = 1_800_000_000
		for i := range 3 {
			register(t, s, aStart("t"+strconv.Itoa(i), 4, now))
		}
		w.marks["node"] = 4 // the lost one
		anotherServer(t, s, 10*time.Second)
		if settled {
			check.Must(t, s.Beat(t.Context()))
			check.Equal(t, count(t, s, "SELECT settled FROM shardid_change"), 1, "settled")
		}
		start := aStart("new", 4, now+4000+nodeRest)
		check.Is(t, check.Err(s.registerStart(t.Context(), start)), model.ErrUnconfirmed, "settled", settled)
		check.Must(t, check.Err(s.ConfirmNodes(t.Context())))
		register(t, s, start)
	}
}

// A raise by an operator is marked, so that a copy that lacks it does not walk into it.
func TestRaiseIsMarked(t *testing.T) {
	s, _ := witnessed(t)
	check.Must(t, check.Err(s.ChangeApp(t.Context(), 1, model.AppChange{MinIndex: ptr(int64(5000))})))
	check.Must(t, check.Err(s.ChangeTag(t.Context(), "t", model.TagChange{MaxID: ptr(int64(7000))})))
	back(t, s)
	anotherServer(t, s, 10*time.Second)
	if a, b := one(s, key(1, 0), 0), nextTag(t, s); a.Err != nil || a.Segment.First != 5001 || b.First != 7000 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// A database that says less than it has said before went back, whoever wrote to it.
func TestBeatWentBack(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	check.Equal(t, count(t, s, "SELECT SUM(doubt) FROM id_alloc"), 0, "the doubt at the first server")
	for range 2 { // it is read, not only written
		check.Must(t, s.Beat(t.Context()))
	}
	run(t, s, "UPDATE shardid_deployment SET beat_at = beat_at - 1")
	check.Is(t, one(s, key(1, 0), 0).Err, model.ErrJumping, "a doubt and the wait after it")
}

// A witness that does not answer is waited for, and then it does not vouch.
func TestWitnessIsWaitedFor(t *testing.T) {
	s, w := witnessed(t)
	nextTag(t, s)
	w.err = errors.New("away")
	run(t, s, "UPDATE shardid_deployment SET server = 'another'")
	a := one(s, key(1, 0), 0)
	if !errors.Is(a.Err, errServerChanged) || !strings.Contains(a.Err.Error(), "waiting up to 10s for Redis") {
		t.Errorf("while it is waited for: %v", a.Err)
	}
	waitedFor(s, 10*time.Second)
	check.Is(t, one(s, key(1, 0), 0).Err, model.ErrJumping, "afterwards")
	// What it says when it is back is too late, even of the same life.
	w.err = nil
	waited(t, s)
	check.Must(t, s.Beat(t.Context()))
	if seg := nextTag(t, s); seg.Jumped == 0 {
		t.Errorf("once it is back: %+v", seg)
	}
}

// Who does not hold the witness leaves a change to those who do, and then notes it without.
func TestHolderIsWaitedFor(t *testing.T) {
	s, w := witnessed(t)
	fresh, command := another(t, s, w), another(t, s, w)
	fresh.serves.Store(true)
	nextTag(t, s)
	back(t, s)
	run(t, s, "UPDATE shardid_deployment SET server = 'another'")
	check.Is(t, one(fresh, key(1, 0), 0).Err, errWaitingForHolder, "one that holds nothing")
	check.Must(t, s.Beat(t.Context()))
	waited(t, s)
	if seg := nextTag(t, fresh); seg.First != 1001 || seg.Jumped != 0 {
		t.Errorf("after the holder has noted it: %+v", seg)
	}
	s.giveUpHold() // as a process that was killed
	run(t, s, "UPDATE shardid_deployment SET server = 'another'")
	waitedFor(fresh, 4*time.Second)
	check.Is(t, one(fresh, key(1, 0), 0).Err, model.ErrJumping, "nobody holds it")
	run(t, s, "UPDATE shardid_deployment SET server = 'another', witness = 'r1 x'")
	check.Must(t, check.Err(command.ChangeTag(t.Context(), "t", model.TagChange{Step: ptr(int64(7))})))
}

// Replicas that have seen changes which the database lacks each note it once.
func TestEachObjectsOnce(t *testing.T) {
	t.Parallel()
	first := mariaDB(t, Options{})
	replicas := []*Store{first, another(t, first, nil), another(t, first, nil)}
	for i, r := range replicas {
		check.Must(t, r.Beat(t.Context()))
		r.seen.mu.Lock()
		r.seen.Changes, r.seen.Since = 1, time.UnixMilli(int64(1000+i))
		r.seen.mu.Unlock()
	}
	for range 3 {
		for _, r := range replicas {
			check.Must(t, r.noteServer(t.Context()))
		}
	}
	check.Equal(t, count(t, first, "SELECT changes FROM shardid_deployment"), 3, "changes")
}

// another is a second process on the database of a store.
func another(t *testing.T, s *Store, w Witness) *Store {
	t.Helper()
	opts := s.opts
	opts.Witness = w
	second, err := Open(t.Context(), opts)
	check.Must(t, err)
	t.Cleanup(func() { _ = second.Close() })
	return second
}

// The witness is one for all replicas, or none.
func TestOneWitness(t *testing.T) {
	t.Parallel()
	x, y := aWitness(), aWitness()
	y.life = "r9"
	first := mariaDB(t, Options{Witness: x})
	const names = "SELECT witness FROM shardid_deployment"
	witness := func() string {
		t.Helper()
		return witness.Life(text(t, first, names))
	}
	check.Equal(t, witness(), "r1", "the only one")
	before := text(t, first, names)
	for name, second := range map[string]*Store{"another Redis": another(t, first, y),
		"no Redis": another(t, first, nil)} {
		check.Must(t, second.Beat(t.Context()))
		away := check.Err(second.AllocateTag(t.Context(), model.TagRequest{Tag: "t"}))
		check.Is(t, away, errWitnessAway, name)
		wantAdvice(t, away, "start Redis, and let redis.url name the same Redis in the configuration of every replica")
		nextTag(t, first) // until it gives the witness up
		check.Must(t, first.Beat(t.Context()))
		check.Must(t, second.Beat(t.Context()))
		check.Equal(t, witness(), "", name)
		nextTag(t, first)
		nextTag(t, second)
		check.Must(t, second.Close())
		check.Must(t, first.Beat(t.Context()))
		check.Equal(t, witness(), "r1", "after "+name)
		check.Equal(t, text(t, first, names) == before, false, "a name is given again")
	}

	// Each says at once that it has given the witness up, so that another one can retire it.
	second, third := another(t, first, y), another(t, first, x)
	for _, s := range []*Store{third, second, first, third} {
		check.Must(t, s.Beat(t.Context()))
	}
	check.Equal(t, witness(), "", "two held it")
	check.Must(t, errors.Join(second.Close(), third.Close(), first.Beat(t.Context())))
	check.Equal(t, witness(), "r1", "the only one again")

	// One that vanished keeps it named, but not where it was replaced.
	vanished := another(t, first, x)
	check.Must(t, vanished.Beat(t.Context()))
	x.lose("r2")
	check.Must(t, first.Beat(t.Context()))
	check.Equal(t, witness(), "r1", "a replica that was heard of a moment ago")
	run(t, first, "UPDATE shardid_replica SET seen_at = seen_at - 9000 WHERE id = '"+vanished.id+"'")
	check.Must(t, first.Beat(t.Context()))
	check.Equal(t, witness(), "r2", "its place has another life")
}

// Who decides for all sees, under the lock, what others have said a moment ago.
func TestDecisionSeesHolds(t *testing.T) {
	s, w := witnessed(t)
	w.lose("r2")
	w.asked = func() {
		run(t, s, "INSERT INTO shardid_replica (id, uses, holds, list_rate, tag_rate, seen_at) "+
			"SELECT 'late', 'r1', witness, list_rate, tag_rate, beat_at + 1000 FROM shardid_deployment")
	}
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, witness.Life(text(t, s, "SELECT witness FROM shardid_deployment")), "r1",
		"the witness that is held")
}

// Most heartbeats write nothing. A replica repeats what it says of itself every 3 s, and one that has been gone for an
// hour is forgotten.
func TestMembership(t *testing.T) {
	t.Parallel()
	off := time.Duration(0)
	s := mariaDB(t, Options{Now: func() time.Time { return time.Now().Add(off) }})
	run(t, s, "UPDATE shardid_replica SET seen_at = 0")
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_replica WHERE seen_at > 0"), 0, "repeated at once")
	off = 3 * time.Second
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_replica WHERE seen_at > 0"), 1, "repeated")
	run(t, s, "UPDATE shardid_deployment SET beat_at = beat_at - 9500",
		"INSERT INTO shardid_replica (id, uses, holds, list_rate, tag_rate, seen_at) VALUES ('gone', '', '', 1, 1, 0)",
		"INSERT INTO shardid_fence (server, number, place, renewed_at) VALUES ('gone', 1, 'here', 0)")
	s.seen.mu.Lock()
	s.seen.Beat = s.seen.Beat.Add(-9500 * time.Millisecond)
	s.seen.mu.Unlock()
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, text(t, s, "SELECT GROUP_CONCAT(id) FROM shardid_replica"), s.id, "replicas")
	check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_fence"), 0, "leases of Redis servers that are gone")
}

// What the witness has learned since it was asked counts: a transaction that meets it runs again. As marks rise before
// a commit, those above the row tell of one that failed: no row has gone back.
func TestMarkHasRisen(t *testing.T) {
	s, w := witnessed(t)
	w.reads, w.next = 0, func() { w.marks["t:t"] = 5000 } // by another replica, on another copy of the database
	if seg := nextTag(t, s); seg.First != 5001 || w.reads != 2 || seg.Lifted+seg.Jumped != 0 {
		t.Errorf("%+v, asked %d times", seg, w.reads)
	}
	w.marks["l:1_0"] = 5000
	if a := one(s, key(1, 0), 0); a.Err != nil || a.Segment.First != 5001 || a.Lifted+a.Jumped != 0 {
		t.Errorf("after a commit that failed: %+v", a)
	}
}

func startOf(token string) nodeStart {
	return aStart(token, 1<<22, time.Now().Unix())
}

// Starts that a copy of the database lacks keep their worker IDs, by a jump where nobody knows them.
func TestLostStarts(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	for _, token := range []string{"a", "b", "c"} {
		register(t, s, startOf(token))
	}
	run(t, s, "DELETE FROM WORKER_NODE WHERE TOKEN <> 'a'", "ALTER TABLE WORKER_NODE AUTO_INCREMENT = 2",
		"UPDATE shardid_deployment SET node_last = 1")
	anotherServer(t, s, 10*time.Second)
	if node := register(t, s, startOf("d")); node.ID <= 3 {
		t.Errorf("after 3: %+v", node)
	}
}

// Clocks that differ would hide how old a copy is.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	off := time.Duration(0)
	s := mariaDB(t, Options{Now: func() time.Time { return time.Now().Add(off) }})
	for _, off = range []time.Duration{6 * time.Second, -6 * time.Second} {
		for _, err := range []error{
			one(s, key(1, 0), 0).Err,
			check.Err(s.AllocateTag(t.Context(), model.TagRequest{Tag: "t"})),
			check.Err(s.registerStart(t.Context(), startOf(off.String()))),
		} {
			check.Is(t, err, model.ErrClockApart, off)
			check.Has(t, err.Error(), "set both clocks (NTP): ")
			check.Equal(t, model.MayBeStored(err), false, off, "nothing is lost")
		}
	}
	if off = 4 * time.Second; one(s, key(1, 0), 0).Err != nil {
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
	run(t, s, "UPDATE id_alloc SET max_limit_id = 2147483648")
	waits := func(want int) {
		t.Helper()
		lists, err := s.Load(t.Context())
		n := len(slices.DeleteFunc(lists, func(l model.ListConfig) bool { return !l.Unconfirmed }))
		if err != nil || n != want {
			t.Errorf("%d lists wait, %v, want %d", n, err, want)
		}
	}
	waits(0)
	changes := s.Changes()
	anotherServer(t, s, 10*time.Second)
	check.Equal(t, s.Changes(), changes+1, "changes")
	waits(model.Shards) // before a caller is refused
	refused := one(s, key(1, 0), 0).Err
	check.Is(t, refused, model.ErrUnconfirmed, "a narrow app")
	check.Has(t, refused.Error(), `shardid confirm --app 1 --name "test"`)
	check.Is(t, check.Err(s.ConfirmApp(t.Context(), 1, "another")), model.ErrInvalidArgument, "another name")
	check.Is(t, check.Err(s.ConfirmApp(t.Context(), 2, "test")), model.ErrUnknownApp, "no app")
	confirm("test", model.Shards)
	waits(0)
	confirm("test", 0)
	if a := one(s, key(1, 0), 0); a.Err != nil || a.Jumped != 0 {
		t.Errorf("confirmed: %+v", a)
	}
	tags, err := s.ConfirmTag(t.Context(), "t")
	check.Must(t, err)
	tables, err := s.ConfirmNodes(t.Context())
	check.Must(t, err)
	check.Equal(t, tags+tables, 2, "a tag, and the starts")
	run(t, s, "UPDATE shardid_deployment SET server = 'another'")
	confirm("test", model.Shards) // what is confirmed is what this change left
}

// A segment is no longer than a second of the configured rate. A higher one counts a minute after a heartbeat has
// stored it.
func TestRaisedRate(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	raised := open(t, Options{Driver: MySQL, DSN: s.opts.DSN, ListRate: 300_000})
	for _, want := range []int64{DefaultListRate, 300_000} {
		check.Must(t, raised.Beat(t.Context()))
		run(t, s, "UPDATE id_alloc SET current_step = 1000000, taken_at = 0, tokens = 0")
		if a := one(raised, key(1, 0), 0); a.Err != nil || a.Segment.Len() != want {
			t.Errorf("%d, %v, want %d", a.Segment.Len(), a.Err, want)
		}
		run(t, s, "UPDATE leaf_alloc SET step = 10000000, taken_at = 0")
		seg := nextTag(t, raised)
		check.Equal(t, seg.End-seg.First, DefaultTagRate, "of a tag")
		run(t, s, "UPDATE shardid_deployment SET rates_from = rates_from - 60000")
	}
	// It is lowered once no replica has it any more.
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, count(t, s, "SELECT list_rate FROM shardid_deployment"), 300_000, "while another has it")
	check.Must(t, raised.Close())
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, count(t, s, "SELECT list_rate FROM shardid_deployment"), DefaultListRate, "once it has gone")
}

// What is made in a database that may lack another of its name begins above what that may have issued, or waits. An
// operator's word before the first ID that there never was one makes it begin at 1.
func TestBeginning(t *testing.T) {
	s, w := witnessed(t)
	ctx := t.Context()
	w.lose("r2") // nobody vouches
	anotherServer(t, s, 10*time.Second)
	day := model.Numbering{Pattern: "{yyyyMMdd}{seq:4}", Reset: model.ResetDay, Zone: "UTC",
		Overflow: model.OverflowRefuse}
	numbers, err := day.Numbers()
	check.Must(t, err)
	narrow := func(id uint8) {
		t.Helper()
		a := app(id)
		a.Limit = model.Limit{MaxID: 1<<32 - 1, Policy: model.LimitReject}
		provision(t, s, a)
	}
	tag := func(name string, n model.Numbering) {
		t.Helper()
		check.Must(t, check.Err(s.CreateTag(ctx, model.Tag{Name: name, Step: 100, MaxID: 1, Numbering: n})))
	}
	first := func(name string, n *model.Numbers) (int64, error) {
		seg, err := s.AllocateTag(ctx, model.TagRequest{Tag: name, Numbers: n})
		return seg.First, err
	}

	tag("plain", model.Numbering{})
	if begins, err := first("plain", nil); err != nil || begins < 1_000_000 {
		t.Errorf("the tag begins at %d, %v", begins, err)
	}
	tag("dated", day)
	check.Is(t, check.Err(first("dated", numbers)), model.ErrUnconfirmed)
	narrow(3)
	check.Is(t, one(s, key(3, 0), 0).Err, model.ErrUnconfirmed)
	wide, err := s.CreateApp(ctx, app(4))
	got := one(s, key(4, 0), 0)
	if err != nil || wide.HighestIndex < 100_000 || got.Segment.First != wide.HighestIndex+1 {
		t.Errorf("wide app %+v, %v, begins with %+v", wide, err, got)
	}

	narrow(5)
	tag("new", model.Numbering{})
	check.Must(t, check.Err(s.ConfirmApp(ctx, 5, "test")))
	for _, name := range []string{"dated", "new"} {
		check.Must(t, check.Err(s.ConfirmTag(ctx, name)))
	}
	wantSegment(t, one(s, key(5, 0), 0), 1, 1000)
	begins, err := first("new", nil)
	check.OK(t, err)
	check.Equal(t, begins, 1, "a tag that was confirmed")
	check.OK(t, check.Err(first("dated", numbers)))
}
