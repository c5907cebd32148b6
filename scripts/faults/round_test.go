//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"
)

// plan is one run.
type plan struct {
	topology string
	seed     uint64
	rounds   []round
	numbered bool // sequences are waited for after each round, too, which takes as long as a lease
	// goesOn is asked before every round; nil is always.
	goesOn func() bool
}

const (
	replicas  = 3    // processes of shardid
	goClients = 2    // processes with the Go client
	proof     = 1500 // IDs that every process must give after a round: more than it takes ahead
)

// round is one entry of the schedule.
type round struct {
	fault
	seed      uint64  // of the choices within
	redis, db Weather // beside the fault: requests and replies that are dropped, and are late
	// careful is a round that begins when no earlier fault has an effect any more, so that it can be judged.
	careful bool
}

// schedule shuffles the faults of a topology, again and again until there are n; what comes before all others comes
// once. A share of the rounds, from 0 to 1, is careful; half of the others come in bad weather.
func schedule(seed uint64, topology string, n int, careful float64) (rounds []round) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	for len(rounds) < n {
		kinds := slices.DeleteFunc(faultsOn(topology), func(f fault) bool { return f.first > 0 && len(rounds) > 0 })
		rnd.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		slices.SortStableFunc(kinds, func(a, b fault) int { return b.first - a.first })
		for _, f := range kinds {
			r := round{fault: f, seed: rnd.Uint64(), careful: rnd.Float64() < careful}
			proxied := topology == onSingle || topology == onGroup
			switch weather := rnd.IntN(6); {
			case f.calm || r.careful:
			case weather == 0:
				r.db = Weather{DropReply: 0.03}
			case weather == 1 && proxied:
				r.redis = Weather{DropReply: 0.02}
			case weather == 2 && proxied:
				r.redis = Weather{LateRequest: 0.05, Longest: 1500 * time.Millisecond}
			}
			rounds = append(rounds, r)
		}
	}
	return rounds[:n]
}

// play is a run: round by round a fault, healing, and the proof that every process issues again. A round that
// cost too much does not end it, one after which something does not work does.
func (p plan) play(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, p)
	w.startCallers()
	w.verify()
	for i, r := range p.rounds {
		if p.goesOn != nil && !p.goesOn() {
			break
		}
		works := true // if -run leaves the round out
		t.Run(r.name, func(t *testing.T) {
			works, w.t = false, t
			defer func() { w.t = w.whole }()
			w.round(i+1, r)
			works = true
		})
		if !works {
			break
		}
	}
	w.end()
	return w
}

// round breaks something, heals it, waits until all works again, and judges what that has cost.
func (w *world) round(i int, r round) {
	w.t.Helper()
	w.rnd, w.notes, w.restarting = rand.New(rand.NewPCG(r.seed, 2)), "", 0
	if r.careful {
		w.rest()
	}
	before, begun := w.figures(), time.Now()
	w.phase(fmt.Sprintf("round %d: %s", i, r.name))
	w.setWeather(r.redis, r.db)
	r.run(w)
	broken := time.Since(begun)
	w.heal()
	w.verify()
	cost := w.figures().since(before)
	if r.careful {
		w.judge(r.fault, cost)
	}
	w.t.Logf("round %2d: %-32s %5.2f s, healed in %5.2f s, %d duplicates; %v%s; weather %v %v", i, r.name,
		broken.Seconds(), (time.Since(begun) - broken).Seconds(), w.books.Duplicates(), cost, w.notes, r.redis, r.db)
}

// figures are what a fault may change, and what it has changed.
type figures struct {
	gaps    map[rig.List]int64 // numbers that lists left out, of those that are asked for all the time
	asked   int                // times that an operator had to confirm an app
	without time.Duration      // the longest that a process which nobody broke had no new IDs
	whom    string             // and which that was, of which mode
}

// watched are the lists whose gaps are judged: one of each kind of app, and a tag.
func (w *world) watched() (lists []rig.List) {
	if w.hasRedis() {
		lists = append(lists, aliceList)
		for _, app := range narrowApps {
			lists = append(lists, rig.List{App: app})
		}
	}
	return append(lists, ordersList)
}

