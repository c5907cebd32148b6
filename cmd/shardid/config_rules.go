package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// rule is a condition on several keys. The problem names them; the source in
// the message is that of the first of keys that was set.
type rule struct {
	broken  bool
	problem string
	keys    []string
}

func (c Config) rules() []rule {
	rules := append(c.serverRules(), c.accessRules()...)
	rules = append(rules, c.databaseRules()...)
	rules = append(rules, c.databaseTLSRules()...)
	rules = append(rules, c.redisRules()...)
	rules = append(rules, c.redisTLSRules()...)
	return append(rules, c.modeRules()...)
}

func (c Config) serverRules() []rule {
	s := c.Server
	return []rule{{
		s.DrainDelay >= s.ShutdownTimeout,
		fmt.Sprintf("server.drain_delay %s leaves nothing of server.shutdown_timeout %s: raise the timeout or lower the delay", s.DrainDelay, s.ShutdownTimeout),
		[]string{"server.drain_delay", "server.shutdown_timeout"},
	}, {
		s.PprofAddr == s.Addr && !strings.HasSuffix(s.Addr, ":0"),
		"server.pprof_addr is the same as server.addr: give it a port of its own",
		[]string{"server.pprof_addr", "server.addr"},
	}}
}

func (c Config) accessRules() []rule {
	s := c.Server
	return []rule{{
		s.RequireToken && s.TokensFile == "",
		"server.require_token is true but server.tokens_file is empty: name the file that has the tokens, see shardid token --help",
		[]string{"server.require_token", "server.tokens_file"},
	}, {
		s.ProtectMonitoring && s.TokensFile+s.AdminToken == "",
		"server.protect_monitoring is true but there is no token: set server.tokens_file or server.admin_token",
		[]string{"server.protect_monitoring", "server.tokens_file", "server.admin_token"},
	}, {
		(s.TLSCertFile == "") != (s.TLSKeyFile == ""),
		"server.tls_cert_file and server.tls_key_file belong together: set both or none",
		[]string{"server.tls_cert_file", "server.tls_key_file"},
	}, {
		s.TLSClientCAFile != "" && s.TLSCertFile == "",
		"server.tls_client_ca_file is set but server.tls_cert_file is empty: clients show certificates over TLS only",
		[]string{"server.tls_client_ca_file", "server.tls_cert_file"},
	}}
}

func (c Config) databaseRules() []rule {
	const write = "write user:password@tcp(host:3306)/shardid"
	d := c.Database
	isMySQL := d.Driver == "mysql"
	dsn, err := mysql.ParseDSN(d.DSN)
	return []rule{{
		isMySQL && d.DSN == "",
		"database.driver is mysql but database.dsn is empty: " + write + ", best in SHARDID_DATABASE_DSN",
		[]string{"database.driver", "database.dsn"},
	}, {
		isMySQL && err != nil,
		"database.dsn is not a go-sql-driver data source name: " + write,
		[]string{"database.dsn", "database.driver"},
	}, {
		isMySQL && err == nil && dsn.DBName == "",
		"database.dsn names no database: " + write,
		[]string{"database.dsn", "database.driver"},
	}, {
		!isMySQL && namesServer(d.DSN),
		"database.dsn is that of a server but database.driver is sqlite, which takes the path of a file: set database.driver to mysql, the only servers are MySQL and MariaDB, or correct database.dsn",
		[]string{"database.dsn", "database.driver"},
	}}
}

// namesServer reports whether a data source name is plainly no path of a file:
// user:password@tcp(host)/db, user@/db, postgres://host/db, host=h dbname=d.
func namesServer(dsn string) bool {
	return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://|@[a-z]*\(.*\)/|@/|^[^/\\@:]{2,}:[^@]*@|\bdbname=`).MatchString(dsn)
}

func (c Config) databaseTLSRules() []rule {
	d := c.Database
	dsn, err := mysql.ParseDSN(d.DSN)
	return []rule{{
		d.TLS && d.Driver != "mysql",
		"database.tls is true but database.driver is sqlite, a file: set database.driver to mysql",
		[]string{"database.tls", "database.driver"},
	}, {
		d.TLS && d.Driver == "mysql" && err == nil && dsn.TLSConfig != "",
		"database.tls is true but database.dsn has a parameter tls too: remove that",
		[]string{"database.dsn", "database.tls"},
	}, {
		!d.TLS && (d.TLSCAFile+d.TLSCertFile+d.TLSKeyFile+d.TLSServerName != "" || d.TLSInsecureSkipVerify),
		"a database.tls_* key is set but database.tls is false: set database.tls to true",
		[]string{"database.tls_ca_file", "database.tls_cert_file", "database.tls_key_file", "database.tls_server_name", "database.tls_insecure_skip_verify", "database.tls"},
	}, {
		(d.TLSCertFile == "") != (d.TLSKeyFile == ""),
		"database.tls_cert_file and database.tls_key_file belong together: set both or none",
		[]string{"database.tls_cert_file", "database.tls_key_file"},
	}}
}

