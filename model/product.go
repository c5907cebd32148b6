package model

// Verdict says whether shardid may be run on a product.
type Verdict string

// The verdicts.
const (
	VerdictWorks   Verdict = "works"
	VerdictRefused Verdict = "refused"
	VerdictUnknown Verdict = "unknown"
)

// Product is a server that speaks the protocol of MySQL or of Redis and that the
// tests cannot start. What stands here is from its documentation or source.
type Product struct {
	Name    string
	Store   string // "database" or "redis", as in Finding
	Asks    string // what shardid relies on there
	Says    string // what its documentation or source says about that
	Verdict Verdict
	Advice  string // what doctor, and a refusal, tells the operator
	Told    string // how it is recognised; "" when it does not tell
	Source  string // address of the documentation
}

// Products gives the table that doctor and docs/stores.md show.
func Products() []Product {
	return []Product{
		{
			Name: "Dragonfly", Store: "redis", Verdict: VerdictRefused,
			Asks:   "a new `master_replid` whenever the data may have gone back",
			Says:   "the ID is drawn once, when the process starts, and a snapshot that is loaded later or a takeover there and back keeps it; INFO has no `master_replid2`",
			Advice: "its replication ID does not change when its data goes back in time, so IDs could repeat: use Redis or Valkey",
			Told:   "`dragonfly_version` in INFO", Source: "https://github.com/dragonflydb/dragonfly/blob/main/src/server/server_family.cc",
		},
		{
			Name: "KeyDB", Store: "redis", Verdict: VerdictUnknown,
			Asks:   "the same, and one master",
			Says:   "a fork of Redis 6.3; with `active-replica` or `multi-master` two servers take writes and the last one wins, which doctor calls unsafe",
			Advice: "it is a fork of Redis 6 and is not tested: whether its replication ID changes as Redis' does is not known; never switch active-replica or multi-master on",
			Told:   "`mvcc_depth` in INFO", Source: "https://docs.keydb.dev/docs/active-rep",
		},
		{
			Name: "ElastiCache", Store: "redis", Verdict: VerdictUnknown,
			Asks:   "the same; EVALSHA and INFO for scripts; `noeviction`",
			Says:   "Redis or Valkey with CONFIG and others closed; replicas are asynchronous, and the parameters are in a parameter group",
			Advice: "it is a managed Redis or Valkey and is not tested: set maxmemory-policy noeviction in its parameter group; doctor cannot read what CONFIG would tell",
			Told:   "`os:Amazon ElastiCache` in INFO", Source: "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html",
		},
		{
			Name: "Memorystore", Store: "redis", Verdict: VerdictUnknown,
			Asks:   "the same",
			Says:   "Redis or Valkey; EVAL and EVALSHA are allowed, CONFIG GET is not",
			Advice: "it is a managed Redis or Valkey and is not tested: set maxmemory-policy noeviction; doctor cannot read what CONFIG would tell",
			Source: "https://docs.cloud.google.com/memorystore/docs/valkey/supported-commands",
		},
		{
			Name: "Aurora", Store: "database", Verdict: VerdictUnknown,
			Asks:   "a commit that outlives a failover; row locks; a name for each life of a server",
			Says:   "MySQL 8 on storage that a cluster shares; with `innodb_flush_log_at_trx_commit` other than 1 commits can be lost",
			Advice: "it is MySQL on other storage and is not tested: use the writer's endpoint, and leave innodb_flush_log_at_trx_commit at 1",
			Told:   "the variable `aurora_version`", Source: "https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/AuroraMySQL.BestPractices.FeatureRecommendations.html",
		},
		{
			Name: "TiDB", Store: "database", Verdict: VerdictRefused,
			Asks:   "stored procedures (`alloc_initData`), CHECK that is enforced",
			Says:   "no stored procedures; CHECK is off by default",
			Advice: "it has no stored procedures, so the schema cannot be made: use MySQL or MariaDB",
			Told:   "`TiDB` in VERSION()", Source: "https://docs.pingcap.com/tidb/stable/mysql-compatibility",
		},
		{
			Name: "Vitess", Store: "database", Verdict: VerdictUnknown,
			Asks:   "one MySQL behind a connection, its own variables and status, stored procedures",
			Says:   "a proxy in front of many; procedures can be called in unsharded keyspaces only",
			Advice: "it is a proxy in front of many servers and is not tested: point database.dsn at one MySQL below it",
			Told:   "`Vitess` in VERSION()", Source: "https://vitess.io/docs/reference/compatibility/mysql-compatibility/",
		},
		{
			Name: "Galera", Store: "database", Verdict: VerdictUnknown,
			Asks:   "row locks that hold for all replicas of shardid; a commit that outlives its node",
			Says:   "locks are of one node, and its manual names lost updates between nodes; an independent test saw these in a healthy cluster, and lost commits after crashes",
			Advice: "updates through several nodes can be lost, so a segment could be handed out twice: send all replicas of shardid to one and the same node, with innodb_flush_log_at_trx_commit = 1 on every node; it is not tested",
			Told:   "the status `wsrep_cluster_state_uuid`", Source: "https://jepsen.io/blog/2026-03-16-mariadb-galera-cluster-12.1.2",
		},
		{
			Name: "Group Replication", Store: "database", Verdict: VerdictUnknown,
			Asks:   "the same",
			Says:   "with one primary, and `BEFORE_ON_PRIMARY_FAILOVER` (the default from MySQL 8.4), a new primary takes no transaction before it has applied what the old one left",
			Advice: "it is not tested: use single-primary mode with group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER, and connect to the primary",
			Told:   "the variable `group_replication_group_name`", Source: "https://dev.mysql.com/doc/refman/9.4/en/group-replication-understanding-consistency-guarantees.html",
		},
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
	case !found || p.Verdict == VerdictWorks:
		return Judged(f, true, "", "")
	case p.Verdict == VerdictRefused:
		return Judged(f, false, LevelUnsafe, p.Advice)
	}
	return Unread(f, p.Advice)
}
