//go:build unix

package compare

import (
	"os"
	"syscall"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// generator is a row of the page.
type generator struct {
	kind    string // by which the programs know it
	name    string
	program string // that has it
	is      class
	path    string // where a shardid has it
}

// class is what a generator needs, or does.
type class int

const (
	local    class = iota
	held           // holds IDs of another row: it has a speed alone
	stored         // has a store
	counting       // counts in a store, so that it can be told what it skips
	ordered        // the same, and the IDs of all processes rise
)

var generators = []generator{
	{"queue", "**shardid** queue", "shardid", counting, "/v1/queue/1/ids?gatePass=alice&"},
	{"segment", "**shardid** segment", "shardid", counting, "/v1/segment/orders/ids?"},
	{"sequence", "**shardid** sequence", "shardid", ordered, "/v1/sequence/chat/ids?key=room42&"},
	{"snowflake", "**shardid** snowflake", "shardid", stored, "/v1/snowflake/ids?"},
	{"uid", "**shardid** UID", "shardid", stored, "/v1/uid/ids?"},
	{"lease", "**shardid** lease, Go client", "go", stored, "/lease?"},
	{"lease-java", "**shardid** lease, Java client", "java", stored, "/lease-java?"},
	{"client", "**shardid** segment, Go client", "go", held, "/client?"},
	{"client-java", "**shardid** segment, Java client", "java", held, "/client-java?"},
	{"cosid-snowflake", "CosId SnowflakeId", "java", local, "/cosid-snowflake?"},
	{"cosid-memory", "CosId SegmentChainId, a counter in memory", "java", held, "/cosid-memory?"},
	{"uidgenerator", "UidGenerator, cached", "java", stored, "/uidgenerator?"},
	{"mybatis-plus", "MyBatis-Plus", "java", local, "/mybatis-plus?"},
	{"hutool", "Hutool", "java", local, "/hutool?"},
	{"shardingsphere", "ShardingSphere `SNOWFLAKE`", "java", local, "/shardingsphere?"},
	{"yitter", "Yitter IdGenerator", "java", local, "/yitter?"},
	{"sonyflake", "Sonyflake", "go", local, "/sonyflake?"},
	{"bwmarrin", "bwmarrin/snowflake", "go", local, "/bwmarrin?"},
	{"incr", "`INCR` of one Redis", "shardid", ordered, ""}, // asked for beside each replica
	{"uuid", "UUIDv7, the control", "go", local, "/uuid?"},
}

func everything(g generator) bool { return g.is != held }
func withStore(g generator) bool  { return g.is >= stored }

// fault is a column of the page.
type fault struct {
	key, name string
	ofStores  bool           // of no concern to generators without a store; one process more starts after it
	hasClock  bool           // it sets the clock
	begin     func(w *world) // starts the processes; nil for two, of which the second has generators with a store
	lag       func(w *world) // what happens after it is lost; nil for nothing
	happens   func(w *world) // nil where what begins is the fault
}

var faults = []fault{
	{key: "two", name: "two processes on a machine", begin: func(w *world) { w.begin(everything) }},
	{key: "hundred", name: "a hundred processes", begin: aHundred},
	{key: "containers", name: "two containers with one address", begin: func(w *world) {
		if os.Getuid() != 0 {
			w.t.Skip("run it as root, for containers")
		}
		w.enter = []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
		w.begin(everything)
	}},
	{key: "kill", name: "kill -9, and start at once", happens: func(w *world) { w.restart(func() {}) }},
	{key: "clock", name: "clock back 5 s, right after 10", hasClock: true, happens: func(w *world) {
		w.setClock(-5)
		time.Sleep(10 * time.Second)
		w.setClock(0)
	}},
	{key: "restart", name: "clock back 5 s over a restart", hasClock: true, happens: func(w *world) {
		w.restart(func() { w.setClock(-5) })
		time.Sleep(10 * time.Second)
		w.setClock(0)
	}},
	{key: "frozen", name: "frozen for a minute", happens: func(w *world) {
		w.signal(syscall.SIGSTOP)
		w.add(2, withStore)
		time.Sleep(time.Minute)
		w.signal(syscall.SIGCONT)
		w.happen()
	}},
	{key: "emptied", name: "Redis emptied", ofStores: true, happens: func(w *world) { w.redis.FlushAll() }},
	{key: "redis", name: "Redis fails over to a lagging replica", ofStores: true,
		lag: (*world).lagRedis, happens: (*world).promoteRedis},
	{key: "database", name: "database fails over to a lagging copy", ofStores: true,
		lag: (*world).lagDatabase, happens: (*world).promoteDatabase},
	{key: "dump", name: "a dump restored, all stopped", ofStores: true,
		lag: (*world).takeDump, happens: func(w *world) { w.restart(w.restoreDump) }},
	{key: "both", name: "both stores go back at once", ofStores: true,
		lag:     func(w *world) { w.lagRedis(); w.lagDatabase() },
		happens: func(w *world) { w.promoteRedis(); w.promoteDatabase() }},
}

// run has a fault happen, and returns when each generator issues again, or after a hundred seconds.
func (f fault) run(w *world) {
	const length = 6 * time.Second // of IDs: more than a segment has, and than the clock is set back by
	if f.hasClock {
		w.setClock(0)
	}
	if f.begin != nil {
		f.begin(w)
	} else {
		w.begin(withStore)
	}
	if f.lag != nil {
		f.lag(w)
	}
	time.Sleep(length)
	if f.happens == nil {
		return
	}
	w.happen()
	f.happens(w)
	if f.ofStores {
		w.add(3, withStore)
	}
	time.Sleep(length)
	w.settle()
}

// begin starts two processes of each program, the second one with some of the generators, and returns when all issue.
func (w *world) begin(second func(generator) bool) {
	w.add(0, everything)
	w.add(1, second)
	w.settle()
}

// aHundred starts programs beside three replicas of shardid that are in use. Each issues for two seconds as soon as it
// runs, and in the end all issue together.
func aHundred(w *world) {
	for i := range 3 {
		w.launch("shardid", i, everything)
	}
	w.together(5 * time.Second)
	for i := range 100 {
		for _, program := range programs[1:] {
			w.ask(w.launch(program, i, everything), 2*time.Second)
		}
	}
	w.together(20 * time.Second)
}

// signal goes to the first process of each program.
func (w *world) signal(s syscall.Signal) {
	for _, p := range w.processes {
		if p.number == 0 {
			p.Signal(s)
		}
	}
}

// lagRedis leads the copy to where nobody listens.
func (w *world) lagRedis() { w.link.Switch(testserver.FreeAddrs(w.t, 1)[0]) }

func (w *world) promoteRedis() {
	w.redis.Kill()
	check.Must(w.t, w.copy.Client().Do(w.t.Context(), "REPLICAOF", "NO", "ONE").Err())
	w.redisAddr.Switch(w.copy.Addr)
}

// lagDatabase has a process start that the copy does not know.
func (w *world) lagDatabase() {
	w.db.Lag()
	w.add(2, withStore)
}

func (w *world) promoteDatabase() {
	w.db.Primary.Kill()
	w.db.Promote()
	w.dbAddr.Switch(w.db.Primary.Addr())
}

// takeDump has a process start that the dump does not know.
func (w *world) takeDump() {
	time.Sleep(15 * time.Second) // so that the counters have come far
	w.client("mariadb-dump", "--databases", "shardid", "peers", "--result-file="+w.dump)
	w.add(2, withStore)
}

func (w *world) restoreDump() { w.client("mariadb", "--execute=source "+w.dump) }