func (c Config) redisRules() []rule {
	r := c.Redis
	sentinel, embedded := r.Mode == "sentinel", r.Mode == "embedded"
	return []rule{{
		embedded && len(r.Addrs) > 0,
		"redis.addrs is set but redis.mode is embedded: set redis.mode to single, sentinel or cluster",
		[]string{"redis.addrs", "redis.mode"},
	}, {
		!embedded && len(r.Addrs) == 0,
		"redis.mode is " + r.Mode + " but redis.addrs is empty: list host:port of the servers",
		[]string{"redis.mode", "redis.addrs"},
	}, {
		r.Mode == "single" && len(r.Addrs) > 1,
		"redis.mode is single but redis.addrs has several: keep one, or set redis.mode to sentinel or cluster",
		[]string{"redis.addrs", "redis.mode"},
	}, {
		sentinel && r.MasterName == "",
		"redis.mode is sentinel but redis.master_name is empty: set the name of the master",
		[]string{"redis.mode", "redis.master_name"},
	}, {
		!sentinel && r.MasterName+r.SentinelUsername+r.SentinelPassword != "",
		"redis.master_name or a redis.sentinel_* key is set but redis.mode is " + r.Mode + ": set redis.mode to sentinel or remove them",
		[]string{"redis.master_name", "redis.sentinel_username", "redis.sentinel_password", "redis.mode"},
	}, {
		r.Mode == "cluster" && r.DB != 0,
		"redis.mode is cluster but redis.db is not 0: remove redis.db, a cluster has only database 0",
		[]string{"redis.db", "redis.mode"},
	}}
}

func (c Config) redisTLSRules() []rule {
	r := c.Redis
	return []rule{{
		!r.TLS && (r.TLSCAFile+r.TLSCertFile+r.TLSKeyFile+r.TLSServerName != "" || r.TLSInsecureSkipVerify),
		"a redis.tls_* key is set but redis.tls is false: set redis.tls to true",
		[]string{"redis.tls_ca_file", "redis.tls_cert_file", "redis.tls_key_file", "redis.tls_server_name", "redis.tls_insecure_skip_verify", "redis.tls"},
	}, {
		(r.TLSCertFile == "") != (r.TLSKeyFile == ""),
		"redis.tls_cert_file and redis.tls_key_file belong together: set both or none",
		[]string{"redis.tls_cert_file", "redis.tls_key_file"},
	}}
}

func (c Config) modeRules() []rule {
	w := c.Snowflake.Worker
	rules := []rule{{
		w.Mode == "local" && len(w.LocalMap) == 0,
		"snowflake.worker.mode is local but snowflake.worker.local_map is empty: list ip:port with a worker ID for each instance",
		[]string{"snowflake.worker.mode", "snowflake.worker.local_map"},
	}, {
		strings.HasPrefix(w.Mode, "zk") && len(c.ZooKeeper.Addrs) == 0,
		"snowflake.worker.mode is " + w.Mode + " but zookeeper.addrs is empty: list host:port of the servers",
		[]string{"snowflake.worker.mode", "zookeeper.addrs"},
	}, {
		w.Mode == "redis" && c.Redis.Mode == "embedded",
		"snowflake.worker.mode is redis but redis.mode is embedded: set redis.mode and redis.addrs, or another snowflake.worker.mode",
		[]string{"snowflake.worker.mode", "redis.mode"},
	}, {
		c.UID.Mode == "cached" && c.UID.SeqBits+c.UID.BoostPower > 30,
		fmt.Sprintf("the ring has 2^(uid.seq_bits + uid.boost_power) slots and %d + %d is more than 30: lower uid.boost_power, or set uid.mode to default", c.UID.SeqBits, c.UID.BoostPower),
		[]string{"uid.boost_power", "uid.seq_bits"},
	}, c.bitsRule()}
	holder := map[int]bool{}
	for _, id := range w.LocalMap {
		if holder[id] {
			rules = append(rules, rule{true,
				"snowflake.worker.local_map gives one worker ID to two instances: give each its own",
				[]string{"snowflake.worker.local_map"}})
		}
		holder[id] = true
	}
	return rules
}

func (c Config) bitsRule() rule {
	sum := c.UID.TimeBits + c.UID.WorkerBits + c.UID.SeqBits
	return rule{
		sum != 63,
		fmt.Sprintf("uid.time_bits, uid.worker_bits and uid.seq_bits add up to %d: make the sum 63", sum),
		[]string{"uid.time_bits", "uid.worker_bits", "uid.seq_bits"},
	}
}
