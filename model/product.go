package model

// Verdict says whether shardid may be run on a product.
type Verdict string

// The verdicts.
const (
	VerdictRefused Verdict = "refused"
	VerdictUnknown Verdict = "unknown"
	VerdictWorks   Verdict = "works" // set up as the advice says
)

// Product is a server that speaks the protocol of MySQL or of Redis beside these themselves.
// docs/stores.md says what its documentation or source promises.
type Product struct {
	Name    string
	Verdict Verdict
	Advice  string // what doctor, and a refusal, tells the operator
}

// Products gives the products that doctor knows, in the order of docs/stores.md.
func Products() []Product {
	return []Product{
		{"Dragonfly", VerdictRefused, "its replication ID does not change when its data goes back in time, so IDs could repeat: use Redis or Valkey"},
		{"KeyDB", VerdictUnknown, "it is a fork of Redis 6 and is not tested: whether its replication ID changes as Redis' does is not known; never switch active-replica or multi-master on"},
		{"ElastiCache", VerdictUnknown, "it is a managed Redis or Valkey and is not tested: set maxmemory-policy noeviction in its parameter group; doctor cannot read what CONFIG would tell"},
		{"Memorystore", VerdictUnknown, "it is a managed Redis or Valkey and is not tested: set maxmemory-policy noeviction; doctor cannot read what CONFIG would tell"},
		{"Aurora", VerdictUnknown, "it is MySQL on other storage and is not tested: use the writer's endpoint, and leave innodb_flush_log_at_trx_commit at 1"},
		{"TiDB", VerdictRefused, "it has no stored procedures, so the schema cannot be made: use MySQL or MariaDB"},
		{"Vitess", VerdictUnknown, "it is a proxy in front of many servers and is not tested: point database.dsn at one MySQL below it"},
		{"Galera", VerdictWorks, "send all replicas of shardid to one node at a time, and leave innodb_flush_log_at_trx_commit at 1 on every node"},
		{"Group Replication", VerdictWorks, "use single-primary mode with group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER, and let database.hosts name all nodes"},
	}
}

// ProductNamed gives one row of Products.
func ProductNamed(name string) (Product, bool) {
	for _, p := range Products() {
		if p.Name == name {
			return p, true
		}
	}
	return Product{}, false
}

// ProductFinding judges a server that says it is the product of that name: "" and any name
// that is not in Products is one that the tests run on.
func ProductFinding(f Finding, name string) Finding {
	p, found := ProductNamed(name)
	switch {
	case !found:
		return Judged(f, true, "", "")
	case p.Verdict == VerdictWorks: // whether it is set up so cannot be read here
		f.Why = p.Advice
		return Judged(f, true, "", "")
	case p.Verdict == VerdictRefused:
		return Judged(f, false, LevelUnsafe, p.Advice)
	}
	return Unread(f, p.Advice)
}