// figures begins to count anew for how long processes are without IDs.
func (w *world) figures() figures {
	w.t.Helper()
	f := figures{gaps: map[rig.List]int64{}, asked: w.confirmed}
	for _, in := range w.watched() {
		ids, highest := w.books.Of(in)
		f.gaps[in] = highest - ids
	}
	for _, p := range w.procs {
		for m, absent := range p.absences(w.modes()) {
			if absent > f.without && !p.broken {
				f.without, f.whom = absent, fmt.Sprintf("%s, %s", p.name, m.name())
			}
		}
		p.broken = false
	}
	return f
}

// since is what has come since then.
func (f figures) since(before figures) figures {
	gaps := maps.Clone(f.gaps)
	for in := range gaps {
		gaps[in] -= before.gaps[in]
	}
	f.gaps, f.asked = gaps, f.asked-before.asked
	return f
}

func (f figures) String() string {
	text := fmt.Sprintf("without IDs for %v (%s), left out", f.without.Round(10*time.Millisecond), f.whom)
	for _, in := range slices.SortedFunc(maps.Keys(f.gaps), func(a, b rig.List) int { return int(b.App - a.App) }) {
		text += fmt.Sprintf(" %d of %d,", f.gaps[in], in.App)
	}
	return text + fmt.Sprintf(" asked %d times", f.asked)
}

// What a fault may leave out that makes nothing jump: segments that were lost with Redis, or on their way to
// it, of a second of the rate each; up to 13 of them were seen. A jump is twice the rate, which for a tag is ten
// times that of a list, for all seconds that the database may lack: 17 at least were seen.
const (
	fewIndices = 100_000
	// A narrow list holds 131 at most. An operator raises it by half of this: a later round may begin before the
	// list jumps.
	fewNarrow = 1_000
)

// isNarrow says whether a list asks an operator before it jumps.
func isNarrow(in rig.List) bool { return in.App == narrowApps[0] }

// few is what a list leaves out where nothing makes it jump.
func few(in rig.List) int64 {
	switch {
	case in == ordersList:
		return 10 * fewIndices
	case isNarrow(in):
		return fewNarrow
	default:
		return fewIndices
	}
}

// judge fails the round that has cost more than its row allows.
func (w *world) judge(f fault, cost figures) {
	w.t.Helper()
	leftOut, without, asks := f.leftOut, f.without, f.asks
	if !w.hasRedis() && f.database {
		leftOut, without, asks = max(leftOut, jumps), max(without, 60*time.Second), maybe // nobody vouches
	}
	for in, gap := range cost.gaps {
		allowed := few(in)
		switch {
		case in == ordersList:
			allowed += 10 * leftOut
		case !isNarrow(in):
			allowed += leftOut
		case asks != never:
			continue // the operator raises it
		}
		if gap > allowed {
			w.t.Errorf("%v left out %d numbers, at most %d were to be", in, gap, allowed)
		}
	}
	if asks == never && cost.asked > 0 || asks == always && cost.asked == 0 {
		w.t.Errorf("the operator was asked %d times, he was to be: %v", cost.asked, asks)
	}
	if without == 0 {
		without = 5 * time.Second
	}
	if without += w.restarting; cost.without > without {
		w.t.Errorf("%s was without new IDs for %v, it was to be %v at most", cost.whom, cost.without, without)
	}
}

// row is how far the database says that a list has come.
func (w *world) row(in rig.List) int64 {
	w.t.Helper()
	if in == ordersList {
		return w.number("SELECT max_id FROM leaf_alloc WHERE biz_tag = ?", ordersTag)
	}
	return w.number("SELECT max_id FROM id_alloc WHERE app_id = ? AND shard_id = ?", in.App, in.Shard)
}

// rows are those of the lists that are watched.
func (w *world) rows() map[rig.List]int64 {
	w.t.Helper()
	rows := map[rig.List]int64{}
	for _, in := range w.watched() {
		rows[in] = w.row(in)
	}
	return rows
}

// accounted says whether a list is in no doubt about the changes of the database's server.
func (w *world) accounted(in rig.List) bool {
	w.t.Helper()
	const accounts = "SELECT last_change = changes AND doubt = 0 FROM shardid_deployment, "
	if in == ordersList {
		return w.number(accounts+"leaf_alloc WHERE biz_tag = ?", ordersTag) > 0
	}
	return w.number(accounts+"id_alloc WHERE app_id = ? AND shard_id = ?", in.App, in.Shard) > 0
}

// metDatabase returns when every process has written to the database, and so has noted that it is another one.
func (w *world) metDatabase() {
	w.t.Helper()
	begun := w.number("SELECT COALESCE(MAX(seen_at), 0) FROM shardid_replica")
	w.until("every process has met the database", func() error {
		const met = "SELECT COUNT(*) FROM shardid_replica WHERE seen_at > ?"
		if n := w.number(met, begun); n < int64(len(w.procs)) {
			return fmt.Errorf("%d have", n)
		}
		return nil
	})
}

// beyond returns when lists have given numbers beyond what their rows said and beyond a jump. A row that went back
// says less than was given, and one that has jumped more than is given yet. What a fault may leave out is left out
// then, and who has to be asked was asked.
func (w *world) beyond(rows map[rig.List]int64) {
	w.t.Helper()
	w.metDatabase()
	for in, row := range rows {
		m := w.modes()[slices.IndexFunc(w.modes(), func(m mode) bool { return m.app == in.App })]
		count := segmentLen
		if isNarrow(in) {
			count = 20 // of few
		}
		w.until(m.name()+" continues beyond its row", func() error {
			for _, p := range w.procs {
				if err := w.ask(context.Background(), p, m, alice, count); err != nil {
					w.operate(m.app, err)
					return err
				}
			}
			_, given := w.books.Of(in)
			now := w.row(in)
			if given <= row || !w.accounted(in) || now-given > few(in) {
				return fmt.Errorf("it has come to %d, the row said %d and says %d", given, row, now)
			}
			return nil
		})
	}
}

// command is one that a refusal names for an operator.
var command = regexp.MustCompile("shardid (confirm[^`]*)`")

// quotes removes those of an argument, as JSON has them.
var quotes = strings.NewReplacer(`\`, "", `"`, "")

// operate does what an operator would, where a refusal names a command. After a mere restart that is all;
// where the database may lack numbers, the app is raised above all that it has given, and what processes hold
// of it, before. A command that fails is tried again with the next refusal.
func (w *world) operate(app int64, refusal error) {
	w.t.Helper()
	words := command.FindStringSubmatch(refusal.Error())
	if words == nil {
		return
	}
	w.note("asked to %s", words[1])
	commands := [][]string{strings.Fields(quotes.Replace(words[1]))}
	if isApp := app >= 0; isApp && w.lacking {
		highest := int64(0)
		for shard := range int64(64) {
			_, last := w.books.Of(rig.List{App: app, Shard: shard})
			highest = max(highest, last)
		}
		raise := []string{"apps", "set", "--app", fmt.Sprint(app), "--min-index", fmt.Sprint(highest + fewNarrow/2)}
		commands = slices.Insert(commands, 0, raise)
	}
	for _, args := range commands {
		if err := w.try(args...); err != nil {
			w.t.Logf("the operator: %v", err)
			return
		}
	}
	if app >= 0 { // a process that starts may ask about what an earlier round left in doubt
		w.confirmed++
	}
}

// end stops everybody, and fails the test for whatever was wrong.
func (w *world) end() {
	w.t.Helper()
	w.phase("end")
	w.callers.Stop()
	w.numbers.Stop()
	for _, g := range w.gophers {
		g.kill()
	}
	w.allocated()
	w.books.Settle(w.t)
	for _, s := range w.spaces {
		s.order.Settle(w.t, s.name)
	}
	for _, p := range w.procs {
		if n := strings.Count(p.Output(), "find the other writer of this list"); n > 0 {
			w.t.Errorf("%s: the tripwire refused indices %d times", p.name, n)
		}
	}
}

// allocated checks that no index above the max_id of its row was delivered. Where the database went back, a
// list that nobody has used since is used first: only then does its row say what it lacked.
func (w *world) allocated() {
	w.t.Helper()
	for in, highest := range w.books.Highest() {
		behind := func() bool {
			const query = "SELECT COUNT(*) FROM id_alloc WHERE app_id = ? AND shard_id = ? AND max_id < ?"
			return w.number(query, in.App, in.Shard, highest) > 0
		}
		if !behind() {
			continue
		}
		w.until(fmt.Sprintf("the row of %v, which delivered %d, rises", in, highest), func() error {
			err := w.ask(context.Background(), w.procs[0], mode{app: in.App}, rig.PassOf(in.Shard), 100)
			if err != nil || !behind() {
				return err
			}
			return errors.New("it is below")
		})
	}
}
